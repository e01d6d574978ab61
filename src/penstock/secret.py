"""Secrets in options: recognise them, and mask them in errors.

A value is secret by the name of its option, or because it holds a password itself, as a URL may.
Known secrets are masked in every `PenstockError` of the process.
"""

from __future__ import annotations

import re

MASK = "***"
_NAMES = re.compile(
    r"passw(or)?d|passphrase|pwd|secret|token|credential|jaas|(private|access|api|account)[._-]?key",
    re.IGNORECASE,
)
_VALUES = re.compile(
    r"(passw(or)?d|pwd|secret|token)\s*=\s*\S|://[^/\s:@]*:[^/\s@]+@", re.IGNORECASE
)
_SHORTEST = 4
"""Shorter texts occur in too many words to be masked in messages."""
_met: set[str] = set()


def is_secret(option: str, value: str) -> bool:
    """Whether the value of an option must not be shown."""
    return bool(_NAMES.search(option) or _VALUES.search(value))


def remember(value: str) -> None:
    """Mask a text in later errors."""
    if len(value) >= _SHORTEST:
        _met.add(value)


def masked(text: str) -> str:
    """The text with all known secrets masked."""
    for value in sorted(_met, key=len, reverse=True):
        text = text.replace(value, MASK)
    return text
