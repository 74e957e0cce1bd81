"""The terminal: whether there is one to draw on, and what may reach it."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import click

from ktui.cli.context.errors import BadInput
from ktui.cluster.text import clean_lines

ERASE_LINE = "\r\x1b[K"
"""Begins a write that draws the line of progress anew."""

_styled: set[str] = set()
"""Every text that was styled by `styled`, with its styling."""


def need_terminal(instead: str = "; for pipes and scripts there is `ktui list`") -> None:
    """Make sure that the live view can read keys and draw: Textual writes to standard error.

    Args:
        instead: what is said to do without one.

    Raises:
        BadInput: one of the three standard streams is no terminal.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        raise BadInput(f"the live view needs a terminal{instead}")


def styled(word: str, *, fg: str) -> str:
    """Style a word of ktui's own, bold and in a colour; the only styling that may be printed."""
    text = click.style(clean_lines(word), fg=fg, bold=True)
    _styled.add(text)
    return text


@contextmanager
def clean_output() -> Iterator[None]:
    """Clean whatever goes to standard output and standard error meanwhile.

    Names of files, runs and contexts, option values and keys of files come from anyone, and click
    repeats them as they are. This is the one place that all of it passes on its way out.
    """
    before = sys.stdout, sys.stderr
    mine = tuple(None if each is None else cast("TextIO", CleanStream(each)) for each in before)
    sys.stdout, sys.stderr = mine
    try:
        yield
    finally:
        # Click puts streams of its own there when nobody reads any more: these stay.
        if sys.stdout is mine[0]:
            sys.stdout = before[0]
        if sys.stderr is mine[1]:
            sys.stderr = before[1]


class CleanStream:
    """A text stream that escapes what could drive a terminal, but for ktui's own styling."""

    def __init__(self, stream: TextIO) -> None:
        if hasattr(stream, "reconfigure") and stream.encoding.lower() in ("ascii", "us-ascii"):
            stream.reconfigure(encoding="utf-8")  # as click does, which would pass by this stream
        self._stream = stream
        self.rich_proxied_file = stream
        """Where Rich writes to: Textual's report of a defect has styling of its own."""

    def write(self, text: str) -> int:
        """Write a text, cleaned."""
        self._stream.write(_outward(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write several texts, cleaned."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return anything else of the stream, but for its bytes, which would not be cleaned."""
        if name == "buffer":
            raise AttributeError(name)
        return getattr(self._stream, name)


def _outward(text: str) -> str:
    erased = ERASE_LINE if text.startswith(ERASE_LINE) else ""
    text = text.removeprefix(erased)
    if "\x1b" not in text or not _styled:
        return erased + clean_lines(text)
    ours = re.compile("(" + "|".join(map(re.escape, _styled)) + ")")
    parts = ours.split(text)
    return erased + "".join(p if p in _styled else clean_lines(p) for p in parts)


def say(line: str) -> None:
    """Tell the operator something beside what the verb is for."""
    click.echo(line, err=True)
