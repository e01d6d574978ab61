"""Numba kernels of the index over pairs of streams; they know nothing of plans."""
