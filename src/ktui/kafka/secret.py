"""A value that must never be shown, and where a value may come from instead of the file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from ktui.inputfile import Unreadable, read_input
from ktui.kafka.problem import ConnectionProblem
from ktui.kafka.secret_command import CommandFailed, printed


class Secret:
    """A password, key or token. Neither `str` nor `repr` shows it; only `reveal` does."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Give the value, to hand it to a client and for nothing else."""
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
        raise TypeError("a Secret is not to be pickled")


def fetched(source: Mapping[object, object], where: str, key: str, folder: Path) -> str:
    """Get a value from where `{file: PATH}`, `{env: NAME}` or `{command: LINE}` says.

    A file's path may be relative to `folder`; a command is run without a shell. One trailing line
    end is cut off. What a command or a file says is never repeated in an error.

    Raises:
        ConnectionProblem: another form, or the value cannot be got, or is empty.
    """
    if len(source) != 1 or (kind := str(*source)) not in _SOURCES:
        raise ConnectionProblem(
            where, key, "a mapping here says where the value is", f"Write one of {_FORMS}"
        )
    try:
        value = _SOURCES[kind](source[kind], folder)
    except _Missing as missing:
        raise ConnectionProblem(where, key, str(missing)) from None
    value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise ConnectionProblem(where, key, f"the {kind} that it points to is empty")
    return value


class _Missing(Exception):
    """Why a value could not be got."""


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
    return value


def _from_command(line: object, folder: Path) -> str:
    words = [str(word) for word in line] if isinstance(line, list) else _split(str(line))
    if not words:
        raise _Missing("the command is empty")
    try:
        return printed(words, folder)
    except CommandFailed as why:
        raise _Missing(str(why)) from None


def _split(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise _Missing(f"the command cannot be split into words: {error}") from None


_SOURCES: Mapping[str, Callable[[object, Path], str]] = {
    "file": _from_file,
    "env": _from_environment,
    "command": _from_command,
}

_FORMS = "{file: PATH}, {env: NAME} or {command: LINE}"
