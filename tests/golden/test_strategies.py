"""The golden files under every strategy: net of each instant, their changes are those of the file.

How a strategy lets rows leave decides whether a change is an update or a deletion and an insertion,
and its EXPLAIN is its own.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from golden.runner import Golden, Section, table
from golden.test_golden import FILES, HERE
from oracle.fold import META, bag, rows_of, same
from penstock.logical.strategy import STRATEGIES, UPA

OTHERS = [s.name for s in STRATEGIES if s != UPA]
LEAVING = ("-", "u-", "delete", "update_preimage")


def net(rows: list[tuple[object, ...]], by_query: bool) -> Counter[tuple[object, ...]]:
    """Rows of time, change and values: how many more come than go.

    If `by_query`, the first value names one query or several.
    """
    found: Counter[tuple[object, ...]] = Counter()
    for time, change, *values in rows:
        names = str(values[0]).split(",") if by_query else [None]
        for name in names:
            key = (time, name, *values[1:]) if by_query else (time, *values)
            found[key] += -1 if change in LEAVING else 1
    return found


class NetGolden(Golden):
    """A golden file of which only the net changes of each instant are compared."""

    def do_explain(self, section: Section, name: str) -> None:
        """The plan is another one, but there is one."""
        assert f"strategy: {self.settings['strategy']}" in self._query(name).explain()

    @staticmethod
    def _compare(
        found: pa.Table, section: Section, heads: list[str], cells: list[list[str]]
    ) -> None:
        _, wanted = table(section.lines)
        times, kinds = (found.column(name).to_pylist() for name in ("_time", "_change_type"))
        front = zip(times, kinds, *cells, strict=True)
        data = rows_of(found, skip=META)
        seen = [(*before, *row) for before, row in zip(front, data, strict=True)]
        changes = [net(rows, bool(heads)) for rows in (seen, wanted)]
        for come in (1, -1):
            counts = [bag(Counter({k: come * n for k, n in c.items()}).elements()) for c in changes]
            assert same(*counts), seen


@pytest.mark.parametrize("strategy", OTHERS)
@pytest.mark.parametrize("path", FILES, ids=[str(f.relative_to(HERE)) for f in FILES])
def test_golden_under_a_strategy(path: Path, strategy: str) -> None:
    golden = NetGolden(path)
    golden.session.close()
    golden.do_connect(Section([], [], ""), f"strategy={strategy}")
    golden.run()
