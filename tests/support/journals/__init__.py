"""Journals with something in them."""
