"""Twins of real clusters, for the verbs that save one or rehearse on one."""
