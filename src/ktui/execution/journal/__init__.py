"""The journal of a run: events kept for good, and commands asked of its engine."""
