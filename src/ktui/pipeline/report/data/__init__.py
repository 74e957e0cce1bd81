"""What a report reads of a lake, without Spark."""
