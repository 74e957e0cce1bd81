"""Segments of recordings, turned into rows."""
