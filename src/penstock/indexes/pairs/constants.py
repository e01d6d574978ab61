"""Constants of the cost formulas: those measured on this machine, or the defaults below.

`penstock calibrate` writes them to a file of the user, which is read once per process.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from penstock.frozen import record
from penstock.indexes.pairs.default_constants import FITTED

_FORMAT = 2  # of the file; constants of other formulas mean something else
DEFAULTS = "defaults"


@record
class Constant:
    """Nanoseconds per unit of work, with the 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Constants:
    """Constants by formula, as the paper names it, and letter; where they come from."""

    fitted: Mapping[str, Mapping[str, Constant]]
    origin: str

    def of(self, formula: str) -> dict[str, float]:
        """The constants of a formula by letter."""
        return {letter: found.value for letter, found in self.fitted[formula].items()}

    @staticmethod
    def defaults() -> Constants:
        """Constants measured on a machine of the project."""
        return Constants(_read(FITTED), DEFAULTS)

    def numbers(self) -> dict[str, dict[str, list[float]]]:
        """By formula and letter: the value and the ends of its 95 % confidence interval."""
        return {
            name: {letter: [c.value, c.low, c.high] for letter, c in letters.items()}
            for name, letters in self.fitted.items()
        }

    # ---- the file --------------------------------------------------------------------
    def write(self, path: Path) -> None:
        """Write the file; a reader never sees a part of it."""
        text = json.dumps(
            {"format": _FORMAT, "measured": self.origin, "nanoseconds": self.numbers()}
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(f".{os.getpid()}")
        beside.write_text(f"{text}\n")
        beside.replace(path)

    @staticmethod
    def read(path: Path) -> Constants:
        """Read the file; a ValueError says what is wrong with it."""
        found = json.loads(path.read_text())
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise ValueError("it has another format")
        fitted, known = _read(found.get("nanoseconds")), _read(FITTED)
        if {n: set(of) for n, of in fitted.items()} != {n: set(of) for n, of in known.items()}:
            raise ValueError("it has constants of other formulas")
        return Constants(fitted, str(found.get("measured")))


def _read(found: Any) -> dict[str, dict[str, Constant]]:
    try:
        read = {
            str(name): {str(letter): Constant(*map(float, c)) for letter, c in letters.items()}
            for name, letters in found.items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError("it does not hold constants") from error
    if not all(0 <= c.value < float("inf") for of in read.values() for c in of.values()):
        raise ValueError("a constant is negative or no number")
    return read


def constants_path() -> Path:
    """The file with the constants of this machine, in the user's state directory."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state, "penstock", "pair-costs.json")


def today() -> str:
    """The day, as `Constants.origin` of what is measured now."""
    return f"measured {datetime.now(UTC):%Y-%m-%d}"


@cache
def of_this_machine() -> Constants:
    """The measured constants, or the defaults; a notice says if the file cannot be used."""
    path = constants_path()
    try:
        return Constants.read(path)
    except FileNotFoundError:
        return Constants.defaults()
    except (OSError, ValueError) as error:
        print(
            f"penstock ignores {path}: {error}; penstock calibrate writes it again",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        return Constants.defaults()
