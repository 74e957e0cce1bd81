"""The three ways in which an operator cancels the move of a partition."""

from __future__ import annotations

import enum


class CancelKind(enum.StrEnum):
    """What is to become of a partition in place of its target."""

    STOP = "stop"
    """What Kafka adds is dropped again (KIP-455's cancel); nothing more is done."""
    ROLLBACK = "rollback"
    """It goes back to its original replicas, in their order, and their leader (KIP-236)."""
    TRIM = "trim"
    """It stops, and the replicas beyond its original number are dropped."""
