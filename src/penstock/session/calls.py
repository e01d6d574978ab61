"""The calls of a session: on shards, each call becomes a log entry and can be repeated.

A call notes what it chose by measurement or by number. When it is repeated after a restart, it
reads the notes and makes the same choices. In one process calls are neither repeated nor numbered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from penstock.engine.control import ControlEngine
from penstock.session.gate import Gate
from penstock.shards.encoding import Encoded
from penstock.shards.job import Job
from penstock.sql import statements as st
from penstock.sql.alter import PauseSource

Handlers = Mapping[str, Callable[..., Any]]
"""The functions that repeat calls, by name of the call."""


class Calls(Protocol):
    """Names, notes and numbers of calls."""

    @property
    def number(self) -> int:
        """The number of the log entry that the current call becomes; 0 without a log."""

    @property
    def is_repeating(self) -> bool:
        """Whether a call of a former process is being repeated; its checks passed at that time."""

    def repeat_with(self, handlers: Handlers) -> None:
        """Register the functions that repeat calls, by name."""

    def begin(self, method: str, *arguments: Any) -> None:
        """Start a call with a name and arguments, unless it is part of another call."""

    def statement(self, statement: st.Statement) -> Any:
        """A context in which a statement is one call."""

    def note(self, make: Callable[[], Any]) -> Any:
        """Return the value of `make()`, or the value it had when the call was first made."""


class PlainCalls:
    """Calls of a session in one process."""

    number = 0
    is_repeating = False

    def repeat_with(self, handlers: Handlers) -> None:
        """Do nothing: no call is repeated."""

    def begin(self, method: str, *arguments: Any) -> None:
        """Do nothing: calls have no names."""

    @contextmanager
    def statement(self, statement: st.Statement) -> Iterator[None]:
        """Run the statement without a log entry."""
        yield

    def note(self, make: Callable[[], Any]) -> Any:
        """Return the value of `make()`."""
        return make()


@dataclass(slots=True)
class Call:
    """A call as needed to repeat it: its name, its arguments and its notes."""

    method: str
    arguments: tuple[Any, ...]
    notes: list[Any] = field(default_factory=list)
    lasting: bool = False  # log it even if the shards need no block of it


class LoggedCalls:
    """Calls of a session on shards: the blocks of one call become a log entry when the call ends.

    `has_external` tells whether a source outside the session brings rows, so that only log entries
    order them. `is_heard` tells whether a subscriber must learn of the call's changes at once.
    """

    def __init__(
        self,
        job: Job,
        control: ControlEngine,
        gate: Gate,
        has_external: Callable[[], bool],
        is_heard: Callable[[], bool],
    ) -> None:
        self.last_rows = 0  # entry of the last push
        self._job, self._control, self._gate = job, control, gate
        self._has_external, self._is_heard = has_external, is_heard
        self._handlers: Handlers = {}
        self._pending: list[Encoded] = []
        self._call: Call | None = None
        self._heard = False  # whether subscribers must learn of its changes at once
        self._replayed: list[Any] | None = None
        self._repeated = 0  # number of the entry that is being repeated

    @property
    def number(self) -> int:
        """The number of the log entry that the current call becomes."""
        return self._repeated or self._job.next_entry

    @property
    def last_number(self) -> int:
        """The number of the last call's log entry, or of the entry that is being repeated."""
        return self._repeated or self._job.next_entry - 1

    @property
    def is_repeating(self) -> bool:
        """Whether a call of a former process is repeated."""
        return self._replayed is not None

    # ---- one call --------------------------------------------------------------------
    def begin(self, method: str, *arguments: Any) -> None:
        """Start a call, unless it is part of another call.

        If the job is dead, only calls that may repair it are allowed.
        """
        if not _may_mend(method, arguments):
            self._gate.check_alive()
        if self._call is None:
            self._see_rows()
            self._call = Call(method, arguments)
            self._heard = self._is_heard()

    def _see_rows(self) -> None:
        """Set the last entry with rows that a query registered now does not see."""
        self._control.see(self.number - 1 if self._has_external() else self.last_rows)

    def note(self, make: Callable[[], Any]) -> Any:
        """Return the value of `make()`, or the value it had when the call was first made."""
        if self._replayed is not None:
            return self._replayed.pop(0)
        value = make()
        if self._call is not None:
            self._call.notes.append(value)
        return value

    def tell(self, blocks: list[Encoded]) -> None:
        """Add blocks for the shards to the current call.

        Outside a call, append an entry at once.
        """
        self._pending += blocks
        if not self._gate.in_call:
            self.end()

    @contextmanager
    def statement(self, statement: st.Statement) -> Iterator[None]:
        """A context in which a statement is one log entry."""
        self._job.catch_up()  # changes from before a sink do not go to it
        self.begin("execute", statement)
        try:
            yield
            if self._call is not None:
                self._call.lasting = isinstance(statement, st.CreateSink | st.Drop | PauseSource)
        finally:
            self.end()

    def push(self, method: str, arguments: tuple[Any, ...], block: Encoded) -> None:
        """Append a push as an entry of its own; queries registered later do not see its rows."""
        self._call = Call(method, arguments)
        self._pending.append(block)
        self.end()

    def end(self) -> None:
        """Append the blocks of the call to the log as one entry."""
        blocks, self._pending = tuple(self._pending), []
        call, self._call = self._call, None
        if self._replayed is None and (blocks or (call is not None and call.lasting)):
            self._job.append(blocks, call)
            if self._heard:
                self._job.catch_up()

    # ---- restart ---------------------------------------------------------------------
    def repeat_with(self, handlers: Handlers) -> None:
        """Register the functions that repeat calls, by name."""
        self._handlers = {**self._handlers, **handlers}

    def repeat(self, number: int, call: Call) -> None:
        """Repeat a call of a former process (log entry `number`) on this session's state."""
        self._replayed, self._repeated = list(call.notes), number
        try:
            self._handlers[call.method](*call.arguments)
        finally:
            self._replayed, self._repeated = None, 0


def _may_mend(method: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a dead job allows a call: drops, PAUSE, RESUME, and calls of the session itself."""
    if method == "execute":
        return isinstance(arguments[0], st.Drop | PauseSource)
    return method in ("drop", "beat", "fail")
