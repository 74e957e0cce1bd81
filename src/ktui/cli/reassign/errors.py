"""The errors that end an action of `ktui reassign`."""

from __future__ import annotations

from ktui.execution.errors import RunProblem


class ReassignProblem(RunProblem):
    """An action cannot be carried out. The message is that of kafka-reassign-partitions."""


class ActionFailed(Exception):
    """An action has failed, in part or as a whole. The message is all that is printed."""
