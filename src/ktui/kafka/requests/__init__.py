"""One file for each kind of request: what it asks, and how the answer is read."""
