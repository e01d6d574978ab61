"""Very many texts, templates, queries and strings: what goes comes back as memory.

Short here; PENSTOCK_FAULTS=all (`make faults`) takes the whole: 5,000 texts, 1,000 templates, a
million queries, ten minutes of strings that never repeat.
"""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pyarrow as pa
import pytest

from faults.books import Books, close, open_books, row

ALL = os.environ.get("PENSTOCK_FAULTS") == "all"


@pytest.fixture(params=[None, 2], ids=["one", "shards"])
def books(request: pytest.FixtureRequest) -> Iterator[Books]:
    made = open_books(request.param)
    yield made
    close(made.ps)


def resident() -> int:
    """Bytes of memory that this process has."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def state(session: Any) -> int:
    """Bytes of state, wherever the session has it."""
    engines = [session._books.engine]
    cluster = getattr(getattr(session, "_job", None), "cluster", None)
    if cluster is not None:
        engines += [shard.engine for shard in (*cluster.lowers, *cluster.uppers)]
    return sum(array.nbytes for e in engines for array in e.arena.arrays().values())


def test_very_many_texts_and_templates(books: Books) -> None:
    texts, templates = (5_000, 1_000) if ALL else (300, 40)
    before = books.ps.stats()["templates"]
    queries = [
        books.ps.query(f"SELECT a FROM r [RANGE 100] WHERE k = {n % 7} AND a > {n}")
        for n in range(texts)
    ]
    for n in range(templates):  # the names differ, so every text has a plan of its own
        queries.append(books.ps.query(f"SELECT a AS c{n}, k FROM r [RANGE 100] WHERE k > {n % 3}"))
    books.push([row(ts, k=ts % 7, a=ts) for ts in range(50)])
    books.check()
    for query in queries:
        query.drop()
    books.push([row(80)])
    books.check()
    assert books.ps.stats()["templates"] == before


def test_queries_that_come_and_go_leave_nothing(books: Books) -> None:
    """A million queries, some at a time: the state of the last round is that of the first."""
    rounds, many = (20, 50_000) if ALL else (6, 1_000)
    text = "SELECT a FROM r [RANGE 100] WHERE a > $low AND k = $k"
    sizes = []
    for n in range(rounds):
        lows, keys = range(n * many, (n + 1) * many), (i % 9 for i in range(many))
        params = pa.table({"low": list(lows), "k": list(keys)})
        queries = books.ps.query_many(text, params)
        books.push([row(n * 5, k=n % 9, a=n * many + 10)])
        queries.drop()
        gc.collect()
        sizes.append((state(books.ps), resident()))
    books.check()
    assert books.ps.stats()["templates"] == len(books.queries)
    assert sizes[-1][0] <= 1.2 * sizes[1][0] + (64 << 10), sizes
    assert sizes[-1][1] <= 1.2 * sizes[1][1] + (64 << 20), sizes


def test_strings_that_never_repeat(books: Books) -> None:
    """Rows come and go, and with them their texts: memory and time of a batch stay as they are."""
    seconds = 600.0 if ALL else 4.0
    if ALL and books.ps._runner.deployed is not None:
        seconds = 60.0
    begun = time.monotonic()
    sizes: list[tuple[int, int]] = []
    times: list[float] = []
    n = 0
    while time.monotonic() - begun < seconds or n < 480:
        rows = [row(20 * n + i, a=20 * n + i, w=f"text {n} {i} " + "x" * 40) for i in range(20)]
        begun_push = time.process_time()
        books.push(rows)
        times.append(time.process_time() - begun_push)
        books.accepted = books.accepted[-400:]
        n += 1
        if n % 20 == 0:
            counts = books.ps.stats()["streams"]["r"]
            assert counts["accepted"] == counts["received"] == 20 * n
            for name in books.queries:
                books._fold(name)
            sizes.append((state(books.ps), resident()))
    books.accepted = [r for r in books.accepted if r["ts"] > 20 * n - 300]
    for name, wanted in books.answers().items():
        books._fold(name)
        assert books.folds[name].held == wanted, name
    third = len(sizes) // 3  # of which the first fills what the stream retains
    held = [size for size, _ in sizes]
    assert max(held[-third:]) <= 2 * max(held[third : 2 * third]), sizes
    assert sizes[-1][1] <= sizes[third][1] * 1.2 + (64 << 20), sizes
    quarter = n // 4  # of the processor's time; in the first, kernels may be compiled
    early, late = median(times[quarter : 2 * quarter]), median(times[-quarter:])
    assert late <= 3 * early, f"a batch took {early:.4f} s, and in the end {late:.4f} s"
