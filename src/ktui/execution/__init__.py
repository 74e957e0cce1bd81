"""Runs of plans: what is decided, the engine that does it, and the journal that remembers it."""
