"""File sources that this process reads; they are checked when the stream is declared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.errors import DataError, UnsupportedError
from penstock.files.fitting import check_files
from penstock.inprocess.sources import FileSource, check_source
from penstock.session.catalog import SessionCatalog
from penstock.session.vault import Vault
from penstock.sql import statements as st
from penstock.sql.catalog import StreamDef


def open_files(stream: StreamDef, vault: Vault) -> FileSource:
    """Open the files of a stream that has a source."""
    assert stream.format is not None
    return check_source(stream.format, dict(vault.plain(stream.options)), f"stream {stream.name}")


class FileSources:
    """Sources without Spark: files that flush() reads, and pushed rows."""

    def __init__(self, catalog: SessionCatalog, vault: Vault) -> None:
        self._catalog, self._vault = catalog, vault

    def declare(self, stream: StreamDef) -> None:
        """Raise an error if the declared source of a stream cannot be read."""
        if stream.format is None:
            return
        source = open_files(stream, self._vault)
        if not source.is_stdin and not source.listing.exists():
            raise DataError(
                f"stream {stream.name}: path {source.listing.path!r} does not exist",
                code="PS-SRC-004",
                remedy="create the directory first (files may come later); paths are relative to "
                "the working directory",
            )
        if not source.is_stdin:
            check_files(stream, source.format, {"path": source.listing.path})

    def check(self, statement: st.Statement) -> None:
        """Do nothing: every statement is allowed."""

    def executed(self, statement: st.Statement) -> None:
        """Do nothing: the catalog already has all that reading needs."""

    def pause(self, stream: str, paused: bool) -> None:
        """Do nothing: flush() checks whether a source is paused."""

    def why_paused(self, stream: str) -> str:
        """Why the source of a stream is not read; empty if it is read."""
        return self._catalog.meters[stream].source.paused

    def has_rows(self, stream: str) -> bool:
        """Whether a stream has brought rows."""
        return self._catalog.meters[stream].accepted > 0

    def unseen(self, stream: str) -> int | None:
        """None: this process knows the time of every stream."""
        return None

    def check_push(self, stream: StreamDef) -> None:
        """Do nothing: rows may be pushed to every stream."""

    def add_frame(
        self, name: str, frame: Any, clauses: dict[str, Any], sql: Callable[[str], Any]
    ) -> None:
        """Raise an error: a streaming DataFrame needs Spark."""
        raise UnsupportedError(
            "streaming DataFrames need the Spark runner",
            code="PS-RUNNER-002",
            remedy="connect() without runner=, or push() the rows",
        )
