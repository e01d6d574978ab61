"""Shared test setup: an engine run starts with no warnings and a known Hypothesis profile."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile("ci", deadline=None, suppress_health_check=list(HealthCheck))
settings.register_profile("nightly", deadline=None, suppress_health_check=list(HealthCheck))
settings.load_profile(os.environ.get("PENSTOCK_PROFILE", "ci"))
