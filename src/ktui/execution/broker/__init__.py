"""One broker on its way out: what it still holds, and whether it gets new partitions."""
