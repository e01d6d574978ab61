"""The in-process runner: file sources of one process, and sinks that retry failed writes."""
