"""Segments of recordings into rows."""
