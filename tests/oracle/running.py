"""Calls from several threads while batches run, and the ledger that must hold afterwards.

Every answer is the one at the end of some batch between the call and its return; the answers that
a thread gets never go back. Folded changes give the answer after each batch, which is what the
rows say at that batch's watermark, and the last answer. Accepted + late + quarantined = received,
at every look.
"""

from __future__ import annotations

import datetime as dt
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa

from oracle.fold import META, SIGNS, Values, bag, rows_of

R = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.int64())])
STREAMS = """
CREATE STREAM r (k BIGINT, v BIGINT, ts BIGINT) TIMESTAMP BY ts RETAIN 100000{source};
CREATE STREAM p (k BIGINT, ts BIGINT) TIMESTAMP BY ts;
CREATE STREAM w (ts TIMESTAMP) TIMESTAMP BY ts TICK {tick};
CREATE TABLE t (id BIGINT, x BIGINT);
"""
QUERIES = {
    "grouped": "SELECT k, count(*) AS n, sum(v) AS total FROM r [RANGE 25] GROUP BY k",
    "whole": "SELECT count(*) AS n, max(v) AS top FROM r [RANGE 35]",
    "chosen": "SELECT k, v, ts FROM r [RANGE 20] WHERE v > 3",
    "joined": "SELECT r.k, t.x, r.ts FROM r [RANGE 15] JOIN t ON r.k = t.x",
    "pushed": "SELECT k, count(*) AS n FROM p [RANGE 1000000] GROUP BY k",
    "listed": "SELECT id, x FROM t",
    "recent": "SELECT ts FROM w [RANGE 200 MILLISECONDS]",
}
MORE = (
    "SELECT k, max(v) AS top FROM r [RANGE 30] GROUP BY k",
    "SELECT k, ts FROM r [RANGE 12] WHERE v > 2",
    "SELECT DISTINCT k FROM r [RANGE 18]",
)
MANY = "SELECT k, count(*) AS n FROM r [RANGE $w] WHERE v > $v GROUP BY k"
CALLS = (
    "view", "view", "view_other", "view_many", "changes", "changes_many", "look", "kept_out",
    "query", "history", "many", "drop", "drop_many", "insert", "update", "delete", "push",
    "subscribe",
)  # fmt: skip
Bag = Counter[Values]


def rows_of_file(n: int) -> list[dict[str, Any]]:
    """The rows that come n-th, the last of which is the newest: some are late or without a time."""
    rng = Random(n)
    times = sorted(rng.randrange(10 * n, 10 * n + 9) for _ in range(7))
    rows = [{"k": rng.randrange(4), "v": rng.randrange(9), "ts": ts} for ts in times]
    late = [{"k": 0, "v": 8, "ts": 10 * n - 15}] if n > 1 else []
    return [{"k": 1, "v": 1, "ts": None}, *late, *rows, {"k": 2, "v": 5, "ts": 10 * n + 9}]


def accepted(files: int) -> list[dict[str, Any]]:
    """What is neither late nor malformed."""
    found = [(n, row) for n in range(files) for row in rows_of_file(n) if row["ts"] is not None]
    return [row for n, row in found if row["ts"] >= 10 * n]


def at_clock(rows: list[dict[str, Any]], clock: int) -> dict[str, Bag]:
    """What the queries over r answer."""

    def window(width: int) -> list[dict[str, Any]]:
        return [row for row in rows if clock - width < row["ts"] <= clock]

    groups: dict[int, list[int]] = {}
    for row in window(25):
        groups.setdefault(row["k"], []).append(row["v"])
    whole = [row["v"] for row in window(35)]
    return {
        "grouped": bag((k, len(vs), sum(vs)) for k, vs in groups.items()),
        "whole": bag([(len(whole), max(whole, default=None))]),
        "chosen": bag((r["k"], r["v"], r["ts"]) for r in window(20) if r["v"] > 3),
    }


@dataclass(slots=True)
class Read:
    """An answer, and the last batches that were done before and after."""

    thread: int
    first: int
    last: int
    answer: Bag


@dataclass(slots=True)
class Watched:
    """A query, or many as one: what it answered and which changes it had."""

    handle: Any
    reads: list[Read] = field(default_factory=list)
    changes: list[tuple[int, int, Values]] = field(default_factory=list)  # batch, sign, row
    dropped: bool = False

    def take(self, table: pa.Table) -> None:
        """Changes, in the order of their batches."""
        signs = [SIGNS[kind] for kind in table["_change_type"].to_pylist()]
        names = rows_of(table.select(["_query"]))
        rows = rows_of(table, skip=META)
        batches = table["_batch"].to_pylist()
        both = [(*name, *row) for name, row in zip(names, rows, strict=True)]
        self.changes += zip(batches, signs, both, strict=True)

    def states(self) -> Iterator[tuple[int, Bag]]:
        """The answer after each batch that changed it."""
        held: Bag = Counter()
        yield -1, Counter()
        changes = sorted(self.changes, key=lambda change: change[0])
        for at, (batch, sign, row) in enumerate(changes):
            held[row] += sign
            if at + 1 == len(changes) or changes[at + 1][0] > batch:
                assert min(held.values()) >= 0, f"{self.handle}: {held} after batch {batch}"
                held = +held
                yield batch, held.copy()


