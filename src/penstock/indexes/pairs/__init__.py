"""The index over pairs of streams: strategies that find the partners of each row for each query."""
