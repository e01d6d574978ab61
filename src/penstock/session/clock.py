"""The wall clock of a session."""

from __future__ import annotations

import time

DAY_US = 86_400_000_000


def now_us() -> int:
    """Wall time in µs since 1970."""
    return time.time_ns() // 1000
