"""The queries of the demo: Golab & Özsu §6.1, Queries 1 to 5, and four kinds of alerts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.cli.demo_traffic import HOSTS, PROTOCOLS

Columns = dict[str, object]

WINDOW = "[RANGE 60 SECONDS]"
WINDOW_ROWS = 15_000  # of a link
STREAM = """CREATE STREAM {link} (src BIGINT, dst BIGINT, protocol STRING, payload BIGINT,
  duration DOUBLE, ts TIMESTAMP) TIMESTAMP BY ts DELAY 2 SECONDS"""
QUERIES: dict[str, tuple[str, str]] = {
    "ftp_on_both": (
        "ftp on link0 and link1",
        f"""SELECT a.src, a.dst AS dst0, b.dst AS dst1
  FROM link0 {WINDOW} a JOIN link1 {WINDOW} b ON a.src = b.src
  WHERE a.protocol = 'ftp' AND b.protocol = 'ftp'""",
    ),
    "sources": (
        "active on link0",
        f"SELECT DISTINCT src FROM link0 {WINDOW}",
    ),
    "beyond_link1": (
        "on link0 beyond link1",
        f"SELECT src FROM link0 {WINDOW} EXCEPT ALL SELECT src FROM link1 {WINDOW}",
    ),
    "on_both": (
        "active on both links",
        f"""SELECT a.src FROM (SELECT DISTINCT src FROM link0 {WINDOW}) a
  JOIN (SELECT DISTINCT src FROM link1 {WINDOW}) b ON a.src = b.src""",
    ),
    "suspects": (
        "ftp on link2, not on 1",
        f"""SELECT n.src, c.dst, c.payload
  FROM (SELECT src FROM link0 {WINDOW}
        EXCEPT SELECT src FROM link1 {WINDOW}) n
  JOIN link2 {WINDOW} c ON n.src = c.src WHERE c.protocol = 'ftp'""",
    ),
}


@dataclass(frozen=True, slots=True)
class Alert:
    """A kind of alert: queries that differ in constants, and how those are drawn."""

    name: str
    about: str
    text: str
    draw: Callable[[np.random.Generator, int], Columns]

    def params(self, count: int) -> pa.Table:
        """Names and constants of `count` alerts, the same on every run."""
        names = [f"{self.name}_{n}" for n in range(1, count + 1)]
        drawn = self.draw(np.random.default_rng(len(self.about)), count)
        return pa.table({"qid": names, **drawn})


def _ranks(g: np.random.Generator, count: int) -> NDArray[np.int64]:
    """Hosts by how busy they are; few alerts watch one that is hardly ever seen."""
    return g.integers(0, HOSTS // 10, count)


def _source(rank: NDArray[np.int64], link: int) -> NDArray[np.int64]:
    return (rank + link * HOSTS // 16) % HOSTS


def _payloads(g: np.random.Generator, count: int) -> Columns:
    low = g.integers(2_000, 50_000, count)
    return {"p": g.choice(PROTOCOLS, count), "lo": low, "hi": low + g.integers(100, 2_000, count)}


def _usual(g: np.random.Generator, count: int) -> Columns:
    """Somewhat more connections than a source of its rank usually has in a window."""
    rank = _ranks(g, count)
    usual = 0.15 * WINDOW_ROWS * (rank + 1.0) ** -1.1
    return {"s": _source(rank, 2), "n": (usual * g.uniform(1.0, 1.2, count)).astype(np.int64) + 3}


def _floods(g: np.random.Generator, count: int) -> Columns:
    rank = _ranks(g, count)
    much = 5e6 * (rank + 1.0) ** -1.1 * g.uniform(0.2, 2.0, count)
    return {"d": (rank * 7 + 3) % HOSTS, "b": much.astype(np.int64)}


ALERTS = (
    Alert(
        "sends_much",
        "source sends much",
        f"""SELECT src, dst, payload FROM link0 {WINDOW}
  WHERE src = $s AND payload > $p""",
        lambda g, n: {"s": _source(_ranks(g, n), 0), "p": g.integers(5_000, 50_000, n)},
    ),
    Alert(
        "payload",
        "odd for its protocol",
        f"""SELECT src, payload FROM link1 {WINDOW}
  WHERE protocol = $p AND payload BETWEEN $lo AND $hi""",
        _payloads,
    ),
    Alert(
        "busy",
        "busier than usual",
        f"SELECT src FROM link2 {WINDOW} WHERE src = $s GROUP BY src HAVING count(*) > $n",
        _usual,
    ),
    Alert(
        "flooded",
        "host is flooded",
        f"SELECT dst FROM link3 {WINDOW} WHERE dst = $d GROUP BY dst HAVING sum(payload) > $b",
        _floods,
    ),
)
