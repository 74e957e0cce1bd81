"""Simulated clusters, and what polls of them see."""
