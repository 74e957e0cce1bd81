"""Observations of a cluster, kept as files and played back."""
