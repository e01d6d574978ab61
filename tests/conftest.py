"""Shared test setup: an engine run starts with no warnings and a known Hypothesis profile."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, settings

for profile, examples in (("quick", 10), ("ci", 100), ("nightly", 5000)):
    settings.register_profile(
        profile, deadline=None, max_examples=examples, suppress_health_check=list(HealthCheck)
    )
settings.load_profile(os.environ.get("PENSTOCK_PROFILE", "ci"))


def pytest_terminal_summary(terminalreporter: object) -> None:
    """How many random cases were checked, and what the engine declined."""
    cases = sys.modules.get("property.cases")
    if cases is None or not cases.tally:
        return
    write = terminalreporter.write_line  # type: ignore[attr-defined]
    write("")
    write("random cases checked: " + ", ".join(f"{k} {n}" for k, n in sorted(cases.tally.items())))
    for reason, n in cases.refusals.most_common(8):
        write(f"  declined {n}×: {reason}")
