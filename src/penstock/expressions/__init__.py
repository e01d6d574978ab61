"""Scalar expressions over batches of rows: compiled once, evaluated column by column."""
