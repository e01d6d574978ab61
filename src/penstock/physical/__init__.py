"""Physical operators: their specs (configuration), their state in the arena, and `step`."""
