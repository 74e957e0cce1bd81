"""The lake's tables in Python and DuckDB's SQL, without Spark."""
