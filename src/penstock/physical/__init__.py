"""Physical operators: configuration, state in the arena, `step`."""
