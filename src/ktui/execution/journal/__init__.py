"""The journal of a run: its events, kept for good, and the commands to its engine."""
