"""Exit codes of commands that fail, and the error for bad input."""

from __future__ import annotations

FAILED, BAD_INPUT, UNREAD, INTERRUPTED = 1, 2, 3, 130
"""Exit codes besides 0. UNREAD: what was asked for is done where it can be read, and not known
elsewhere, since a broker is down.

Verbs that move partitions use 3 as well: some partitions are not at their target.
"""


class BadInput(Exception):
    """Bad input; nothing was sent. The message names the problem and the fix."""
