"""The setting ON ERROR of a query, as its text and the caller's keyword give it."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from penstock.errors import SqlSyntaxError
from penstock.logical.on_error import OnError
from penstock.sql.statements import Select


def check_setting(on_error: OnError | None) -> None:
    """Raise an error if the value is none of the settings."""
    if on_error is not None and on_error not in get_args(OnError):
        raise SqlSyntaxError(
            f"on_error={on_error!r} is not a valid setting",
            code="PS-SQL-027",
            remedy='give on_error="null", "skip" or "fail"',
        )


def with_setting(select: Select, on_error: OnError | None) -> Select:
    """The SELECT with the caller's setting; raises an error if its text has a different one."""
    check_setting(on_error)
    if on_error is None:
        return select
    if select.on_error not in (None, on_error):
        raise SqlSyntaxError(
            f"the text has an ON ERROR clause that differs from on_error={on_error!r}",
            code="PS-SQL-027",
            place=select.place,
            remedy="keep one of them",
        )
    return replace(select, on_error=on_error)
