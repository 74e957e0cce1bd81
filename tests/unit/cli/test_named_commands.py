"""Every command of ktui that a sentence of ktui names exists, with the options in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui

SOURCE = Path("src/ktui")
_COMMAND = re.compile(r"ktui ((?:[^.;,`\"\n)(:]|[:.](?=\S))*)")
_OPTION = re.compile(r"--[a-z][a-z-]*")
_WAYS_TO_CANCEL = {"--stop", "--rollback", "--trim", "--remove-cancel"}
_WHAT_TO_CANCEL = {"--topic", "--partition", "--broker", "--all"}
_TAKES_ALLOWANCES = (
    "start", "add", "alter-topic", "rehearse", "plan check", "plan replication-factor",
    "broker remove", "broker demote",
)  # fmt: skip
"""The verbs that check a plan by which a partition may get fewer replicas than it has."""


def verbs() -> dict[tuple[str, ...], click.Command]:
    """Return every command by the words of its name."""
    context = click.Context(ktui)

    def under(
        command: click.Command, *name: str
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            for word in command.list_commands(context):
                found = command.get_command(context, word)
                assert found is not None
                yield from under(found, *name, word)

    return dict(under(ktui))


def options(command: click.Command) -> set[str]:
    return {"--help", *(o for each in command.params for o in (*each.opts, *each.secondary_opts))}


def texts(path: Path) -> Iterator[str]:
    """Yield every text of a module, with {} for what is filled in."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.JoinedStr):
            inside.update(map(id, ast.walk(node)))
            parts = (v.value if isinstance(v, ast.Constant) else "{}" for v in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and id(node) not in inside:
            yield node.value if isinstance(node.value, str) else ""


def named_commands() -> Iterator[tuple[Path, str, tuple[str, ...], set[str]]]:
    """Yield each command that a text names: where, how, its verb, and its options there."""
    known = verbs()
    for path in sorted(SOURCE.rglob("*.py")):
        for text in texts(path):
            for found in _COMMAND.finditer(text):
                words: list[str] = found[1].split()
                name: tuple[str, ...] = ()
                while words and (*name, words[0]) in known:
                    name = (*name, words.pop(0))
                if name:
                    yield path, found[0], name, set(_OPTION.findall(" ".join(words)))


def test_every_command_that_ktui_names_has_the_options_that_it_names_with_it() -> None:
    known = verbs()
    named = list(named_commands())

    wrong = [(path, text) for path, text, name, given in named if given - options(known[name])]

    assert len(named) > 100
    assert wrong == []


def test_every_cancel_that_ktui_names_says_which_kind() -> None:
    """Without one `ktui cancel` is refused."""
    scoped = [
        (path, text, given)
        for path, text, name, given in named_commands()
        if name == ("cancel",) and given & _WHAT_TO_CANCEL
    ]

    assert len(scoped) > 3
    assert [each for each in scoped if not each[2] & _WAYS_TO_CANCEL] == []


@pytest.mark.parametrize("verb", _TAKES_ALLOWANCES)
def test_what_a_finding_says_would_allow_it_is_an_option_of_the_verb_that_shows_it(
    verb: str,
) -> None:
    has = options(verbs()[tuple(verb.split())])

    assert "--allow-below-min-isr" in has
    if verb not in {"alter-topic", "plan replication-factor"}:  # they are asked for another number
        assert "--allow-replication-factor-change" in has


@pytest.mark.parametrize(
    ("words", "meant"),
    [("strat plan.json", "start"), ("broker remov 3", "remove"), ("pipeline rnu", "run")],
)
def test_a_mistyped_verb_is_answered_with_the_one_that_was_probably_meant(
    words: str, meant: str
) -> None:
    result = CliRunner().invoke(ktui, words.split())

    assert result.exit_code == 2
    assert f"Did you mean {meant!r}?" in result.stderr
