"""Tests of the job on real Spark."""
