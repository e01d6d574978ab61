"""Predicate indexes: they find the queries that take a row."""
