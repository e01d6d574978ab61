"""Counts what plans share (flows, joins of two windows, SteMs), from the specs of all plans.

It needs specs only, so EXPLAIN says the same where plans run and where they are only registered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from penstock.logical.nodes import Scan
from penstock.logical.stem_kind import StemKey, StemKind
from penstock.physical.draft import PlanSpec
from penstock.physical.join_specs import WindowJoinSpec
from penstock.physical.operator import counted
from penstock.physical.specs import FlowSpec, Spec

_Stem = tuple[str, StemKey]
"""A stream, and how its rows are looked up."""


class Sharing:
    """Counts of templates and queries per flow and join, and of readers per SteM."""

    def __init__(self, plans: Iterable[tuple[PlanSpec, int]]) -> None:
        self._templates: Counter[object] = Counter()
        self._queries: Counter[object] = Counter()
        self._readers: Counter[_Stem] = Counter()
        for plan, queries in plans:
            for spec in plan.specs:
                self._count(spec, queries)

    def _count(self, spec: Spec, queries: int) -> None:
        if not isinstance(spec, FlowSpec | WindowJoinSpec):
            return
        key = _key(spec)
        if key not in self._templates:
            self._readers.update(stem for stem, _ in _stems(spec))
        self._templates[key] += 1
        self._queries[key] += queries

    def note(self, spec: FlowSpec | WindowJoinSpec) -> str:
        """For EXPLAIN: the templates and queries that share this spec, the readers of its SteMs."""
        templates = counted(self._templates[_key(spec)], "template")
        shared = f"join of {templates}"
        if isinstance(spec, FlowSpec):
            shared = f"flow of {templates}, {counted(self._queries[_key(spec)], 'query')}"
        found = list(_stems(spec))
        if isinstance(spec, WindowJoinSpec):
            found = list({stem: (stem, scan) for stem, scan in found}.values())
        return "; ".join([shared, *(self._stem(stem, scan) for stem, scan in found)])

    def _stem(self, stem: _Stem, scan: Scan) -> str:
        stream, (columns, kind) = stem
        what = _described([scan.stream_schema.names[c] for c in columns], kind)
        return f"stem {stream} {what} ({counted(self._readers[stem], 'reader')})"


def _key(spec: FlowSpec | WindowJoinSpec) -> object:
    """A key that is equal for specs that share one flow or join."""
    if isinstance(spec, FlowSpec):
        return spec.block.span, spec.streams.difference(spec.block.span.streams)
    return spec.windows, spec.band


def _described(columns: list[str], kind: StemKind) -> str:
    """For EXPLAIN: the columns that look rows up, and the way."""
    if kind is StemKind.KEYED:
        *key, value = columns
        return f"({', '.join(key)}) in order of {value}" if key else f"in order of {value}"
    return f"({', '.join(columns)}){' in order' if kind is StemKind.ORDERED else ''}"


def _stems(spec: FlowSpec | WindowJoinSpec) -> Iterator[tuple[_Stem, Scan]]:
    if isinstance(spec, FlowSpec):
        for alias, scan in enumerate(spec.block.scans):
            for key in spec.block.span.keys(alias):
                yield (scan.stream, key), scan
        return
    for window, scan in zip(spec.windows, spec.scans, strict=True):
        if window.columns:
            yield (window.stream, (window.columns, window.kind)), scan
