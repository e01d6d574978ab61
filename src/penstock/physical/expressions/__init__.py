"""Vectorised implementations of the functions an expression may call."""
