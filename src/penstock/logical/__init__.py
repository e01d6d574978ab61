"""Logical plans: frozen expression and relation nodes. Imports types, schema and errors only."""
