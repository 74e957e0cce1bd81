"""Cells, colours and themes."""
