"""Indexes over pairs of streams: which queries take which pairs of rows (Agarwal et al. 2009)."""
