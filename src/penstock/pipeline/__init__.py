"""Runs plans as pipelines: a queue on every edge, operators one at a time, on a virtual clock."""
