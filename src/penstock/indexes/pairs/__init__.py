"""The index over pairs of rows of two streams: finds the partners of each row for each query."""
