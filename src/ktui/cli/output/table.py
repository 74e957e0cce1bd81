"""Plain text tables for pipes and terminals alike."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import click

from ktui.cli.context.terminal import ERASE_LINE
from ktui.columns import Column


def column(heading: str, cell: Callable[[Any], str]) -> Column[str]:
    """Return a column of words; `cell` gets a row."""
    return Column(heading=heading, cell=cell)


def figures(heading: str, cell: Callable[[Any], str]) -> Column[str]:
    """Return a column of figures, aligned to the right."""
    return Column(heading=heading, cell=cell, right=True)


def table_of(columns: Sequence[Column[str]], rows: Iterable[object]) -> str:
    """Format rows, each column with its heading, in as many cells as it needs."""
    right = [place for place, column in enumerate(columns) if column.right]
    cells = [[column.cell(row) for column in columns] for row in rows]
    return table([column.heading for column in columns], cells, right=right)


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = ()
) -> str:
    """Align columns with spaces; the columns in `right` (numbered from 0) to the right."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ).rstrip()
        for cells in (header, *rows)
    )


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
        click.echo(f"{ERASE_LINE}{line}" if self.drawn else line, err=True)
        self._last = ""

    def clear(self) -> None:
        if self.drawn:
            click.echo(ERASE_LINE, err=True, nl=False)
