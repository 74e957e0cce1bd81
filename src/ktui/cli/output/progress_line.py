"""A progress line on standard error."""

from __future__ import annotations

import os
import sys
import time

import click

_LINE_EVERY_S = 10.0
"""Seconds between two lines without a terminal, where a line cannot be redrawn."""


class ProgressLine:
    """The progress line: redrawn in place on a terminal, else printed every 10 seconds."""

    def __init__(self) -> None:
        self._drawn = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._printed_at_s = -_LINE_EVERY_S

    def show(self, line: str) -> None:
        """Show the progress of the moment."""
        if line == self._last:
            return
        if self._drawn:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            click.echo(f"\r\x1b[K{line[: width - 1]}", err=True, nl=False)
        elif time.monotonic() - self._printed_at_s < _LINE_EVERY_S:
            return
        else:
            click.echo(line, err=True)
            self._printed_at_s = time.monotonic()
        self._last = line

    def say(self, line: str) -> None:
        """Print a line that stays."""
        click.echo(f"\r\x1b[K{line}" if self._drawn else line, err=True)
        self._last = ""
