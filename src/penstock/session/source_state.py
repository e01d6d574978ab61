"""How far an in-process source has been read, and why it is paused."""

from __future__ import annotations

from dataclasses import dataclass, field

BY_USER = "by ALTER STREAM … PAUSE"


@dataclass(slots=True)
class SourceState:
    """Files that were read, and the reason for a pause; empty without pause."""

    files: set[str] = field(default_factory=set)
    paused: str = ""

    @property
    def is_off(self) -> bool:
        """Whether the user paused it; a source paused by a failure is tried again."""
        return self.paused == BY_USER
