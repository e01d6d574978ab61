"""All errors that users see: a code, the place in the SQL text, and a remedy."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.secret import masked


@dataclass(frozen=True, slots=True)
class Place:
    """A position in a SQL text: 1-based line and column."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


class PenstockError(Exception):
    """Base of all errors raised by Penstock.

    `code` is stable (``PS-SQL-001``), `place` is the position in the SQL text when
    there is one, and `remedy` says what the user can do.
    """

    default_code = "PS-000"

    def __init__(
        self, message: str, *, code: str | None = None, place: Place | None = None, remedy: str = ""
    ) -> None:
        self.message = masked(message)
        self.code = code or self.default_code
        self.place = place
        self.remedy = masked(remedy)
        super().__init__(str(self))

    def __str__(self) -> str:
        where = f" at {self.place}" if self.place else ""
        todo = f"\n  remedy: {self.remedy}" if self.remedy else ""
        return f"[{self.code}] {self.message}{where}{todo}"


class SqlSyntaxError(PenstockError):
    """The text is not a statement of the dialect."""

    default_code = "PS-SQL-001"


class UnsupportedError(PenstockError):
    """The statement is valid SQL that Penstock does not support."""

    default_code = "PS-SQL-024"


class NameError_(PenstockError):
    """An unknown, ambiguous or duplicate name."""

    default_code = "PS-NAME-001"


class TypeError_(PenstockError):
    """The operands of an expression have types that do not fit."""

    default_code = "PS-TYPE-001"


class PlanError(PenstockError):
    """A plan that cannot run, such as one that needs unbounded state."""

    default_code = "PS-PLAN-000"


class DataError(PenstockError):
    """Input that does not fit its stream or table as a whole."""

    default_code = "PS-DATA-001"


class HistoryError(PenstockError):
    """A query needs more history than the stream retains."""

    default_code = "PS-HIST-001"


class QueryFailed(PenstockError):
    """A standing query that failed at run time (overflow, a UDF that raised)."""

    default_code = "PS-RUN-001"


class HeldUp(PenstockError):
    """A subscriber has not returned in time, so stop() or close() gives up."""

    default_code = "PS-RUN-007"

    def __init__(self, seconds: float) -> None:
        super().__init__(
            f"a subscriber has not returned for {seconds:.0f} s, and cannot be stopped",
            remedy="let the function given to subscribe() or on_progress() return, or end the "
            "process: the checkpoint stays intact",
        )


class StateError(PenstockError):
    """A checkpoint or snapshot that cannot be used."""

    default_code = "PS-STATE-000"
