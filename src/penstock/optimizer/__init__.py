"""Rewrites of logical plans that keep every answer. Imports patterns, logical and below only."""
