"""Calls of a session: on shards each becomes a numbered entry of a log and can be repeated.

What a call chose by measurement or by number is in its notes, so a call that is repeated after a
restart chooses the same. In one process nothing is repeated, and calls have no numbers.
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
"""What repeats a call, by its name."""


class Calls(Protocol):
    """How calls are named, noted and numbered."""

    @property
    def number(self) -> int:
        """The number of the entry that the present call becomes; 0 without a log."""

    @property
    def is_repeating(self) -> bool:
        """Whether a call of a former process is repeated, which was judged then."""

    def repeat_with(self, handlers: Handlers) -> None:
        """Take what repeats calls, by their names."""

    def begin(self, method: str, *arguments: Any) -> None:
        """Name the call, unless it is part of another."""

    def statement(self, statement: st.Statement) -> Any:
        """A context in which a statement is one call."""

    def note(self, make: Callable[[], Any]) -> Any:
        """What `make` gives, or gave when the call was made first."""


class PlainCalls:
    """Calls of a session in one process."""

    number = 0
    is_repeating = False

    def repeat_with(self, handlers: Handlers) -> None:
        """No call is repeated."""

    def begin(self, method: str, *arguments: Any) -> None:
        """Calls have no names."""

    @contextmanager
    def statement(self, statement: st.Statement) -> Iterator[None]:
        """A statement takes effect at once."""
        yield

    def note(self, make: Callable[[], Any]) -> Any:
        """What `make` gives."""
        return make()


@dataclass(slots=True)
class Call:
    """What repeats a call: its name, its arguments, and what it chose."""

    method: str
    arguments: tuple[Any, ...]
    notes: list[Any] = field(default_factory=list)
    lasting: bool = False  # to be repeated even if it told the shards nothing


class LoggedCalls:
    """Calls of a session on shards: what one told the shards is an entry when it ends.

    `has_external` says whether rows come past the session, so that only entries order them;
    `is_heard` says whether subscribers are told at once what a call does.
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
        self._heard = False  # whether subscribers are told at once what the call does
        self._replayed: list[Any] | None = None
        self._repeated = 0  # number of the entry that is being repeated

    @property
    def number(self) -> int:
        """The number of the entry that the present call becomes."""
        return self._repeated or self._job.next_entry

    @property
    def last_number(self) -> int:
        """The number of the entry that the last call became, or of the one being repeated."""
        return self._repeated or self._job.next_entry - 1

    @property
    def is_repeating(self) -> bool:
        """Whether a call of a former process is repeated."""
        return self._replayed is not None

    # ---- one call --------------------------------------------------------------------
    def begin(self, method: str, *arguments: Any) -> None:
        """Name the call, unless it is part of another; a dead job takes only what may repair it."""
        if not _may_mend(method, arguments):
            self._gate.check_alive()
        if self._call is None:
            self._see_rows()
            self._call = Call(method, arguments)
            self._heard = self._is_heard()

    def _see_rows(self) -> None:
        """What a query registered now does not see."""
        self._control.see(self.number - 1 if self._has_external() else self.last_rows)

    def note(self, make: Callable[[], Any]) -> Any:
        """What `make` gives, or gave when the call was made first."""
        if self._replayed is not None:
            return self._replayed.pop(0)
        value = make()
        if self._call is not None:
            self._call.notes.append(value)
        return value

    def tell(self, blocks: list[Encoded]) -> None:
        """Tell the shards something with the present call; outside a call, at once."""
        self._pending += blocks
        if not self._gate.in_call:
            self.end()

    @contextmanager
    def statement(self, statement: st.Statement) -> Iterator[None]:
        """A statement is an entry of its own."""
        self._job.catch_up()  # a sink gets nothing of before
        self.begin("execute", statement)
        try:
            yield
            if self._call is not None:
                self._call.lasting = isinstance(statement, st.CreateSink | st.Drop | PauseSource)
        finally:
            self.end()

    def push(self, method: str, arguments: tuple[Any, ...], block: Encoded) -> None:
        """A push is an entry of its own, which rows of later queries come after."""
        self._call = Call(method, arguments)
        self._pending.append(block)
        self.end()

    def end(self) -> None:
        """Make what the call told the shards an entry."""
        blocks, self._pending = tuple(self._pending), []
        call, self._call = self._call, None
        if self._replayed is None and (blocks or (call is not None and call.lasting)):
            self._job.append(blocks, call)
            if self._heard:
                self._job.catch_up()

    # ---- restart ---------------------------------------------------------------------
    def repeat_with(self, handlers: Handlers) -> None:
        """Take what repeats calls, by their names."""
        self._handlers = {**self._handlers, **handlers}

    def repeat(self, number: int, call: Call) -> None:
        """Repeat a call of a former process, entry `number`, on this session's own state."""
        self._replayed, self._repeated = list(call.notes), number
        try:
            self._handlers[call.method](*call.arguments)
        finally:
            self._replayed, self._repeated = None, 0


def _may_mend(method: str, arguments: tuple[Any, ...]) -> bool:
    """Whether a dead job takes a call: what drops, pauses or resumes, and what comes by itself."""
    if method == "execute":
        return isinstance(arguments[0], st.Drop | PauseSource)
    return method in ("drop", "beat", "fail")
