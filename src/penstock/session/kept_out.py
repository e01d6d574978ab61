"""Rejected rows of external streams since the session was last saved, one file per batch.

They become part of the session's image. A driver that was killed before saving one finds them here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.state.sealed import damaged, read_sealed, write_sealed

_MOST = 1_000
"""Number of batches with rows that are kept for a restart; the counts are kept for good."""


class KeptOut:
    """The rejected rows of each batch, as result data."""

    def __init__(self, checkpoint: Path) -> None:
        self._directory = checkpoint / "kept_out"

    def note(self, batch: int, found: list[bytes]) -> None:
        """Write the rejected rows of a batch to disk; a repeated batch writes the same."""
        if found:
            self._directory.mkdir(exist_ok=True)
            write_sealed(self._directory / f"{batch}.rows", pickle.dumps(found))
            self.forget(batch - _MOST)

    def since(self, batch: int, last: int, expected: Iterable[int] = ()) -> Iterator[bytes]:
        """The rejected rows of batches after `batch` up to `last`.

        `expected` batches must have some.
        """
        there = {number for number, _ in self._files()}
        for number in expected:
            if number not in there:
                raise damaged(self._directory / f"{number}.rows", "it is missing")
        for number, path in self._files():
            if batch < number <= last:
                yield from pickle.loads(read_sealed(path))

    def forget(self, batch: int) -> None:
        """Delete the files of batches that are in the image."""
        for number, path in self._files():
            if number <= batch:
                path.unlink()

    def _files(self) -> list[tuple[int, Path]]:
        return sorted((int(path.stem), path) for path in self._directory.glob("*.rows"))
