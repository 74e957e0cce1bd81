"""Every command line in README.md and docs/ is one that ktui takes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
import pytest

from ktui.cli.main import ktui

ROOT = Path(__file__).parents[3]
_BLOCK = re.compile(r"^```[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_ENDS = {"|", ">", ">>", "2>", "&&", ";", "&"}


class CommandLine(NamedTuple):
    """One command line of a page."""

    page: str
    text: str

    @property
    def words(self) -> list[str]:
        """The arguments of ktui, without what the shell does with its output."""
        words = shlex.split(self.text, comments=True)[1:]
        end = next((i for i, word in enumerate(words) if word in _ENDS), len(words))
        return words[:end]


def command_lines() -> Iterator[CommandLine]:
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))):
        for block in _BLOCK.findall(path.read_text(encoding="utf-8")):
            for line in block.replace("\\\n", " ").splitlines():
                if re.match(r"(\$ )?ktui( |$)", line):
                    yield CommandLine(path.name, line.strip().removeprefix("$ "))


LINES = list(command_lines())


def parsed(command: click.Command, words: list[str], parent: click.Context | None = None) -> str:
    """Parse a command line down to its verb, and return the verb's path."""
    context = command.make_context(
        command.name or "ktui", list(words), parent=parent, resilient_parsing=True
    )
    left = [*context._protected_args, *context.args]
    if isinstance(command, click.Group) and left:
        _, verb, rest = command.resolve_command(context, left)
        assert verb is not None, left
        return parsed(verb, rest, context)
    return context.command_path


def test_the_pages_have_command_lines() -> None:
    assert len(LINES) > 80


@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line.page}: {line.text[:60]}")
def test_ktui_takes_every_command_line_of_its_pages(line: CommandLine) -> None:
    if "..." in line.words or "…" in line.text:
        pytest.fail(f"{line.page} cuts a command line short: {line.text}")

    assert parsed(ktui, line.words)
