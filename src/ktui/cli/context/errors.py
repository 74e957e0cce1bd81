"""How a command ends when it does not succeed: exit codes, and the error for bad input."""

from __future__ import annotations

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
"""Exit codes besides 0; 3 (some partitions not at their target) comes with verbs that move."""


class BadInput(Exception):
    """Nothing was sent: the message names what is wrong and the fix."""
