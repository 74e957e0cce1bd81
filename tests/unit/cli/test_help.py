"""The help: an operator finds a verb, and of many options the ones that matter, at once."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from ktui.cli.context.grouped_help import CONNECTION, FIRST, GROUPS
from ktui.cli.main import GROUPS as VERB_GROUPS
from ktui.cli.main import NOT_FOR_PEOPLE, VERBS, ktui

MANY = 20
"""Options that one still reads as one list."""
AS_KAFKA = "reassign"
"""Its help is that of Kafka's own tool, in Kafka's order."""


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = dict(commands(ktui))
LONG = [
    name
    for name, each in ALL.items()
    if sum(isinstance(option, click.Option) for option in each.params) > MANY and name != AS_KAFKA
]


def help_of(name: str) -> str:
    return ALL[name].get_help(click.Context(ALL[name]))


def test_the_help_has_every_verb_under_one_of_five_headings() -> None:
    grouped = [verb for verbs in VERB_GROUPS.values() for verb in verbs]

    assert len(VERB_GROUPS) == 5
    assert sorted(grouped) == sorted(verb for verb in VERBS if verb not in NOT_FOR_PEOPLE)
    words = ktui.get_help(click.Context(ktui))
    assert all(f"{heading}:\n" in words for heading in VERB_GROUPS)


@pytest.mark.parametrize("name", LONG)
def test_a_verb_with_many_options_has_them_in_groups_and_those_that_matter_first(name: str) -> None:
    words = help_of(name)

    assert words.index(f"{FIRST}:") < words.index(f"{CONNECTION}:")
    assert "\nOptions:" not in words
    first = words[words.index(FIRST) : words.index("\n\n", words.index(FIRST))]
    assert 1 <= sum(line.startswith("  --") for line in first.splitlines()) <= 10
    for option in ALL[name].params:
        if isinstance(option, click.Option) and not option.hidden:
            assert any(f"{each} " in words or f"{each}\n" in words for each in option.opts)


def test_every_option_that_a_group_names_is_an_option_of_a_verb() -> None:
    known = {each for command in ALL.values() for option in command.params for each in option.opts}

    named = {option for options in GROUPS.values() for option in options.split()}
    assert named - known <= {"--help"}
