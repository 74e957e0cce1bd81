"""Positions of values in the file of a valid plan, found only when a message needs them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ktui.planning.read.json_cursor import JsonText
from ktui.planning.read.problems import FilePosition, Problems, ValuePath


def find_positions(text: bytes, wanted: Iterable[ValuePath]) -> dict[ValuePath, FilePosition]:
    """Find the positions of values by their paths: ("partitions", 3, "replicas", 1).

    `text` is a file that was read without a problem. So the text is ASCII, and each brace after the
    first opens a partition.
    """
    ordered = sorted(set(wanted), key=lambda steps: steps[1])
    decoded = text.decode("ascii")
    problems = Problems(decoded)
    openings = [found.start() for found in re.finditer(r"\{", decoded)]
    found = {}
    for steps in ordered:
        cursor = JsonText(decoded, problems, openings[int(steps[1]) + 1])
        found[steps] = problems.place(_offset(cursor, steps[2:]), steps)
    return found


def _offset(cursor: JsonText, steps: ValuePath) -> int:
    for step in steps:
        cursor.peek()
        items = cursor.members() if isinstance(step, str) else cursor.elements()
        for _ in items:
            if cursor.path[-1] == step:
                break
            cursor.skip()
    cursor.peek()
    return cursor.at
