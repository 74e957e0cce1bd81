"""A progress line on standard error."""

from __future__ import annotations

import os
import sys
import time

import click

from ktui.cli.context.terminal import ERASE_LINE


class ProgressLine:
    """The progress line: redrawn in place on a terminal, else printed now and then."""

    def __init__(self, every_s: float = 10.0) -> None:
        self._every_s = every_s
        self.drawn = sys.stderr is not None and sys.stderr.isatty()
        self._last = ""
        self._printed_at_s = -every_s

    def show(self, line: str) -> None:
        if line == self._last:
            return
        if self.drawn:
            width = os.get_terminal_size(sys.stderr.fileno()).columns  # 0 where it is not known
            click.echo(f"{ERASE_LINE}{line[: width - 1] if width else line}", err=True, nl=False)
        elif time.monotonic() - self._printed_at_s < self._every_s:
            return
        else:
            click.echo(line, err=True)
            self._printed_at_s = time.monotonic()
        self._last = line

    def print(self, line: str) -> None:
        """Print a line that stays."""
        click.echo(f"{ERASE_LINE}{line}" if self.drawn else line, err=True)
        self._last = ""

    def clear(self) -> None:
        if self.drawn:
            click.echo(ERASE_LINE, err=True, nl=False)
