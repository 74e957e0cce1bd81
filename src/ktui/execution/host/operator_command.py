"""A command of the operator's own: split into words without a shell, and killed when it hangs."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from ktui.cluster.text import clean

_MOST_BYTES = 4096
_LONGEST_WORDS = 200


class CommandProblem(ValueError):
    """A command line that cannot be run."""


def split_command(text: str) -> list[str]:
    """Split a command line into words as a shell would, without a shell.

    Raises:
        CommandProblem: a quote is not closed, or there is no word.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise CommandProblem(f"{clean(text)!r}: {str(error).lower()}") from None
    if not words or "\0" in text:
        raise CommandProblem(f"{clean(text)!r}: names no program")
    return words


def resolve_command(text: str) -> str:
    """Return a command line with the whole path of its program, for a process elsewhere.

    Raises:
        CommandProblem: the line cannot be split, or its program cannot be run.
    """
    program, *arguments = split_command(text)
    found = shutil.which(os.path.expanduser(program))  # noqa: PTH111 - a bare name has no path
    if found is None:
        raise CommandProblem(
            f"{clean(program)}: no such program, or it may not be run. Name it by its path"
        )
    return shlex.join([os.path.abspath(found), *arguments])  # noqa: PTH100 - keeps symbolic links


def run_command(words: Sequence[str], timeout_s: float, given: bytes = b"") -> str | None:
    """Run a command once, and return what went wrong: "ended with exit code 1: no such host".

    Args:
        words: the program and its arguments.
        timeout_s: seconds after which the command is killed, with its children.
        given: its standard input.
    """
    try:
        return _run(words, timeout_s, given)
    except OSError as error:
        return f"cannot be run: {error.strerror}"


def command_output(words: Sequence[str], timeout_s: float) -> tuple[str, str | None]:
    """Run a command once, and return the end of its standard output, and what went wrong.

    Args:
        words: the program and its arguments.
        timeout_s: seconds after which the command is killed, with its children.
    """
    try:
        with tempfile.TemporaryFile() as output:
            problem = _run(words, timeout_s, b"", output)
            return _end_of(output), problem
    except OSError as error:
        return "", f"cannot be run: {error.strerror}"


def _run(
    words: Sequence[str], timeout_s: float, given: bytes, output: IO[bytes] | None = None
) -> str | None:
    """Run a command; files take the place of pipes, which a grandchild could keep open."""
    with tempfile.TemporaryFile() as standard_input, tempfile.TemporaryFile() as errors:
        standard_input.write(given)
        standard_input.seek(0)
        process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
            words,
            stdin=standard_input,
            stdout=subprocess.DEVNULL if output is None else output,
            stderr=errors,
            cwd="/",
            start_new_session=True,
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return f"took longer than {timeout_s:g} s and was killed"
        return None if code == 0 else f"ended with {_exit_text(code)}{_last_line(errors)}"


def _exit_text(code: int) -> str:
    return f"exit code {code}" if code > 0 else signal.Signals(-code).name


def _last_line(errors: IO[bytes]) -> str:
    """Return the last line of what a command wrote to its standard error."""
    lines = _end_of(errors).split("\n")
    words = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f": {clean(words)[:_LONGEST_WORDS]}" if words else ""


def _end_of(file: IO[bytes]) -> str:
    file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_BYTES))
    return file.read().decode(errors="replace")
