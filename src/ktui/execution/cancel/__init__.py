"""Cancels: previews, the cancel gate, and reassignments that no run began."""
