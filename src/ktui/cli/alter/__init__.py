"""`ktui alter-topic`."""
