"""Whether there is a terminal to draw on."""

from __future__ import annotations

import sys

from ktui.cli.errors import BadInput


def need_terminal(instead: str = "; for pipes and scripts there is `ktui list`") -> None:
    """Make sure that the live view can read keys and draw: Textual writes to standard error.

    Args:
        instead: what is said to do without one.

    Raises:
        BadInput: one of the three standard streams is no terminal.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise BadInput(f"the live view needs a terminal{instead}")
