"""Shared test setup: an engine run starts with no warnings and a known Hypothesis profile."""

from __future__ import annotations

import os
import sys
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

for profile, examples in (("quick", 10), ("ci", 100), ("nightly", 5000)):
    settings.register_profile(
        profile, deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck)
    )
settings.load_profile(os.environ.get("PENSTOCK_PROFILE", "ci"))


CHECKED: Counter[str] = Counter()
DECLINED: Counter[str] = Counter()


def _checked_here() -> tuple[dict[str, int], dict[str, int]]:
    """How many random cases this process has checked, and what the engine declined."""
    cases = sys.modules.get("property.cases")
    return ({}, {}) if cases is None else (dict(cases.tally), dict(cases.refusals))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist sends its counts; a process that runs alone keeps them."""
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        _count(*_checked_here())
    else:
        output["cases"] = _checked_here()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A worker of xdist has ended."""
    _count(*getattr(node, "workeroutput", {}).get("cases", ({}, {})))


def _count(checked: dict[str, int], declined: dict[str, int]) -> None:
    CHECKED.update(checked)
    DECLINED.update(declined)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many random cases were checked, and what the engine declined."""
    if not CHECKED:
        return
    write = terminalreporter.write_line
    write("")
    write("random cases checked: " + ", ".join(f"{k} {n}" for k, n in sorted(CHECKED.items())))
    for reason, n in DECLINED.most_common(8):
        write(f"  declined {n}×: {reason}")
