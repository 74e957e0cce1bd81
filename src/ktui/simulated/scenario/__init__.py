"""Scenarios for a simulated cluster: read from YAML, checked, set up and played."""
