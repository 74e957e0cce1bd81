"""Write the manual pages, one for each verb, from the verbs' own help.

python scripts/man_pages.py FOLDER
"""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from ktui import __version__
from ktui.cli.main import ktui

_ROFF = str.maketrans({
    "\\": r"\e", "-": r"\-", "'": r"\(aq", '"': r"\(dq", "`": r"\(ga", "~": r"\(ti", "^": r"\(ha",
})  # fmt: skip
"""Characters that roff would read as commands, or print as others."""
_LONGEST_SUMMARY = 1000
"""Characters; longer than any first sentence, so that none is cut."""


def main() -> None:
    """Replace the pages of a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.1"):
        old.unlink()
    for context in contexts(ktui, "ktui"):
        (folder / f"{name_of(context)}.1").write_text(page(context), encoding="utf-8")


def contexts(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[click.Context]:
    """Yield the context of a command and of every command below it that the help shows."""
    context = click.Context(command, parent, name, **command.context_settings)
    yield context
    for below, each in _commands(context):
        yield from contexts(each, below, context)


def page(context: click.Context) -> str:
    """Return the manual page of a command."""
    command = context.command
    options = (each.get_help_record(context) for each in command.get_params(context))
    lines = [
        f'.TH {_text(name_of(context).upper())} 1 "" "ktui {__version__}" "ktui manual"',
        ".SH NAME",
        _text(f"{name_of(context)} ") + r"\- " + _text(_summary(command)),
        ".SH SYNOPSIS",
        f".B {_text(context.command_path)}",
        _text(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
        *_paragraphs(command.help or ""),
        ".SH OPTIONS",
        *_terms((f".B {_text(each[0])}", each[1]) for each in options if each and each[1]),
    ]
    if below := dict(_commands(context)):
        names = {f"{name_of(context)}-{name}": _summary(each) for name, each in below.items()}
        lines += [
            ".SH COMMANDS",
            *_terms((_page_name(name), about) for name, about in names.items()),
        ]
    if context.parent:
        lines += [".SH SEE ALSO", _page_name(name_of(context.parent))]
    return "\n".join(lines) + "\n"


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    if isinstance(context.command, click.Group):
        for name in context.command.list_commands(context):
            if command := context.command.get_command(context, name):
                yield name, command


def name_of(context: click.Context) -> str:
    """Return the name of a command's page, such as ktui-plan-check."""
    return context.command_path.replace(" ", "-")


def _page_name(name: str) -> str:
    return f".BR {_text(name)} (1)"


def _summary(command: click.Command) -> str:
    return command.get_short_help_str(_LONGEST_SUMMARY).removesuffix(".")


def _paragraphs(text: str) -> Iterator[str]:
    for part in inspect.cleandoc(text).split("\n\n"):
        yield from (".PP", *map(_text, part.splitlines()))


def _terms(terms: Iterable[tuple[str, str]]) -> Iterator[str]:
    for term, meaning in terms:
        yield from (".TP", term, _text(meaning))


def _text(text: str) -> str:
    """Escape a line of text, which must not be read as roff."""
    line = text.translate(_ROFF)
    return rf"\&{line}" if line.startswith(".") else line


if __name__ == "__main__":
    main()
