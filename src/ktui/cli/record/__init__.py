"""`ktui record` and `ktui replay`."""
