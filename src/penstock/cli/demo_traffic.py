"""Made-up network traffic on four links, the same on every run.

Connections have the fields of the trace in Golab & Özsu §6.1. Sources and destinations are
skewed (Zipf), links see overlapping but not equal sources, and rows come slightly out of
order, never by more than DELAY_US.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

LINKS = ("link0", "link1", "link2", "link3")
HOSTS = 4_000
DELAY_US = 2_000_000
START_US = 1_704_067_200_000_000  # 2024-01-01 00:00:00
PROTOCOLS = ("http", "dns", "smtp", "telnet", "nntp", "ftp", "ssh", "finger")
SHARES = (0.40, 0.22, 0.12, 0.10, 0.07, 0.04, 0.03, 0.02)


@dataclass(frozen=True, slots=True)
class Traffic:
    """How much traffic and how it is spread; equal settings give equal rows."""

    rows: int = 10_000_000
    rows_per_second: int = 250  # on each link
    hosts: int = HOSTS
    skew: float = 1.1
    seed: int = 7

    @property
    def seconds(self) -> int:
        """How long the traffic takes in event time."""
        return self.rows // len(LINKS) // self.rows_per_second

    def batches(self, batch_rows: int = 10_000) -> Iterator[tuple[str, pa.Table]]:
        """(link, rows) pairs: all links of a stretch of time, then the next stretch."""
        per_link = max(1, batch_rows // len(LINKS))
        generators = [np.random.default_rng([self.seed, link]) for link in range(len(LINKS))]
        total = self.rows // len(LINKS)
        for first in range(0, total, per_link):
            count = min(per_link, total - first)
            for link, generator in enumerate(generators):
                yield LINKS[link], self._rows(generator, link, first, count)

    def _rows(self, generator: np.random.Generator, link: int, first: int, count: int) -> pa.Table:
        # every link knows most hosts but prefers others, so that differences are not empty
        offset = link * self.hosts // 16
        src = (_zipf(generator, self.skew, self.hosts, count) + offset) % self.hosts
        dst = (_zipf(generator, self.skew, self.hosts, count) * 7 + link) % self.hosts
        protocol = generator.choice(len(PROTOCOLS), count, p=SHARES).astype(np.int32)
        payload = np.minimum(generator.pareto(1.2, count) * 400 + 40, 1e9).astype(np.int64)
        duration = np.round(generator.exponential(3.0, count), 3)
        names = pa.array(PROTOCOLS)
        return pa.table(
            {
                "src": pa.array(src, pa.int64()),
                "dst": pa.array(dst, pa.int64()),
                "protocol": pa.DictionaryArray.from_arrays(protocol, names).cast(pa.string()),
                "payload": payload,
                "duration": duration,
                "ts": pa.array(self._times(generator, first, count), pa.timestamp("us")),
            }
        )

    def _times(self, generator: np.random.Generator, first: int, count: int) -> NDArray[np.int64]:
        step = 1_000_000 // self.rows_per_second
        exact = START_US + (first + np.arange(count, dtype=np.int64)) * step
        # one row in ten is held up on its way, by less than what DELAY allows
        held = generator.random(count) < 0.1
        late = generator.integers(0, DELAY_US // 2, count)
        return np.where(held, exact - late, exact)


def _zipf(
    generator: np.random.Generator, skew: float, values: int, count: int
) -> NDArray[np.int64]:
    """Ranks 0..values-1, the low ones most often."""
    weights = np.arange(1, values + 1, dtype=np.float64) ** -skew
    edges = np.cumsum(weights / weights.sum())
    return np.searchsorted(edges, generator.random(count)).clip(0, values - 1).astype(np.int64)
