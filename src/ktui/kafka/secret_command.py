"""Commands that print a secret: run within limits of time and size, and never quoted."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from ktui.inputfile import MOST_BYTES

LIMIT_S = 60.0
"""Seconds until a command has to have ended."""

_READ_BYTES = 1 << 16


class CommandFailed(Exception):
    """Why a command printed no secret. The words repeat nothing of what it printed."""


def printed(words: Sequence[str], folder: Path) -> str:
    """Run a command without a shell and return what it prints.

    Args:
        words: the program and its arguments.
        folder: where it is run.

    Raises:
        CommandFailed: it cannot be run, ends with an error, prints more than 1 MiB or what is no
            text, or does not end within `LIMIT_S`. It has been killed where it had not ended.
    """
    name = words[0]
    try:
        command = subprocess.Popen(  # noqa: S603 -- the person's own configuration names it
            words, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    except (OSError, ValueError) as error:
        raise CommandFailed(f"cannot run {name}: {getattr(error, 'strerror', error)}") from None
    with command:
        try:
            output = _output(command, name)
        except BaseException:
            command.kill()
            raise
    if command.returncode:
        status = command.returncode
        raise CommandFailed(f"{name} ended with status {status}; run it by hand to see why")
    try:
        return output.decode()
    except UnicodeDecodeError:
        raise CommandFailed(f"what {name} prints is not UTF-8 text") from None


def _output(command: subprocess.Popen[bytes], name: str) -> bytes:
    """Read all that a command prints, and wait for its end."""
    assert command.stdout is not None  # noqa: S101 -- for mypy: it was asked for
    until = time.monotonic() + LIMIT_S
    try:
        output = _read(command.stdout, until)
        if len(output) > MOST_BYTES:
            most = f"{MOST_BYTES // 1024**2} MiB"
            raise CommandFailed(f"{name} prints more than {most}, the most that is read")
        command.wait(max(0.0, until - time.monotonic()))
    except (TimeoutError, subprocess.TimeoutExpired):
        raise CommandFailed(f"{name} did not end within {LIMIT_S:g} s") from None
    return output


def _read(pipe: IO[bytes], until: float) -> bytes:
    """Read up to the end, or one byte more than may be.

    Raises:
        TimeoutError: the end had not come in time.
    """
    output = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while len(output) <= MOST_BYTES:
            left_s = until - time.monotonic()
            if left_s <= 0 or not selector.select(left_s):
                raise TimeoutError
            chunk = os.read(pipe.fileno(), _READ_BYTES)
            if not chunk:
                break
            output += chunk
    return bytes(output)
