"""The two Spark schemas of the job, which no stream or query changes.

Blocks go to shards: `shard` is a key of `keys.shard_keys`, `passing` marks results on their way
through (never logged), `origin` numbers the sender, and what is large comes in parts: Spark moves
cells whole, several times, and a few large ones fill its heap. Results leave the job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from penstock.errors import StateError

if TYPE_CHECKING:
    from penstock.shards.wire import Result

BLOCKS = "shard int, passing boolean, origin int, part int, data binary"
RESULTS = "kind string, template long, place long, data binary"
PART = 8 << 20
_BLOCKS = pa.schema(
    [
        ("shard", pa.int32()),
        ("passing", pa.bool_()),
        ("origin", pa.int32()),
        ("part", pa.int32()),
        ("data", pa.binary()),
    ]
)

Block = tuple[int, bool, int, int, bytes]
"""Key of the shard, passing, origin, part, data."""


def parts(shard: int, passing: bool, origin: int, data: bytes) -> Iterator[Block]:
    """What is sent to a shard, as blocks; an origin sends it one thing of each kind."""
    for n, at in enumerate(range(0, len(data), PART)):
        yield shard, passing, origin, n, data[at : at + PART] if len(data) > PART else data


def joined(frames: Iterable[pd.DataFrame]) -> tuple[list[bytes], list[bytes]]:
    """Messages and passing results by origin, whatever the shuffle did to their parts."""
    found: dict[tuple[int, bool], list[tuple[int, bytes]]] = {}
    for frame in frames:
        columns = (frame["origin"], frame["passing"], frame["part"], frame["data"])
        for origin, passing, part, data in zip(*columns, strict=True):
            pieces = found.setdefault((int(origin), bool(passing)), [])
            pieces.append((int(part), bytes(data)))
    messages: list[bytes] = []
    results: list[bytes] = []
    for (origin, passing), pieces in sorted(found.items()):
        pieces.sort(key=lambda piece: piece[0])
        if [part for part, _ in pieces] != list(range(len(pieces))):
            raise StateError(f"blocks of origin {origin} are not one sequence of parts")
        whole = [data for _, data in pieces]
        (results if passing else messages).append(whole[0] if len(whole) == 1 else b"".join(whole))
    return messages, results


def block_batch(blocks: Sequence[Block]) -> pa.RecordBatch:
    """Blocks as Arrow."""
    columns = list(zip(*blocks, strict=True)) or [()] * len(_BLOCKS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _BLOCKS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_BLOCKS)


def block_frame(blocks: Sequence[Block]) -> pd.DataFrame:
    """Blocks as pandas."""
    shard, passing, origin, part, data = zip(*blocks, strict=True)
    return pd.DataFrame(
        {
            "shard": pd.Series(shard, dtype="int32"),
            "passing": pd.Series(passing, dtype="bool"),
            "origin": pd.Series(origin, dtype="int32"),
            "part": pd.Series(part, dtype="int32"),
            "data": pd.Series(data, dtype="object"),
        }
    )


def result_frame(results: Iterable[Result]) -> pd.DataFrame:
    """Results as pandas."""
    rows = list(results)
    return pd.DataFrame(
        {
            "kind": pd.Series([r.kind for r in rows], dtype="object"),
            "template": pd.Series([r.template for r in rows], dtype="int64"),
            "place": pd.Series([r.order for r in rows], dtype="int64"),
            "data": pd.Series([r.data for r in rows], dtype="object"),
        }
    )


def results_of(table: pa.Table) -> list[Result]:
    """Results in order."""
    from penstock.shards.wire import Result  # only the driver needs the engine for this

    columns = [table.column(n).to_pylist() for n in ("kind", "template", "place", "data")]
    found = [Result(*row) for row in zip(*columns, strict=True)]
    return sorted(found, key=lambda r: r.order)
