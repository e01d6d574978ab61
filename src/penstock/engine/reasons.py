"""Why rows are kept out: one reason per row, and what to write instead where that helps."""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.arrays import Bool
from penstock.schema import Field
from penstock.types import Kind

_WRITTEN = {  # what to give instead of a number
    Kind.TIMESTAMP: "a datetime, a pandas or Arrow timestamp, or text as 2026-01-31 12:00:00",
    Kind.DATE: "a date or text as 2026-01-31",
}


class Reasons:
    """A reason code per row; 0 if the row is accepted. The first reason stays."""

    def __init__(self, n: int) -> None:
        self.code = np.zeros(n, np.int16)
        self.texts = [""]

    def note(self, bad: Bool | None, text: str) -> None:
        """Rows marked `bad` (None: no row) are kept out because of `text`."""
        if bad is not None and bad.any():
            self.code[bad & (self.code == 0)] = len(self.texts)
            self.texts.append(text)

    def __bool__(self) -> bool:
        return len(self.texts) > 1


def note_unfit(reasons: Reasons, bad: Bool, given: Any, column: Field) -> None:
    """Note why values do not fit their column; for a number in a time column, what to write."""
    if column.type.kind in _WRITTEN:
        text = f"{column.name} is a number, not a {column.type}: give {_WRITTEN[column.type.kind]}"
        reasons.note(_numbers(given, bad), text)
    reasons.note(bad, f"{column.name} is not a valid {column.type}")


def _numbers(given: Any, among: Bool) -> Bool:
    """Which of some values are numbers, or text of digits alone."""
    found = np.zeros(among.shape[0], np.bool_)
    for at in np.flatnonzero(among).tolist():
        value = given[at] if isinstance(given, list) else given[at].as_py()
        if isinstance(value, str):
            found[at] = value.strip().lstrip("-").replace(".", "", 1).isdigit()
        else:
            found[at] = isinstance(value, int | float | np.number)
    return found
