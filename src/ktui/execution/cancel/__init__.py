"""Cancels: what one would do, the cancel gate, and reassignments that no run began."""
