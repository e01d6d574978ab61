"""Rows that were kept out of external streams since the session was last saved, a file per batch.

They are part of the session's image. A driver that is killed before it saves one finds them here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.state.sealed import damaged, read_sealed, write_sealed

_MOST = 1_000
"""Batches whose rows are kept for a restart; the counts are kept for good."""


class KeptOut:
    """What each batch kept out: the data of its results."""

    def __init__(self, checkpoint: Path) -> None:
        self._directory = checkpoint / "kept_out"

    def note(self, batch: int, found: list[bytes]) -> None:
        """Make what a batch kept out durable; a batch that comes again says the same."""
        if found:
            self._directory.mkdir(exist_ok=True)
            write_sealed(self._directory / f"{batch}.rows", pickle.dumps(found))
            self.forget(batch - _MOST)

    def since(self, batch: int, last: int, expected: Iterable[int] = ()) -> Iterator[bytes]:
        """What batches after `batch` up to `last` kept out; some of them are known to have."""
        there = {number for number, _ in self._files()}
        for number in expected:
            if number not in there:
                raise damaged(self._directory / f"{number}.rows", "it is missing")
        for number, path in self._files():
            if batch < number <= last:
                yield from pickle.loads(read_sealed(path))

    def forget(self, batch: int) -> None:
        """The image has batches up to this one."""
        for number, path in self._files():
            if number <= batch:
                path.unlink()

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(path.stem), path) for path in self._directory.glob("*.rows"))
