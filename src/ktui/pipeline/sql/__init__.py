"""SQL on a lake, with DuckDB: neither Java nor Spark."""
