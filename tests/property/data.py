"""Random streams, tables and sessions: small domains, so that everything collides.

Ties, duplicates, NULLs, bursts, silence, disorder within DELAY (and a little beyond), streams
whose clocks run apart, heartbeats, table updates, queries that come and go.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from oracle.scenario import Action, Advance, Delete, Insert, Push, Scenario, Update
from oracle.world import StreamDef, TableDef, Values

R = StreamDef("r", (("k", "INT"), ("a", "INT"), ("ts", "BIGINT")))
S = StreamDef("s", (("k", "INT"), ("b", "INT"), ("x", "DOUBLE"), ("ts", "BIGINT")))
U = StreamDef("u", (("k", "INT"), ("c", "STRING"), ("ts", "BIGINT")))
T = TableDef("t", (("k", "INT"), ("name", "STRING")))
N = TableDef("n", (("k", "INT"), ("w", "INT")), nonretroactive=True)
STREAMS = {d.name: d for d in (R, S, U)}
TABLES = {d.name: d for d in (T, N)}


GAPS = (0, 0, 0, 1, 1, 1, 2, 3, 7)
FLOATS = (0.1, 0.2, 0.3, 1.5, -2.0, 1e6, 0.0)
WORDS = ("a", "b", "ab", "")


def streams_of(template: str) -> set[str]:
    """The streams r and s, and u where a template reads it."""
    reads_u = "FROM u " in template or "JOIN u " in template
    return {"r", "s", "u"} if reads_u else {"r", "s"}


def params_of(rng: Random) -> dict[str, object]:
    """Constants of a query."""
    return {
        "lo": rng.randint(-1, 3),
        "hi": rng.randint(0, 4),
        "w": rng.randint(1, 6),
        "v": rng.choice((1, 2, 5)),
    }


def value(rng: Random, name: str, type_: str, wide: bool = False) -> object:
    """A value of a column's small (or wide) domain; one in nine is NULL."""
    if rng.random() < 1 / 9:
        return None
    if wide:
        return _wide_value(rng, name, type_)
    if type_ == "DOUBLE":
        return rng.choice(FLOATS)
    if type_ == "STRING":
        return rng.choice(WORDS)
    return rng.randrange(4) if name == "k" else rng.randrange(-1, 5)


def _wide_value(rng: Random, name: str, type_: str) -> object:
    if type_ == "DOUBLE":
        return round(rng.gauss(0, 100), 3)
    if type_ == "STRING":
        return f"word{rng.randrange(300)}"
    return rng.randrange(40) if name == "k" else rng.randrange(-20, 30)


def row(rng: Random, definition: StreamDef, ts: int, wide: bool = False) -> Values:
    """A row at `ts`."""
    return tuple(
        ts if name == definition.time else value(rng, name, type_, wide)
        for name, type_ in definition.columns
    )


def batches(rng: Random, streams: list[StreamDef], count: int, wide: bool = False) -> list[Push]:
    """About `count` rows of the streams, cut into batches; disorder mostly within DELAY."""
    arrivals: list[tuple[float, str, Values]] = []
    for definition in streams:
        ts = rng.choice((0, 0, 0, -7))
        skew = rng.choice((0, 0, 0, 4, 9))
        extra = rng.choice((0,) * 12 + (3,))
        for _ in range(max(1, count // len(streams))):
            ts += rng.choice(GAPS)
            when = ts + skew + rng.uniform(0, definition.delay + extra)
            arrivals.append((when, definition.name, row(rng, definition, ts, wide)))
    arrivals.sort(key=lambda a: a[0])
    return _cut(rng, arrivals, count // 4 if wide else rng.choice((2, 5, 9, 30)))


def _cut(rng: Random, arrivals: list[tuple[float, str, Values]], size: int) -> list[Push]:
    pushes: list[Push] = []
    at = 0
    while at < len(arrivals):
        chunk = arrivals[at : at + rng.randint(1, size)]
        at += len(chunk)
        names = sorted({name for _, name, _ in chunk})
        rng.shuffle(names)
        for name in names:
            pushes.append(Push(name, tuple(v for _, n, v in chunk if n == name)))
    return pushes


def _changes_of_table(rng: Random, table: TableDef) -> Action:
    """One random DML statement."""
    second = table.columns[1]
    kind = rng.random()
    if kind < 0.5:
        fresh = tuple(
            tuple(value(rng, n, t) for n, t in table.columns) for _ in range(rng.randint(1, 2))
        )
        return Insert(table.name, fresh)
    if kind < 0.75:
        return Delete(table.name, rng.randrange(4))
    return Update(table.name, rng.randrange(4), value(rng, *second))


def session(
    rng: Random, streams: set[str], tables: set[str], count: int, wide: bool = False
) -> Scenario:
    """A session over these streams and tables with about `count` rows.

    Half of the sessions bring all clocks together before a table changes; in the others a
    change meets rows that are still waiting for their clock.
    """
    chosen = [replace(STREAMS[name], delay=rng.choice((0, 0, 0, 2, 4))) for name in sorted(streams)]
    used = [TABLES[name] for name in sorted(tables)]
    actions: list[Action] = []
    for table in used:
        rows = [(k, value(rng, *table.columns[1])) for k in range(4) if rng.random() < 0.7]
        if rows:
            actions.append(Insert(table.name, tuple(rows)))
    newest = -100
    together = rng.random() < 0.5
    for push in batches(rng, chosen, count, wide):
        actions.append(push)
        at = STREAMS[push.stream].names.index("ts")
        newest = max(newest, *(int(str(r[at])) for r in push.rows))
        if used and rng.random() < 0.25:
            if together:
                actions.append(Advance(None, newest))
            actions.append(_changes_of_table(rng, rng.choice(used)))
        elif rng.random() < 0.12:
            actions.append(Advance(rng.choice([d.name for d in chosen]), newest))
    if rng.random() < 0.8:
        actions.append(Advance(None, newest + rng.choice((0, 1, 5, 20))))
    return Scenario(tuple(chosen), tuple(used), tuple(actions))
