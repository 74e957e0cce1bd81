"""The data of a report, read from a lake without Spark."""
