"""Spark: its session, its executors and its errors."""
