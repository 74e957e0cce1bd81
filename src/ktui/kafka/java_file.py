"""Client properties files, as Kafka's own tools take them by --command-config."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ktui.inputfile import Unreadable, read_input
from ktui.kafka.problem import ConnectionProblem


class Entry(NamedTuple):
    """One setting of a file, with the line that it begins on."""

    key: str
    value: str
    line: int


def read_entries(path: Path) -> list[Entry]:
    """Read a file in java.util.Properties' format; a later entry for a key wins, as in Java.

    Raises:
        ConnectionProblem: the file cannot be read, or has an escape that Java would refuse.
    """
    try:
        data = read_input(path)
    except Unreadable as why:
        raise ConnectionProblem(str(path), "", f"cannot be read: {why}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")  # which is how Java reads these files
    entries = {}
    for number, line in _logical_lines(text):
        key, value = _cut(line)
        where = f"{path}:{number}"
        entry = Entry(_unescaped(key, where), _unescaped(value, where), number)
        entries[entry.key] = entry
    return list(entries.values())


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Give each entry's line with its continuations joined, and the number of its first."""
    whole, first = "", 0
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = raw.lstrip(" \t\f")
        if not whole and (not line or line[0] in "#!"):
            continue
        first = first or number
        whole += line
        backslashes = len(whole) - len(whole.rstrip("\\"))
        if backslashes % 2:
            whole = whole[:-1]
            continue
        yield first, whole
        whole, first = "", 0
    if whole:
        yield first, whole


def _cut(line: str) -> tuple[str, str]:
    """Split at the first `=`, `:` or blank that is not escaped."""
    found = re.match(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
    return (found[1], found[2]) if found else (line, "")


_ESCAPE = re.compile(r"\\(u([0-9A-Fa-f]{4})|.)", re.DOTALL)
_NAMED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _unescaped(text: str, where: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[2]:
            return chr(int(found[2], 16))
        if found[1] == "u":
            raise ConnectionProblem(
                where,
                "",
                r"\u is not followed by four hexadecimal digits",
                "Write two backslashes for one that is meant as such",
            )
        return _NAMED.get(found[1], found[1])

    return _ESCAPE.sub(plain, text)
