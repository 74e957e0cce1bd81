"""Rehearsals: a plan carried out on a simulated twin of a cluster, and what came of it."""
