"""How verbs speak: exit codes, bad input, progress, and which text may reach the terminal."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

import click

from ktui.cluster.text import clean_lines

FAILED, BAD_INPUT, NOT_ALL_DONE, INTERRUPTED = 1, 2, 3, 130
"""Exit codes besides 0. BAD_INPUT: nothing was sent, also for a plan with a problem.

NOT_ALL_DONE: something is not as it was asked for, or is not known where a broker is down: a
partition is not at its target, a threshold does not hold, a recorded line is missing.
"""


class BadInput(Exception):
    """Bad input; nothing was sent. The message names the problem and the fix."""


ERASE_LINE = "\r\x1b[K"  # the start of a write that redraws the progress line

_styled: set[str] = set()  # every text that `styled` has styled, with its styling


def need_terminal(instead: str = "; for pipes and scripts there is `ktui list`") -> None:
    """Check that the view can read keys and draw; `instead` says what to do without a terminal."""
    if not has_terminal():
        raise BadInput(f"the live view needs a terminal{instead}")


def has_terminal() -> bool:
    """Return whether all three standard streams are a terminal."""
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


def can_ask() -> bool:
    """Return whether there is a person to ask, who sees the question and can answer."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def confirm(ask: Callable[[], bool], yes: str, *, may_ask: bool = True) -> None:
    """Ask the operator before a change; end the program where they do not want it."""
    if not (may_ask and can_ask()):
        raise BadInput(f"nothing was sent: ktui cannot ask without a terminal. Give {yes}")
    if not ask():
        print_note("nothing was sent")
        sys.exit(BAD_INPUT)


@contextmanager
def telling_interrupts(words: str) -> Iterator[None]:
    """If the block is interrupted, print what that leaves behind."""
    try:
        yield
    except KeyboardInterrupt:
        print_note(words)
        raise


def styled(word: str, *, fg: str) -> str:
    """Style a word of ktui's own, bold and in colour. No other styling reaches the terminal."""
    text = click.style(clean_lines(word), fg=fg, bold=True)
    _styled.add(text)
    return text


@contextmanager
def clean_output() -> Iterator[None]:
    """Clean all text that goes to standard output and standard error within the block.

    Names of files, runs and contexts, option values and keys of files can come from anyone, and
    click repeats them unchanged. All of that text passes this one place on its way out.
    """
    before = sys.stdout, sys.stderr
    mine = tuple(None if each is None else cast("TextIO", CleanStream(each)) for each in before)
    sys.stdout, sys.stderr = mine
    try:
        yield
    finally:
        # Click installs its own streams once the reader has gone; those stay.
        if sys.stdout is mine[0]:
            sys.stdout = before[0]
        if sys.stderr is mine[1]:
            sys.stderr = before[1]


class CleanStream:
    """A text stream that escapes terminal control characters, except ktui's own styling."""

    def __init__(self, stream: TextIO) -> None:
        if hasattr(stream, "reconfigure") and stream.encoding.lower() in ("ascii", "us-ascii"):
            stream.reconfigure(encoding="utf-8")  # as click does, which would bypass this stream
        self._stream = stream
        self.rich_proxied_file = stream
        """The stream for Rich: Textual's report of a defect has its own styling."""

    def write(self, text: str) -> int:
        self._stream.write(_outward(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute, except `buffer`: its bytes would not be cleaned."""
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


def print_note(line: str) -> None:
    """Print a line for the operator on standard error, apart from the verb's own output."""
    click.echo(line, err=True)


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
