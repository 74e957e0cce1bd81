"""The verbs on runs, and `ktui list`."""
