"""Spark: its session, its executors, and what it raises."""
