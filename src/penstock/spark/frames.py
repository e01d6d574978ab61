"""Cells as pandas frames, the input and output of a stateful processor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pandas as pd

from penstock.errors import StateError
from penstock.shards.wire import Result
from penstock.spark.cells import Block


def joined(frames: Iterable[pd.DataFrame]) -> tuple[list[bytes], list[bytes]]:
    """Messages and passing results by origin; the shuffle may have reordered their parts."""
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
