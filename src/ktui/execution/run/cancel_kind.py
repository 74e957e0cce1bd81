"""The three ways in which an operator cancels the move of a partition."""

from __future__ import annotations

import enum


class CancelKind(enum.StrEnum):
    """What an operator asks for a partition in place of its target."""

    STOP = "stop"
    """Kafka drops the replicas being added (KIP-455's cancel); nothing more is done."""
    ROLLBACK = "rollback"
    """The partition goes back to its original replicas, in order, and its leader (KIP-236)."""
    TRIM = "trim"
    """The partition stops, and the replicas beyond its original number are dropped."""
