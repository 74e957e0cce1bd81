"""A line on standard error that says how something goes."""

from __future__ import annotations

import os
import sys
import time

import click

_LINE_EVERY_S = 10.0
"""Where no terminal shows the line, which would be drawn anew."""


class ProgressLine:
    """The line of progress: drawn over and over on a terminal, else told now and then."""

    def __init__(self) -> None:
        self._drawn = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._told_at_s = -_LINE_EVERY_S

    def show(self, line: str) -> None:
        """Tell how it goes at the moment."""
        if line == self._last:
            return
        if self._drawn:
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            click.echo(f"\r\x1b[K{line[: width - 1]}", err=True, nl=False)
        elif time.monotonic() - self._told_at_s < _LINE_EVERY_S:
            return
        else:
            click.echo(line, err=True)
            self._told_at_s = time.monotonic()
        self._last = line

    def say(self, line: str) -> None:
        """Tell what stays."""
        click.echo(f"\r\x1b[K{line}" if self._drawn else line, err=True)
        self._last = ""
