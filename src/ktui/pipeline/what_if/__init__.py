"""Recorded runs, replayed under other limits and throttles."""
