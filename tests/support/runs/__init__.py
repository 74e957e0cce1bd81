"""Runs that an engine carries on a simulated cluster, and rules to hold them to."""
