"""The error that ends an action of `ktui reassign`."""

from __future__ import annotations


class ReassignProblem(Exception):
    """An action cannot be carried out. The message is that of kafka-reassign-partitions."""
