"""Exit codes of commands that fail, and the error for bad input."""

from __future__ import annotations

FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
"""Exit codes besides 0.

Verbs that move partitions have one more, 3: some partitions are not at their target.
"""


class BadInput(Exception):
    """Bad input; nothing was sent. The message names the problem and the fix."""