class Running:
    """A session whose batches run, and the threads that call it."""

    def __init__(self, session: Any, source: str = "", tick: str = "100 MILLISECONDS") -> None:
        self.session = session
        session.sql(STREAMS.format(source=source, tick=tick))
        self.queries = {
            name: Watched(session.sql(f"CREATE MATERIALIZED VIEW {name} AS {text}"))
            for name, text in QUERIES.items()
        }
        self.others: list[Watched] = []
        self.crowds: list[Watched] = []
        self.heard: dict[int, Bag] = {}  # by batch, what a subscriber of `grouped` was told
        self.errors: list[BaseException] = []
        self._pushing, self._pushed = threading.Lock(), 0
        self.queries["grouped"].handle.subscribe(self._hear)

    def _hear(self, table: pa.Table) -> None:
        (number,) = set(table["_batch"].to_pylist())
        assert number not in self.heard, f"batch {number} was told twice"
        signs = [(SIGNS[kind],) for kind in table["_change_type"].to_pylist()]
        rows = rows_of(table, skip=META)
        self.heard[number] = bag((*sign, *row) for sign, row in zip(signs, rows, strict=True))

    def call_all(self, plans: list[list[str]], seed: int, feed: Callable[[], None]) -> None:
        """Follow the plans in threads of their own, while `feed` brings rows."""
        callers = [_Caller(self, at, Random(f"{seed} {at}")) for at in range(len(plans))]
        threads = [
            threading.Thread(target=self._caught, args=(caller.follow, plan))
            for caller, plan in zip(callers, plans, strict=True)
        ]
        threads.append(threading.Thread(target=self._caught, args=(feed,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for error in self.errors:
            raise error

    def _caught(self, call: Callable[..., None], *arguments: Any) -> None:
        try:
            call(*arguments)
        except BaseException as error:
            self.errors.append(error)

    @property
    def batch(self) -> int:
        """The last that is done."""
        records = self.session.progress()
        return int(records[-1]["batch"]) if records else 0

    def push(self, key: int) -> None:
        """A row that is not late."""
        with self._pushing:
            self._pushed += 1
            self.session.push("p", [{"k": key, "ts": self._pushed}])
            self.session.push("w", [{"ts": dt.datetime.now(dt.UTC).replace(tzinfo=None)}])

    # ---- the ledger ------------------------------------------------------------------
    def check(self, files: int) -> None:
        """Hold all that was read against what came in."""
        self.session.flush()
        self.check_counts()
        told = self.session.stats()["streams"]["r"]
        rows = accepted(files)
        sent = sum(len(rows_of_file(n)) for n in range(files))
        assert (told["received"], told["accepted"]) == (sent, len(rows))
        assert self.session.late("r").num_rows == told["late"]
        assert self.session.quarantine("r").num_rows == told["quarantined"] == files
        for watched in [*self.queries.values(), *self.others, *self.crowds]:
            self._check_reads(watched)
        self._check_clocks(rows)
        self._check_heard()

    def check_counts(self) -> None:
        """Nothing is lost."""
        for told in self.session.stats()["streams"].values():
            assert told["received"] == told["accepted"] + told["late"] + told["quarantined"]

    def _check_reads(self, watched: Watched) -> None:
        end = _settled(watched)
        states = list(watched.states())
        assert states[-1][1] == end, watched.handle
        reached: dict[int, int] = {}
        for read in watched.reads:
            first = max(read.first, reached.get(read.thread, -1))
            reached[read.thread] = _place(states, read, first)

    def _check_clocks(self, rows: list[dict[str, Any]]) -> None:
        """The answer after each batch is what the rows say at the clock it reached."""
        clocks = {r["batch"]: r["streams"]["r"]["watermark"] for r in self.session.progress()}
        for name in ("grouped", "whole", "chosen"):
            for batch, state in self.queries[name].states():
                if clocks.get(batch) is not None:
                    own = Counter({row[1:]: n for row, n in state.items()})
                    assert own == at_clock(rows, clocks[batch])[name], f"{name} after {batch}"

    def _check_heard(self) -> None:
        had: dict[int, Bag] = {}
        for batch, sign, row in self.queries["grouped"].changes:
            had.setdefault(batch, Counter())[(sign, *row[1:])] += 1
        assert self.heard == had


def _place(states: list[tuple[int, Bag]], read: Read, first: int) -> int:
    """The batch after which an answer was given: the first that is possible."""
    spans = zip(states, [*(batch for batch, _ in states[1:]), 1 << 62], strict=True)
    for (batch, state), ending in spans:
        if batch <= read.last and ending > first and state == read.answer:
            return max(batch, first)
    raise AssertionError(f"no batch from {first} to {read.last} ended with {read.answer}")


def _settled(watched: Watched) -> Bag:
    """The answer that the changes taken so far lead to: no batch ends between them and it."""
    watched.take(watched.handle.changes())
    while True:
        end = Counter() if watched.dropped else _answer(watched)
        more = watched.handle.changes()
        if not more.num_rows:
            return end
        watched.take(more)


def _answer(watched: Watched) -> Bag:
    """The answer now, with the query's name in front."""
    table = watched.handle.view()
    if "_query" in table.column_names:
        return bag(rows_of(table))
    return bag((watched.handle.name, *row) for row in rows_of(table))


class _Caller:
    """One thread's calls; it reads what it wrote."""

    def __init__(self, running: Running, number: int, rng: Random) -> None:
        self.running = running
        self.session = running.session
        self.number = number
        self.rng = rng
        self.mine: list[Watched] = []
        self.crowd: list[Watched] = []
        self.table: dict[int, int] = {}
        self.pushes = 0

    def follow(self, plan: list[str]) -> None:
        """Make the calls."""
        for name in plan:
            getattr(self, "_" + name)()

    @contextmanager
    def _reading(self, watched: Watched) -> Iterator[list[Bag]]:
        found: list[Bag] = []
        first = self.running.batch
        yield found
        watched.reads.append(Read(self.number, first, self.running.batch, found[0]))

    def _read(self, watched: Watched) -> Bag:
        with self._reading(watched) as found:
            found.append(_answer(watched))
        return found[0]

    def _view(self) -> None:
        name = self.rng.choice(list(QUERIES))
        answer = self._read(self.running.queries[name])
        if name == "pushed":
            assert sum(n for _, k, n in answer if k == self.number) == self.pushes
        if name == "listed":
            mine = {i: x for _, i, x in answer if i // 1000 == self.number + 1}
            assert mine == self.table

    def _view_other(self) -> None:
        if self.mine:
            self._read(self.rng.choice(self.mine))

    def _view_many(self) -> None:
        if self.crowd:
            self._read(self.rng.choice(self.crowd))

    def _changes(self) -> None:
        watched = self.rng.choice([*self.running.queries.values(), *self.mine])
        watched.take(watched.handle.changes())

    def _changes_many(self) -> None:
        for watched in self.crowd:
            watched.take(watched.handle.changes())

    def _look(self) -> None:
        self.running.check_counts()
        self.session.sql("SHOW QUERIES")
        self.session["grouped"].explain()
        assert self.session["grouped"].status in ("running", "warming")

    def _kept_out(self) -> None:
        before = self.session.stats()["streams"]["r"]
        late, bad = self.session.late("r"), self.session.quarantine("r")
        after = self.session.stats()["streams"]["r"]
        assert before["late"] <= late.num_rows <= after["late"]
        assert before["quarantined"] <= bad.num_rows <= after["quarantined"]

    def _query(self, history: bool = False) -> None:
        query = self.session.query(self.rng.choice(MORE), history)
        self.mine.append(Watched(query))
        self.running.others.append(self.mine[-1])

    def _history(self) -> None:
        self._query(history=True)
        self._read(self.mine[-1])

    def _many(self) -> None:
        params = [{"w": self.rng.choice((10, 20)), "v": self.rng.randrange(8)} for _ in range(3)]
        made = self.session.query_many(MANY, pa.Table.from_pylist(params))
        self.crowd.append(Watched(made))
        self.running.crowds.append(self.crowd[-1])

    def _drop(self) -> None:
        if self.mine:
            watched = self.mine.pop(self.rng.randrange(len(self.mine)))
            watched.handle.drop()
            watched.dropped = True

    def _drop_many(self) -> None:
        if self.crowd:
            watched = self.crowd.pop()
            watched.handle.drop()
            watched.dropped = True

    def _insert(self) -> None:
        new, x = 1000 * (self.number + 1) + len(self.table), self.rng.randrange(9)
        self.session.sql(f"INSERT INTO t VALUES ({new}, {x}), ({-new}, {x})")
        self.table[new] = x

    def _update(self) -> None:
        if self.table:
            one, x = self.rng.choice(list(self.table)), self.rng.randrange(9)
            self.session.sql(f"UPDATE t SET x = {x} WHERE id = {one}")
            self.table[one] = x

    def _delete(self) -> None:
        self.session.sql(f"DELETE FROM t WHERE id = {-1000 * (self.number + 1)}")

    def _push(self) -> None:
        self.running.push(self.number)
        self.pushes += 1

    def _subscribe(self) -> None:
        for watched in self.mine[-1:]:
            watched.handle.subscribe(lambda table: None)
