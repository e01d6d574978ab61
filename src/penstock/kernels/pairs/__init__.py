"""Kernels of indexes over pairs of streams (Agarwal et al. 2009); they know nothing of plans."""
