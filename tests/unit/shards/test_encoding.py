"""A block that leaves one engine and enters another means the same there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from penstock import types as t
from penstock.arrays import I64
from penstock.delta import EVERY_CHANGE, Delta, Lineage
from penstock.dispatch import classes
from penstock.eddy.settings import Settings
from penstock.engine import blocks as b
from penstock.logical.nodes import TableScan
from penstock.logical.udf import Udf
from penstock.optimizer.distribution import undivided
from penstock.patterns.edge import Edge, Pattern
from penstock.schema import Field, Schema
from penstock.shards import wire
from penstock.shards.encoding import Codes, Encoded, Params, decode, encode
from penstock.state.arena import Arena
from penstock.state.convert import to_arrow
from penstock.state.strings import StringTable

MIXED = Schema((Field("k", t.INT), Field("s", t.STRING), Field("x", t.DOUBLE)))
NUMBERS = Schema((Field("k", t.BIGINT), Field("x", t.DOUBLE)))
TEXTS = ("", "zé", "a", "a much longer text")
NO_QIDS = np.empty(0, np.int64)


def twice(x: Any) -> Any:
    return x


def template(key: int, params: Schema) -> b.AddTemplate:
    edge = Edge(MIXED, Pattern.WK, Lineage.QUERY, True, True)
    plan = undivided(TableScan("t", MIXED, False, (0, 1, 2)))
    return b.AddTemplate(key, plan, params, EVERY_CHANGE, (), ((3, edge),), ("r",))


TEMPLATES = {1: template(1, MIXED), 2: template(2, NUMBERS), 3: template(3, Schema(()))}


@dataclass
class Engine:
    """What an engine knows, and rows in its words."""

    codes: Codes

    @staticmethod
    def of(*known: str) -> Engine:
        """One that knows some texts."""
        strings = StringTable(Arena().scope("strings"))
        for text in known:
            strings.code(text)
        named = {"r": b.AddStream("r", MIXED, 0)}
        return Engine(Codes(strings, named, {"t": b.AddTable("t", MIXED)}, TEMPLATES))

    def words(self, n: int, schema: Schema = MIXED) -> I64:
        """Rows, some values of which are NULL."""
        rng = np.random.default_rng(n)
        rows = rng.integers(-5, 5, (1 + len(schema), n))
        rows[0] = rng.integers(0, 1 << len(schema), n)
        for j in schema.string_columns:
            rows[1 + j] = [self.codes.strings.code(text) for text in rng.choice(TEXTS, n)]
        for j, field in enumerate(schema):
            if field.type.is_float:
                rows[1 + j] = rng.normal(size=n).view(np.int64)
            rows[1 + j][(rows[0] >> j) & 1 != 0] = 0
        return rows

    def values(self, words: I64, schema: Schema = MIXED) -> list[Any]:
        """What words mean here."""
        return [column.to_pylist() for column in to_arrow(words, schema, self.codes.strings)]


def delta(words: I64, lin: int | None = None, exp: int | None = None) -> Delta:
    n = words.shape[1]
    ts = np.arange(n)
    exps = np.full(n, exp) if exp is not None else ts + 7
    lins = np.full(n, lin) if lin is not None else ts % 3
    return Delta(words, ts, exps, np.where(ts % 2, -1, 1).astype(np.int8), lins)


def sent(block: b.Block, near: Engine, far: Engine) -> Any:
    """The block as the other engine takes it."""
    made: Encoded = wire.loads(wire.dumps(encode(block, near.codes)))
    return decode(made, far.codes)


@pytest.fixture
def near() -> Engine:
    return Engine.of("a", "b", "zé")


@pytest.fixture
def far() -> Engine:
    return Engine.of("other", "texts", "", "a")


SIZES = (1, 5, 3000)


@pytest.mark.parametrize("n", [0, *SIZES])
def test_rows_of_a_stream(near: Engine, far: Engine, n: int) -> None:
    words, ts = near.words(n), np.arange(n) * 10
    got = sent(b.Rows("r", b.Timed(words, ts), 77, 5), near, far)
    assert (got.stream, got.watermark, got.epoch) == ("r", 77, 5)
    assert far.values(got.rows.words) == near.values(words)
    assert got.rows.ts.tolist() == ts.tolist()


def test_rows_in_parts_of_which_some_columns_are_left_out(near: Engine, far: Engine) -> None:
    made = encode(b.Rows("r", b.Timed(near.words(40), np.arange(40)), 77), near.codes)
    assert isinstance(made, b.Rows)
    assert isinstance(made.rows, bytes)
    batch = wire.unpack_batch(made.rows).select(["s", wire.TIME])
    parts = b.Rows("r", [batch.slice(0, 15), batch.slice(15)], 77)
    got = decode(parts, far.codes)
    assert far.values(got.rows.words)[1] == near.values(near.words(40))[1]
    assert not got.rows.words[[1, 3]].any()
    assert got.rows.ts.tolist() == list(range(40))


@pytest.mark.parametrize("n", [0, *SIZES])
def test_changes_of_a_table(near: Engine, far: Engine, n: int) -> None:
    words = near.words(n)
    got = sent(b.TableChange("t", np.array([4, 2]), words), near, far)
    assert (got.table, got.remove.tolist()) == ("t", [4, 2])
    assert far.values(got.insert) == near.values(words)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("key", TEMPLATES)
def test_queries(near: Engine, far: Engine, key: int, n: int) -> None:
    schema = TEMPLATES[key].params
    words = near.words(n, schema)
    got = sent(b.AddQueries(key, words, True, np.arange(n), 9, True), near, far)
    assert (got.template, got.history, got.since, got.unshared) == (key, True, 9, True)
    assert got.qids.tolist() == list(range(n))
    assert far.values(got.params, schema) == near.values(words, schema)
    assert got.params.shape == words.shape


def test_few_parameters_without_texts_stay_words(near: Engine) -> None:
    def form(key: int, n: int) -> type:
        words = near.words(n, TEMPLATES[key].params)
        made = encode(b.AddQueries(key, words, False, np.arange(n), 1), near.codes)
        assert isinstance(made, b.AddQueries)
        params: Params = made.params
        return type(params)

    assert form(2, 1) is form(2, 1000) is form(3, 3000) is np.ndarray
    assert form(2, 2000) is form(1, 1) is bytes


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("same", [{}, {"lin": 4}, {"lin": 4, "exp": 50}])
def test_rows_between_levels(near: Engine, far: Engine, n: int, same: dict[str, int]) -> None:
    told = delta(near.words(n), **same)
    got = sent(b.Received(1, 3, told), near, far)
    assert (got.template, got.channel) == (1, 3)
    assert far.values(got.delta.rows) == near.values(told.rows)
    for name in ("ts", "exp", "sign", "lin"):
        found, wanted = getattr(got.delta, name), getattr(told, name)
        assert found.tolist() == wanted.tolist()
        assert found.dtype == wanted.dtype


PLAIN: tuple[b.Block, ...] = (
    b.Heartbeat("r", 5), b.Configure(Settings("fixed", "ssi")), b.AddStream("r", MIXED, 3),
    b.SetRetain("r", 9),
    b.AddTable("t", MIXED), b.AddUdf(Udf("twice", twice, (t.INT,), t.INT)), TEMPLATES[1],
    b.Drop("r"),
)  # fmt: skip


@pytest.mark.parametrize("block", PLAIN, ids=lambda block: type(block).__name__)
def test_blocks_without_words_of_an_engine(near: Engine, far: Engine, block: b.Block) -> None:
    assert encode(block, near.codes) is block
    assert sent(block, near, far) == block


def test_drops_of_queries(near: Engine, far: Engine) -> None:
    got = sent(b.DropQueries(2, np.array([3, 1])), near, far)
    assert (got.template, got.qids.tolist()) == (2, [3, 1])


def test_every_class_is_tested_here() -> None:
    tested = {b.Rows, b.TableChange, b.AddQueries, b.Received, b.DropQueries, *map(type, PLAIN)}
    assert tested == set(classes(b.Block))
    assert set(classes(Encoded)) == tested | {b.Read}


Make = Callable[[Engine], b.Block]


@pytest.mark.parametrize(
    "make",
    [
        lambda e: b.Rows("r", b.Timed(e.words(3), np.arange(3)), 7),
        lambda e: b.TableChange("t", NO_QIDS, e.words(3)),
        lambda e: b.AddQueries(1, e.words(3), False, np.arange(3), 1),
        lambda e: b.Received(1, 3, delta(e.words(3))),
    ],
)
def test_encoding_does_not_change_the_block(near: Engine, far: Engine, make: Make) -> None:
    block = make(near)
    before = wire.dumps(block)
    sent(block, near, far)
    assert wire.dumps(block) == before
