"""Looking names up in a session, with errors that help."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import NameError_
from penstock.sql.catalog import StreamDef, TableDef

if TYPE_CHECKING:
    from penstock.session.session import Session


def is_taken(session: Session, name: str, if_not_exists: bool) -> bool:
    """Whether `name` exists; an error unless IF NOT EXISTS was written."""
    if session._catalog.relation(name) is None and name not in session._registry:
        return False
    if if_not_exists:
        return True
    raise NameError_(
        f"{name} already exists",
        code="PS-NAME-008",
        remedy="choose another name, drop it first, or write IF NOT EXISTS",
    )


def find_table(session: Session, name: str) -> TableDef:
    """The table called `name`."""
    found = session._catalog.relation(name)
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


def find_stream(session: Session, name: str) -> StreamDef:
    """The stream called `name`."""
    found = session._catalog.relation(name) if isinstance(name, str) else None
    if not isinstance(found, StreamDef):
        raise NameError_(f"there is no stream {name}", remedy="SHOW STREAMS lists them")
    return found
