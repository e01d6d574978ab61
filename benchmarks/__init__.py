"""Benchmarks: each module measures Penstock beside something else, in one run, on one core."""
