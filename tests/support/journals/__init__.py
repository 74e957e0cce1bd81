"""Journals with events in them."""
