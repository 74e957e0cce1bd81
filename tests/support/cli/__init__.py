"""Verbs, called on simulated clusters."""
