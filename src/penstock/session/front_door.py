"""The front door for text: parse, bind, check the depth, lift; then a query can be registered.

A SELECT that differs from an earlier one in constants only is neither parsed nor bound again
(`session/known_texts.py`), whether it comes by query(), query_many() or, as a statement of its own
or in CREATE MATERIALIZED VIEW, by sql().
"""

from __future__ import annotations

from dataclasses import replace

from penstock.errors import SqlSyntaxError
from penstock.logical.nodes import Node
from penstock.logical.on_error import OnError
from penstock.logical.strategy import UPA, Given, Strategy, strategy_of
from penstock.session.books import Books
from penstock.session.compile import compile_select
from penstock.session.known_texts import Prepared
from penstock.session.on_error import check_setting, with_setting
from penstock.session.runner import Runner
from penstock.session.standing import Standing
from penstock.sql.parser import parse_script, parse_statement
from penstock.sql.statements import CreateView, Explain, Select, Statement


def _parse_later(_: Select) -> bool:
    """A single SELECT is parsed when it is prepared, unless a known text is like it."""
    return True


class FrontDoor:
    """Turns texts and parsed SELECTs into prepared queries.

    A query without a strategy of its own has the session's.
    """

    def __init__(self, books: Books, runner: Runner, strategy: Strategy = UPA) -> None:
        self._strategy = strategy
        self._books, self._runner, self._texts = books, runner, books.queries.texts

    def standing(self, follows: dict[str, bool]) -> Standing:
        """The catalog as a query sees it.

        `follows` records which views the query follows by changes.
        """
        books = self._books
        return Standing(books.catalog, books.queries, self._runner.sources.has_rows, follows)

    def _now(self) -> Standing:
        """The catalog for a query that is registered now; a repeated call gets the same one."""
        return self.standing(self._runner.calls.note(dict))

    def script(self, text: str) -> list[Statement]:
        """The statements of a text; an error in one of them is found before any of them runs."""
        return parse_script(text, self._texts.recognise)

    def strategy(self, given: Given) -> Strategy:
        """The strategy that a caller gives, or the session's."""
        return strategy_of(given, self._strategy)

    def settled(self, statement: Statement) -> Statement:
        """A statement with the session's strategy, so that repeating it gives the same query."""
        match statement:
            case Select():
                return self._settled(statement)
            case CreateView(select=select):
                return replace(statement, select=self._settled(select))
            case Explain(target=Select() as select):
                return replace(statement, target=self._settled(select))
        return statement

    def _settled(self, select: Select) -> Select:
        return replace(select, session_strategy=self._strategy)

    def text(self, text: str, on_error: OnError | None, strategy: Strategy, takes: str) -> Prepared:
        """The SELECT of a text; `takes` is the call that takes no other statement."""
        check_setting(on_error)
        select = parse_statement(text, _parse_later)
        if not isinstance(select, Select):
            raise SqlSyntaxError(f"{takes} takes a SELECT", remedy="use sql() for statements")
        return self.select(replace(with_setting(select, on_error), strategy=strategy))

    def select(self, select: Select) -> Prepared:
        """A SELECT."""
        return _by(select, self._texts.prepare(select, self._now()))

    def view(self, select: Select) -> tuple[Node, Prepared]:
        """The SELECT of a view, and what stands for it where the view's name is used."""
        node, prepared = self._texts.define(select, self._now())
        return node, _by(select, prepared)

    def trial(self, select: Select) -> Prepared:
        """A SELECT as it would be registered, without consequences for later ones."""
        lengths = self._books.queries.lengths.trial()
        compiled = compile_select(select, self.standing({}), lengths)
        return Prepared(compiled, select.history, select.emission, select.runs_by)


def _by(select: Select, prepared: Prepared) -> Prepared:
    by = select.runs_by
    return prepared if prepared.strategy == by else replace(prepared, strategy=by)
