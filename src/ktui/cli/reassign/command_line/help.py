"""The help of `ktui reassign`, made from the table of its options."""

from __future__ import annotations

import re
import textwrap
from functools import partial

from ktui.cli.reassign.command_line.options import OPTIONS, Group, Option

WIDTH = 80
_COLUMN = 24
"""Where the meaning of an option begins; a longer option has a line of its own."""

_PURPOSE = (
    "Move partitions between brokers, with the options of Apache Kafka's "
    "kafka-reassign-partitions.sh and some more. Give exactly one action."
)
_FILES = """\
Files:
  --reassignment-json-file; log_dirs may be left out, and "any" leaves the
  directory to the broker:

    {"version": 1, "partitions": [
      {"topic": "orders", "partition": 0, "replicas": [4, 5, 6],
       "log_dirs": ["any", "/disk1", "any"]}]}

  --topics-to-move-json-file:

    {"version": 1, "topics": [{"topic": "orders"}, {"topic": "payments"}]}"""

_wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


def help_text(program: str) -> str:
    """Return the help.

    Args:
        program: the words that start the program, such as "ktui reassign".
    """
    examples = (_example(program, option) for option in OPTIONS.values() if option.example)
    parts = (
        f"Usage: {program} ACTION [OPTION]...",
        "\n".join(_wrap(_PURPOSE, WIDTH)),
        *map(_section, Group),
        _FILES,
        "\n".join(("Examples:", *examples)),
    )
    return "\n\n".join(parts)


def _section(group: Group) -> str:
    options = (each for each in OPTIONS.values() if each.group is group and not each.refusal)
    return "\n".join((f"{group}:", *map(_entry, options)))


def _entry(option: Option) -> str:
    term = f"  --{option.name} {option.metavar}".rstrip()
    indent = " " * _COLUMN
    meaning = "\n".join(_wrap(option.about, WIDTH, initial_indent=indent, subsequent_indent=indent))
    if len(term) > _COLUMN - 2:
        return f"{term}\n{meaning}"
    return term.ljust(_COLUMN) + meaning.lstrip()


def _example(program: str, option: Option) -> str:
    """Return an example of an action, as a shell accepts it; no line parts an option's value."""
    words = re.sub(" (?!--)", "\N{NO-BREAK SPACE}", f"{program} {option.example}")
    lines = _wrap(words, WIDTH - len(" \\"), initial_indent="  ", subsequent_indent="      ")
    return " \\\n".join(lines).replace("\N{NO-BREAK SPACE}", " ")
