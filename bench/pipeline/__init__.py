"""The pipeline from recordings to tables, beside DuckDB on the same tables."""
