"""Sources that are not read for a while, and when to try again.

A failed source is retried after a delay that doubles with each failure, or as soon as the file in
its error has changed. A source that the user paused waits for RESUME.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

BY_USER = "by ALTER STREAM … PAUSE"
_FIRST_S, _LONGEST_S = 5.0, 600.0
_PATH = re.compile(r"(?:file:/*)?(/[^\s'\",;\])]+)")


@dataclass(frozen=True, slots=True)
class Paused:
    """Why a source is not read, and from when on to try again (seconds, monotonic)."""

    reason: str
    failures: int = 0  # 0: paused by the user
    until: float = float("inf")
    files: Mapping[str, object] = field(default_factory=dict)

    def is_over(self, now: float) -> bool:
        """Whether to try again."""
        if self.failures == 0:
            return False
        return now >= self.until or any(_look(path) != was for path, was in self.files.items())


def paused_by_failure(reason: str, before: int, now: float | None = None) -> Paused:
    """A source after `before` earlier failures in a row."""
    delay = min(_LONGEST_S, _FIRST_S * 2.0**before)
    files = {path.rstrip(".:"): _look(path.rstrip(".:")) for path in _PATH.findall(reason)}
    now = time.monotonic() if now is None else now
    return Paused(reason, before + 1, now + delay, files)


def _look(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def blamed(said: str, places: Mapping[str, str]) -> tuple[str, ...]:
    """The streams with a place (path, topic, format) that an error names; the longest matches."""
    named = {stream: place for stream, place in places.items() if place and _names(said, place)}
    longest = max(map(len, named.values()), default=0)
    return tuple(sorted(s for s, place in named.items() if len(place) == longest))


def _names(said: str, place: str) -> bool:
    ways = {place, quote(place)}
    return any(re.search(rf"(?<!\w){re.escape(way)}(?=[/\s.,:;'\"\])]|$)", said) for way in ways)
