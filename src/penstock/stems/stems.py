"""The SteMs of an engine: one per stream, columns and kind, shared by all readers (CACQ §3.3.1).

The readers are not part of the state. When an engine is rebuilt over a restored arena, plans
acquire their SteMs again and find the arrays of each under its name.
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.logical.stem_kind import StemKind
from penstock.state.arena import Arena, Scope
from penstock.state.source_log import SourceLog
from penstock.stems.keyed_stem import KeyedStem
from penstock.stems.stem import HashStem, OrderedStem, Stem

_CLASSES = {stem.kind: stem for stem in (HashStem, OrderedStem, KeyedStem)}


class Stems:
    """SteMs by name, with the number of readers of each."""

    def __init__(self, arena: Arena) -> None:
        self._scope = arena.scope("stems")
        self._stems: dict[str, Stem] = {}
        self._readers: dict[str, int] = {}

    def acquire(
        self, stream: str, log: SourceLog, columns: tuple[int, ...], kind: StemKind
    ) -> Stem:
        """The SteM of a kind over these columns of a stream, with one more reader."""
        scope = self._scope_of(stream, columns, kind)
        name = scope.prefix
        if name not in self._stems:
            self._stems[name] = _CLASSES[kind](scope, log, columns)
            self._readers[name] = 0
        self._readers[name] += 1
        return self._stems[name]

    def release(self, stem: Stem) -> None:
        """Remove one reader; the last one frees the SteM."""
        name = stem.scope.prefix
        self._readers[name] -= 1
        if not self._readers[name]:
            del self._stems[name], self._readers[name]
            stem.scope.free()

    def _scope_of(self, stream: str, columns: tuple[int, ...], kind: StemKind) -> Scope:
        return self._scope.scope(f"{stream}/{kind.value}-{'-'.join(map(str, columns))}")

    def is_read(self, stream: str, columns: tuple[int, ...], kind: StemKind) -> bool:
        """Whether the SteM has a reader."""
        return self._scope_of(stream, columns, kind).prefix in self._stems

    def sweep(self, stream: str, columns: tuple[int, ...], kind: StemKind) -> None:
        """Free the arrays of a SteM without readers, which a restored arena may have."""
        if not self.is_read(stream, columns, kind):
            self._scope_of(stream, columns, kind).free()

    def readers(self, stem: Stem) -> int:
        """The number of readers of a SteM."""
        return self._readers.get(stem.scope.prefix, 0)

    def __iter__(self) -> Iterator[Stem]:
        return iter(self._stems.values())

    def __len__(self) -> int:
        return len(self._stems)
