"""Recordings: whole, damaged, named and wild."""
