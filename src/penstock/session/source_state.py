"""How far the source of a stream has been read in process, and why it is not read."""

from __future__ import annotations

from dataclasses import dataclass, field

BY_USER = "by ALTER STREAM … PAUSE"


@dataclass(slots=True)
class SourceState:
    """Files that were read, and why reading was stopped; empty when it was not."""

    files: set[str] = field(default_factory=set)
    paused: str = ""

    @property
    def is_off(self) -> bool:
        """Whether the user paused it: what failed is tried again."""
        return self.paused == BY_USER
