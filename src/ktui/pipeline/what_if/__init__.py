"""Recorded runs, simulated under other limits and throttles."""
