"""Secrets, which are never shown, and values fetched from a file, a variable or a command."""

from __future__ import annotations

import os
import selectors
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

from ktui.inputfile import MOST_BYTES, Unreadable, read_input
from ktui.kafka.connection.property_table import ConnectionProblem
from ktui.secret_variables import mark_secret

LIMIT_S = 60.0  # seconds within which a command must end

_READ_BYTES = 1 << 16
_FORMS = "{file: PATH}, {env: NAME} or {command: LINE}"


class CommandFailed(Exception):
    """A command yielded no secret. The message repeats nothing of its output."""


def run_command(words: Sequence[str], folder: Path) -> str:
    """Run a command without a shell and return its output; it is killed after `LIMIT_S`."""
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
        raise CommandFailed(f"the output of {name} is not UTF-8 text") from None


def _output(command: subprocess.Popen[bytes], name: str) -> bytes:
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
    """Read to the end, or until the output exceeds the limit."""
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


class Secret:
    """A password, key or token. Neither `str` nor `repr` shows it; only `reveal` does."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the value. Use it only to pass the value to a client."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled")


def reveal(value: str | Secret) -> str:
    """Return a setting's text. Use it only to pass the value to a client."""
    return value.reveal() if isinstance(value, Secret) else value


def fetch_value(source: Mapping[object, object], where: str, key: str, folder: Path) -> str:
    """Fetch a value from its source: `{file: PATH}`, `{env: NAME}` or `{command: LINE}`.

    A file's path may be relative to `folder`; a command runs without a shell. One trailing line end
    is cut off. An error never repeats the content of a file or the output of a command.
    """
    given = next(iter(source.values()), None)
    named = isinstance(given, str) or (isinstance(given, list) and "command" in source)
    if len(source) != 1 or (kind := str(*source)) not in _SOURCES or not named:
        raise ConnectionProblem(
            where, key, "a mapping here must name the value's source", f"Write {_FORMS}"
        )
    try:
        value = _SOURCES[kind](source[kind], folder)
    except _Missing as missing:
        raise ConnectionProblem(where, key, str(missing), _FIXES[kind]) from None
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        problem = f"the {kind} that it points to is empty"
        raise ConnectionProblem(where, key, problem, _FIXES[kind])
    return value


class _Missing(Exception):
    """A value could not be read; the message gives the reason."""


def _from_file(path: object, folder: Path) -> str:
    try:
        place = folder / Path(str(path)).expanduser()
    except RuntimeError as error:  # "~nobody/..."
        raise _Missing(f"cannot read {path}: {error}") from None
    try:
        return read_input(place).decode()
    except Unreadable as why:
        raise _Missing(f"cannot read {place}: {why}") from None
    except UnicodeDecodeError:
        raise _Missing(f"cannot read {place}: it is not UTF-8 text") from None


def _from_environment(name: object, _folder: Path) -> str:
    value = os.environ.get(str(name))
    if value is None:
        raise _Missing(f"the environment variable {name} is not set")
    mark_secret(str(name))
    return value


def _from_command(line: object, folder: Path) -> str:
    words = [str(word) for word in line] if isinstance(line, list) else _split(str(line))
    if not words:
        raise _Missing("the command is empty")
    try:
        return run_command(words, folder)
    except CommandFailed as why:
        raise _Missing(str(why)) from None


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Missing(f"the command cannot be split into words: {error}") from None


_FIXES = {
    "file": "Name a file that holds the value; a relative path begins where config.yaml is",
    "env": "Set the variable where ktui runs",
    "command": "Give a command that prints the value and ends",
}
_SOURCES: Mapping[str, Callable[[object, Path], str]] = {
    "file": _from_file,
    "env": _from_environment,
    "command": _from_command,
}
