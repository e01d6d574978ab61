"""The catalog of a session: streams, tables, views and functions by name, and a meter per stream.

A lookup of an unknown name raises an error with a remedy. Every declared stream has a meter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.errors import NameError_
from penstock.session.measure import StreamMeter
from penstock.sql.catalog import MemoryCatalog, StreamDef, TableDef, ViewDef


@dataclass
class SessionCatalog(MemoryCatalog):
    """The declared relations, and the measurements of streams."""

    meters: dict[str, StreamMeter] = field(default_factory=dict)

    def streams(self) -> list[StreamDef]:
        """All streams."""
        return [r for r in list(self.relations.values()) if isinstance(r, StreamDef)]

    def tables(self) -> list[TableDef]:
        """All tables."""
        return [r for r in list(self.relations.values()) if isinstance(r, TableDef)]

    def views(self) -> list[ViewDef]:
        """All views."""
        return [r for r in list(self.relations.values()) if isinstance(r, ViewDef)]

    def find_table(self, name: str) -> TableDef:
        """The table called `name`."""
        found = self.relation(name)
        if isinstance(found, StreamDef):
            raise NameError_(
                f"{found.name} is a stream: INSERT, UPDATE and DELETE change tables only",
                code="PS-NAME-011",
                remedy=f"add rows with push('{found.name}', rows), or from files: "
                f"CREATE STREAM … FROM parquet OPTIONS (path …)",
            )
        if not isinstance(found, TableDef):
            raise NameError_(f"there is no table {name}", remedy="SHOW TABLES lists them")
        return found

    def find_stream(self, name: str) -> StreamDef:
        """The stream called `name`."""
        found = self.relation(name) if isinstance(name, str) else None
        if not isinstance(found, StreamDef):
            raise NameError_(f"there is no stream {name}", remedy="SHOW STREAMS lists them")
        return found

    def meter(self, stream: str) -> StreamMeter:
        """The meter of the stream called `stream`."""
        return self.meters[self.find_stream(stream).name]

    def remove(self, name: str) -> None:
        """Remove a relation, and with a stream its meter."""
        gone = self.relations.pop(name.lower())
        self.meters.pop(gone.name, None)
        for meter in self.meters.values():
            meter.table_changes.pop(gone.name, None)
