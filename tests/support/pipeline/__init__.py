"""Lakes, Spark, followers and reports."""
