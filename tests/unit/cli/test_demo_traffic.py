"""The demo's traffic: the same on every run, and never later than its DELAY."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from penstock.cli.demo_queries import ALERTS
from penstock.cli.demo_traffic import DELAY_US, LINKS, Traffic

SMALL = Traffic(rows=8_000)


def test_equal_settings_give_equal_rows() -> None:
    first, second = list(SMALL.batches(2_000)), list(SMALL.batches(2_000))
    assert [link for link, _ in first] == list(LINKS) * 4
    assert all(a.equals(b) for (_, a), (_, b) in zip(first, second, strict=True))
    assert sum(rows.num_rows for _, rows in first) == SMALL.rows


def test_rows_come_out_of_order_but_within_the_delay() -> None:
    rows = pa.concat_tables([rows for link, rows in SMALL.batches(2_000) if link == LINKS[0]])
    ts = rows["ts"].cast(pa.int64()).to_numpy()
    behind = np.maximum.accumulate(ts) - ts
    assert 0 < behind.max() <= DELAY_US


def test_sources_are_skewed() -> None:
    rows = pa.concat_tables([rows for _, rows in SMALL.batches()])
    counts = np.sort(rows["src"].value_counts().field("counts").to_numpy())
    assert counts[-1] > 20 * np.median(counts)


def test_alerts_have_parameters() -> None:
    for alert in ALERTS:
        assert alert.params(5).num_rows == 5
        assert alert.params(5).equals(alert.params(5))
