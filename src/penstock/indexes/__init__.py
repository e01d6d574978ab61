"""Predicate indexes: which queries take which rows."""
