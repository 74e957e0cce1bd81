"""The ids of simulated clusters: no real cluster has one, so nothing kept by id takes them in."""

from __future__ import annotations

SIMULATED = "simulated"
"""The first word of such an id."""


def simulated_id(name: str) -> str:
    """Return the id of the twin of a cluster; that of a simulated cluster stays as it is."""
    return name if is_simulated(name) else f"{SIMULATED}-{name}"


def is_simulated(cluster_id: str) -> bool:
    """Return whether an id is that of a simulated cluster."""
    return cluster_id == SIMULATED or cluster_id.startswith(f"{SIMULATED}-")


def marked(words: str, cluster_id: str) -> str:
    """Return words about a cluster, which say so where it is a simulated one."""
    return f"{words} ({SIMULATED})" if is_simulated(cluster_id) else words
