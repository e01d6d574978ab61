"""The in-process runner: one engine shard, file sources and sinks. Imports engine and below."""
