"""The front door for text: parse, bind, check the depth, lift; then a query can be registered.

A text that differs from an earlier one in constants only is neither parsed nor bound again
(`session/known_texts.py`). query(), query_many(), SELECT, CREATE MATERIALIZED VIEW and EXPLAIN
all come this way.
"""

from __future__ import annotations

from penstock.logical.nodes import Node
from penstock.logical.on_error import OnError
from penstock.session.books import Books
from penstock.session.compile import compile_named
from penstock.session.known_texts import Prepared
from penstock.session.runner import Runner
from penstock.session.standing import Standing
from penstock.sql.statements import Select


class FrontDoor:
    """Turns texts and parsed SELECTs into prepared queries."""

    def __init__(self, books: Books, runner: Runner) -> None:
        self._books, self._runner = books, runner

    def standing(self, follows: dict[str, bool]) -> Standing:
        """The catalog as a query sees it.

        `follows` records which views the query follows by changes.
        """
        books = self._books
        return Standing(books.catalog, books.queries, self._runner.sources.has_rows, follows)

    def _now(self) -> Standing:
        """The catalog for a query that is registered now; a repeated call gets the same one."""
        return self.standing(self._runner.calls.note(dict))

    def text(self, text: str, on_error: OnError | None, takes: str) -> Prepared:
        """The SELECT of a text; `takes` is the call that takes no other statement."""
        return self._books.queries.texts.prepare(text, self._now(), on_error, takes)

    def select(self, select: Select) -> tuple[Node, Prepared]:
        """A SELECT of a script, and what stands for it where its name is used."""
        node, compiled = compile_named(select, self._now(), self._books.queries.lengths)
        return node, Prepared(compiled, select.history, select.emission)

    def trial(self, select: Select) -> Prepared:
        """A SELECT as it would be registered, without consequences for later ones."""
        lengths = self._books.queries.lengths.trial()
        _, compiled = compile_named(select, self.standing({}), lengths)
        return Prepared(compiled, select.history, select.emission)
