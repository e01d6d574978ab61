"""Lines typed at the shell: history that is kept, and completion with Tab.

The history is in the user's state directory, readable only by the user. Lines that seem to
contain a password are not saved. Without the readline module there is no history or completion.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from penstock.secret import is_secret

_WORDS = """
AND AS BETWEEN BIGINT BOOLEAN BY CASE CAST CHANGES CREATE CSV DECIMAL DELAY DELETE
DESCRIBE DISTINCT DOUBLE DROP ELSE EMIT END EXCEPT EXISTS EXPLAIN FILTER FROM FULL GROUP
HAVING HISTORY IF IN INSERT INT INTERSECT INTERVAL INTO IS JOIN JSON LATE LEFT LIKE
MATERIALIZED NOT NOW NULL ON OPTIONS OR PARQUET PARTITION QUARANTINE QUERIES RANGE RETAIN
RIGHT ROW ROWS SECONDS SELECT SET SHOW SINK SINKS SLIDE STREAM STREAMS STRING TABLE TABLES
THEN TICK TIMESTAMP UNBOUNDED UNION UPDATE USING VALUES VIEW WHEN WHERE WITH
"""
KEYWORDS = tuple(_WORDS.split())
_MOST_LINES = 10_000
_BREAKS = " \t\n\"'`,;()[]{}=<>+-*/%|"


def history_path() -> Path:
    """The file of the history."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "penstock", "history")


class Completer:
    """Completes the word before the cursor: names that exist, keywords, commands."""

    def __init__(self, names: Callable[[], Iterable[str]], commands: Iterable[str]) -> None:
        self._names = names
        self._commands = tuple(commands)
        self._found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        """Completion as readline calls it: candidate number `state`, or None after the last."""
        if state == 0:
            self._found = self.candidates(text)
        return self._found[state] if state < len(self._found) else None

    def candidates(self, text: str) -> list[str]:
        """All words that start with `text`; keywords in the typed case."""
        if text.startswith("\\"):
            return [f"\\{word} " for word in self._commands if word.startswith(text[1:].lower())]
        lower = text.lower()
        names = sorted({name for name in self._names() if name.lower().startswith(lower)})
        words = [word for word in KEYWORDS if word.startswith(text.upper())] if text else []
        words += [word.upper() for word in self._commands if text and word.startswith(lower)]
        small = text == lower and text != ""
        return names + sorted({f"{word.lower() if small else word} " for word in words})


class LineEditor:
    """Reads lines, with history and completion if readline is available."""

    def __init__(self, completer: Completer, history: Path | None = None) -> None:
        self._history = history or history_path()
        self._readline = None
        with suppress(ImportError):
            import readline

            self._readline = readline
            readline.set_completer(completer)
            readline.set_completer_delims(_BREAKS)
            libedit = "libedit" in (readline.__doc__ or "")
            readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
            readline.set_history_length(_MOST_LINES)
            with suppress(OSError):
                readline.read_history_file(self._history)

    def read(self, prompt: str) -> str:
        """A line; EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C."""
        line = input(prompt)
        if self._readline is not None and is_secret(line, line):
            with suppress(ValueError):
                self._readline.remove_history_item(self._readline.get_current_history_length() - 1)
        return line

    def save(self) -> None:
        """Save the history, readable only by its owner; ignore failures."""
        if self._readline is None:
            return
        with suppress(OSError):
            self._history.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self._history, os.O_CREAT | os.O_WRONLY, 0o600))
            self._history.chmod(0o600)
            self._readline.write_history_file(self._history)
