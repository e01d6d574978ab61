"""Conditions in normal form: clauses of terms, and the interval set of each query."""
