"""Pure: how a reassignment is cut into steps, and which partitions take a step now."""
