"""Runners of a session: one process, shards in this process, Spark."""
