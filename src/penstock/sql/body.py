"""The body of a SELECT: its tokens, and the tree that they parse to.

Parsing takes most of the time that a new text costs, so the tree is made when it is first asked
for. A body that differs from an earlier one in constants only never needs it
(`session/known_texts.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from operator import is_not

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from penstock.errors import Place
from penstock.roomy import roomy
from penstock.sql.cursor import Text
from penstock.sql.dialect import parse_query, tokenize

Skeleton = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Reads:
    """The names in FROM, without those that a WITH in sight gives; whether there is a window."""

    names: tuple[str, ...]
    windowed: bool


class Body:
    """The tokens of a SELECT without the clauses that may follow it."""

    __slots__ = ("_query", "_reads", "_split", "place", "text", "tokens")

    def __init__(self, tokens: list[Token], text: Text, place: Place) -> None:
        self.tokens, self.text, self.place = tokens, text, place
        self._query: exp.Query | None = None
        self._reads: Reads | None = None
        self._split: tuple[Skeleton, list[Token]] | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Body) and bool(self.query == other.query)

    def __hash__(self) -> int:
        return hash(self.query)

    def __reduce__(self) -> tuple[object, tuple[str]]:
        """As text: places then count from the beginning of the SELECT."""
        return _of_text, (self.text.sql[self.tokens[0].start : self.tokens[-1].end + 1],)

    @property
    @roomy
    def query(self) -> exp.Query:
        """The tree."""
        if self._query is None:
            self._query = parse_query(self.tokens, self.text, self.place)
        return self._query

    @property
    def reads(self) -> Reads:
        """The names in FROM."""
        if self._reads is None:
            nodes = list(self.query.walk())
            windowed = any("window" in node.meta for node in nodes)
            self._reads = Reads(tuple(relations(nodes)), windowed)
        return self._reads

    def is_like(self, reads: Reads) -> None:
        """Take over what an earlier body reads that differs in constants only."""
        self._reads = reads

    @property
    def skeleton(self) -> Skeleton:
        """Types and texts of the tokens, without the texts of numbers and strings."""
        return self._halves()[0]

    @property
    def masked(self) -> list[Token]:
        """The numbers and strings."""
        return self._halves()[1]

    def _halves(self) -> tuple[Skeleton, list[Token]]:
        if self._split is None:
            kept: list[object] = []
            masked: list[Token] = []
            for token in self.tokens:
                kind = token.token_type
                if kind is TokenType.NUMBER or kind is TokenType.STRING:
                    masked.append(token)
                    kept += (kind, "")
                else:
                    kept += (kind, token.text)
            self._split = tuple(kept), masked
        return self._split


def _of_text(sql: str) -> Body:
    text = Text(sql)
    return Body(tokenize(text), text, text.place(0))


def relations(nodes: Iterable[exp.Expr]) -> Iterator[str]:
    """The names in FROM among the nodes of a tree, without those that a WITH in sight gives."""
    tables = (node for node in nodes if isinstance(node, exp.Table))
    return (table.name for table in tables if table.name.lower() not in _given(table))


def _given(node: exp.Expr) -> set[str]:
    """The names that WITH gives where a relation stands: a CTE sees those before it."""
    given: set[str] = set()
    while (parent := node.parent) is not None:
        clause = parent if isinstance(parent, exp.With) else parent.args.get("with_")
        if clause is not None and clause is not node:
            before = takewhile(partial(is_not, node), clause.expressions)
            given.update(cte.alias.lower() for cte in before)
        node = parent
    return given
