"""The queries of the demo: Golab & Özsu §6.1, Queries 1 to 5, and four kinds of alerts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from penstock.inprocess.demo_traffic import PROTOCOLS, SHARES

Columns = dict[str, object]

WINDOW = "[RANGE 60 SECONDS]"
STREAM = """CREATE STREAM {link} (src BIGINT, dst BIGINT, protocol STRING, payload BIGINT,
  duration DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts DELAY 2 SECONDS"""
QUERIES: dict[str, tuple[str, str]] = {
    "ftp_on_both": (
        "sources with ftp on link0 and link1 (join)",
        f"""SELECT a.src, a.dst AS dst0, b.dst AS dst1
            FROM link0 {WINDOW} a JOIN link1 {WINDOW} b ON a.src = b.src
            WHERE a.protocol = 'ftp' AND b.protocol = 'ftp'""",
    ),
    "sources": (
        "sources active on link0 (distinct)",
        f"SELECT DISTINCT src FROM link0 {WINDOW}",
    ),
    "only_on_link0": (
        "connections by sources of link0 beyond those on link1 (negation)",
        f"SELECT src FROM link0 {WINDOW} EXCEPT ALL SELECT src FROM link1 {WINDOW}",
    ),
    "on_both": (
        "sources active on both links (distinct, then join)",
        f"""SELECT a.src FROM (SELECT DISTINCT src FROM link0 {WINDOW}) a
            JOIN (SELECT DISTINCT src FROM link1 {WINDOW}) b ON a.src = b.src""",
    ),
    "suspects": (
        "sources of link0 unseen on link1 that use ftp on link2 (negation, then join)",
        f"""SELECT n.src, c.dst, c.payload
            FROM (SELECT src FROM link0 {WINDOW} EXCEPT SELECT src FROM link1 {WINDOW}) n
            JOIN link2 {WINDOW} c ON n.src = c.src WHERE c.protocol = 'ftp'""",
    ),
}
ALERTS: dict[str, tuple[str, Callable[[np.random.Generator, int], Columns]]] = {
    "a source sends much": (
        f"SELECT src, dst, payload FROM link0 {WINDOW} WHERE src = $s AND payload > $p",
        lambda g, n: {"s": g.integers(0, 400, n), "p": g.integers(500, 20_000, n)},
    ),
    "odd payload of a protocol": (
        f"""SELECT src, payload FROM link1 {WINDOW}
            WHERE protocol = $p AND payload BETWEEN $lo AND $hi""",
        lambda g, n: {
            "p": g.choice(PROTOCOLS, n),
            "lo": (low := g.integers(2_000, 50_000, n)),
            "hi": low + g.integers(100, 2_000, n),
        },
    ),
    "a protocol is busier than usual": (
        f"""SELECT protocol FROM link2 {WINDOW}
            WHERE protocol = $p GROUP BY protocol HAVING count(*) > $n""",
        lambda g, n: {
            "p": np.array(PROTOCOLS)[(kind := g.integers(0, len(PROTOCOLS), n))],
            "n": (15_000 * np.array(SHARES)[kind] * g.uniform(0.95, 1.05, n)).astype(np.int64),
        },
    ),
    "a host is flooded": (
        f"""SELECT dst, sum(payload) AS bytes FROM link3 {WINDOW}
            WHERE dst = $d GROUP BY dst HAVING sum(payload) > $b""",
        lambda g, n: {"d": (g.integers(0, 400, n) * 7 + 3) % 4_000, "b": g.integers(0, 50_000, n)},
    ),
}


def alert_params(kind: str, count: int) -> pa.Table:
    """Parameter rows for `count` alerts of one kind, the same on every run."""
    _, columns = ALERTS[kind]
    return pa.table(columns(np.random.default_rng(len(kind)), count))
