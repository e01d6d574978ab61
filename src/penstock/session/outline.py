"""A summary of a session for the command line: where it runs, its streams, names to complete."""

from __future__ import annotations

from collections.abc import Container, Iterator

from penstock.session.books import Books
from penstock.session.feed import Feed
from penstock.session.runner import Runner
from penstock.sql.catalog import StreamDef, ViewDef

_SOME = 100  # at most this many queries of a group


class Outline:
    """A session as a command line sees it."""

    def __init__(self, books: Books, runner: Runner, feed: Feed) -> None:
        self._books, self._runner, self._feed = books, runner, feed

    def streams(self) -> list[StreamDef]:
        """The streams of the session."""
        return self._books.catalog.streams()

    def typed_words(self) -> list[str]:
        """Names that a statement may use: relations, their columns, some of the queries."""
        found = []
        for relation in list(self._books.catalog.relations.values()):
            schema = relation.node.schema if isinstance(relation, ViewDef) else relation.schema
            found += [relation.name, *schema.names]
        for group in list(self._books.queries.registry.groups.values()):
            found += group.names[:_SOME]
        return found

    def runs_on(self) -> str:
        """Where the session works, in words."""
        return self._runner.where()

    def read_sources(self, besides: Container[str] = ()) -> Iterator[tuple[str, int]]:
        """Push all unread rows of file sources (`Feed.read_sources`)."""
        return self._feed.read_sources(besides)
