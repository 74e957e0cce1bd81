"""Simulated clusters, and observations of them."""
