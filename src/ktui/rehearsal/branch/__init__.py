"""Branches: what would have been, from a moment of a recording on, on a twin of that moment."""
