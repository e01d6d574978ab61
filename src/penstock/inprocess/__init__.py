"""The in-process runner: file sources of one process, and sinks whose batches wait for room."""
