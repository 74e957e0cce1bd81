"""Whether there is a terminal to draw on."""

from __future__ import annotations

import sys

from ktui.cli.errors import BadInput


def need_terminal() -> None:
    """Make sure that the live view can read keys and draw: Textual writes to standard error.

    Raises:
        BadInput: one of the three standard streams is no terminal.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise BadInput("the live view needs a terminal; for pipes and scripts there is `ktui list`")
