"""The two fixed Spark schemas of the job.

Blocks go to shards: `shard` is a key of `keys.shard_keys`, `passing` marks results that pass
through (never logged), `origin` numbers the sender. Large blocks are split into parts, because
Spark copies cells several times and a few large ones fill its heap. Results leave the job. This
module does not import pandas, which is slow to import and not needed by the log's processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

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
    """Messages to a shard as blocks; an origin sends one message of each kind."""
    for n, at in enumerate(range(0, len(data), PART)):
        yield shard, passing, origin, n, data[at : at + PART] if len(data) > PART else data


def block_batch(blocks: Sequence[Block]) -> pa.RecordBatch:
    """Blocks as Arrow."""
    columns = list(zip(*blocks, strict=True)) or [()] * len(_BLOCKS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, _BLOCKS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_BLOCKS)


def results_of(table: pa.Table) -> list[Result]:
    """Results in order."""
    from penstock.shards.wire import Result  # only the driver needs the engine for this

    columns = [table.column(n).to_pylist() for n in ("kind", "template", "place", "data")]
    found = [Result(*row) for row in zip(*columns, strict=True)]
    return sorted(found, key=lambda r: r.order)
