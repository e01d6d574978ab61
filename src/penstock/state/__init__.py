"""State structures over the arena. Imports kernels and the base modules only."""
