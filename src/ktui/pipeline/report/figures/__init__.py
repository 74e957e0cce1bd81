"""The figures of a report, one module each."""
