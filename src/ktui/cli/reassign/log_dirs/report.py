"""What a command that paces moves between log dirs prints while it waits."""

from __future__ import annotations

from typing import Protocol, Self

import click

from ktui.cli.output.progress_line import ProgressLine


class MovesReport(Protocol):
    """Receives what paced moves report."""

    def begun(self, line: str) -> None:
        """Report a move that has begun, in the words of Kafka's tool."""
        ...

    def note(self, line: str) -> None:
        """Report what the operator should know."""
        ...

    def waiting(self, line: str) -> None:
        """Report what the command waits for."""
        ...


class PrintedReport:
    """Prints moves on standard output, and the rest on standard error."""

    def __init__(self) -> None:
        self._line = ProgressLine()

    def begun(self, line: str) -> None:
        """Print a move that has begun."""
        self._line.clear()
        click.echo(line)

    def note(self, line: str) -> None:
        """Print a line that stays."""
        self._line.print(line)

    def waiting(self, line: str) -> None:
        """Show the progress; on a terminal in one line that changes."""
        self._line.show(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Erase the line that changes."""
        self._line.clear()
