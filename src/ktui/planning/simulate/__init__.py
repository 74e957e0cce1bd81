"""Runs simulated beforehand: which partition steps when, and how fast it copies."""
