"""Runs on simulated clusters, and the rules that they are checked against."""
