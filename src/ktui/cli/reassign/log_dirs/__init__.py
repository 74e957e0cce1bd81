"""Moves of replicas between the log dirs of a broker (KIP-113)."""
