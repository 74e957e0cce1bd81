"""Simulated runs: which partition steps when, and how fast its replicas copy."""
