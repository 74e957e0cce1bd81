"""Help, completion, man pages and keys name what there is."""

import ast
import importlib
import os
import pkgutil
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode

import ktui.tui
from ktui.cli.context.config import load_config
from ktui.cli.context.option import CONNECTION, FIRST, GROUPS
from ktui.cli.main import GROUPS as VERB_GROUPS
from ktui.cli.main import NOT_FOR_PEOPLE, VERBS
from ktui.cli.main import ktui as main_ktui
from ktui.cli.output.view import Action, actions, read_keymap
from ktui.inputfile import FileProblem
from ktui.tui.app.demo import DemoApp
from ktui.tui.widgets.bindings import key_text

KEYS_PAGE = Path(__file__).parents[3] / "docs" / "keys.md"


def _keymap(folder: Path, keys: str) -> dict[str, str]:
    path = folder / "config.yaml"
    path.write_text(f"theme: light\nkeys:\n{keys}", encoding="utf-8")
    return read_keymap(load_config(path))


def _own_bindings() -> Iterator[tuple[type, Binding]]:
    """Yield every binding that a class of the view has, with the class."""
    for module in pkgutil.walk_packages(ktui.tui.__path__, "ktui.tui."):
        importlib.import_module(module.name)
    kinds: list[type] = [DOMNode]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("ktui."):
            for binding in vars(kind).get("BINDINGS", ()):
                assert isinstance(binding, Binding), kind
                yield kind, binding


def test_every_key_of_the_view_has_an_id_that_may_be_mapped() -> None:
    mappable = {action.id for action in actions()}
    without = [(kind.__name__, b.key) for kind, b in _own_bindings() if b.id not in mappable]
    assert not without


def test_an_id_is_that_of_one_action() -> None:
    by_id: dict[str | None, set[str]] = {}
    for _, binding in _own_bindings():
        action = binding.action.removeprefix("screen.")
        by_id.setdefault(binding.id, set()).add(action)
    assert not {name: found for name, found in by_id.items() if len(found) > 1}


def test_keys_are_read_by_the_names_that_people_write(tmp_path: Path) -> None:
    keys = '  app.throttle: "#"\n  app.limits: [Ctrl+t, F5]\n  list.page-down: pgdn\n'
    keymap = _keymap(tmp_path, keys)
    assert keymap["app.throttle"] == "number_sign"
    assert keymap["app.limits"] == "ctrl+t,f5"
    assert keymap["list.page-down"] == "pagedown"


@pytest.mark.parametrize(
    ("keys", "line", "words"),
    [
        ("  app.throtle: T\n", 3, "there is no such action. Did you mean 'app.throttle'?"),
        ("  app.throttle: hyper+t\n", 3, "there is no key 'hyper+t'. Write a character"),
        ("  app.throttle: shift+t\n", 3, "there is no key 'shift+t'"),
        ("  app.throttle: []\n", 3, "expected a key, or a list of keys"),
        ("  app.throttle: s\n", 3, "'s' is the key of watch.sort there. Choose another key"),
        ("  app.help: h\n  runs.resume: h\n", 4, "'h' is the key of app.help there"),
        ("  confirm.yes: ctrl+c\n", 3, "'ctrl+c' is the key of app.interrupt there"),
        ("  - app.throttle\n", 2, "expected a mapping of actions to keys"),
    ],
)
def test_a_mistake_in_the_keys_is_refused_with_its_line_and_the_fix(
    tmp_path: Path, keys: str, line: int, words: str
) -> None:
    with pytest.raises(FileProblem) as caught:
        _keymap(tmp_path, keys)
    assert caught.value.line == line
    assert words in str(caught.value)


def test_keys_may_change_places_and_screens_may_share_a_key(tmp_path: Path) -> None:
    keymap = _keymap(tmp_path, "  app.throttle: l\n  app.limits: t\n  cancel.do-it: t\n")
    assert keymap == {"app.throttle": "l", "app.limits": "t", "cancel.do-it": "t"}


def test_an_action_that_shared_a_key_with_a_changed_one_keeps_it(tmp_path: Path) -> None:
    keymap = _keymap(tmp_path, "  app.resume: ctrl+e\n")
    bindings = BindingsMap(DemoApp.BINDINGS)
    bindings.apply_keymap(keymap)
    actions_by_key = {key: binding.action for key, binding in bindings}
    assert actions_by_key["ctrl+e"] == "resume_run"
    assert actions_by_key["R"] == "play_again"


def test_the_page_of_keys_lists_every_action_with_its_keys() -> None:
    page = KEYS_PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [_row(action) for action in actions()]


def _row(action: Action) -> str:
    # A table of Markdown ends its cell at a bar, also within code.
    keys = " ".join(f"`{key_text(key)}`" for key in action.keys).replace("|", r"\|")
    return f"| `{action.id}` | {keys} | {action.words} |"


MANY = 20  # options that one still reads as one list
AS_KAFKA = "reassign"  # its help is that of Kafka's own tool, in Kafka's order


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*path, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


ALL = dict(commands(main_ktui))
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
    words = main_ktui.get_help(click.Context(main_ktui))
    assert all(f"{heading}:\n" in words for heading in VERB_GROUPS)


def test_the_help_says_in_a_line_what_each_verb_does() -> None:
    words = main_ktui.get_help(click.Context(main_ktui, terminal_width=78)).splitlines()

    for verb, does in (each for verbs in VERB_GROUPS.values() for each in verbs.items()):
        assert [line.split() for line in words if line.split()[:1] == [verb]] == [
            [verb, *does.split()]
        ]
        assert does.endswith(".")


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
    context = click.Context(main_ktui)

    def under(
        command: click.Command, *name: str
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        yield name, command
        if isinstance(command, click.Group):
            for word in command.list_commands(context):
                found = command.get_command(context, word)
                assert found is not None
                yield from under(found, *name, word)

    return dict(under(main_ktui))


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
    result = CliRunner().invoke(main_ktui, words.split())

    assert result.exit_code == 2
    assert f"Did you mean {meant!r}?" in result.stderr


ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, made in a fresh process as a build makes them."""
    folder = tmp_path_factory.mktemp("man")
    run(sys.executable, ROOT / "scripts" / "man_pages.py", folder)
    return folder


def test_every_verb_that_the_help_shows_has_a_manual_page(generated: Path) -> None:
    pages = {page.name for page in generated.iterdir()}

    shown = {verb for verb in VERBS if verb not in NOT_FOR_PEOPLE}
    assert {"ktui.1", *(f"ktui-{verb}.1" for verb in shown)} <= pages
    assert "ktui-plan-drain.1" in pages


def test_the_man_pages_are_readable_with_groff_and_mandoc(generated: Path) -> None:
    for program in filter(shutil.which, ("groff", "mandoc")):
        page = run(program, "-man", "-Tascii", generated / "ktui-start.1")

        text = re.sub(".\b", "", page)  # a letter is printed bold by printing it twice
        assert "SYNOPSIS\n       ktui start [OPTIONS] PLAN\n" in text
        assert "--stop-on-failure\n" in text
    if shutil.which("groff"):
        assert run("groff", "-man", "-ww", "-z", "-Tutf8", *sorted(generated.iterdir())) == ""


def run(*command: str | Path) -> str:
    """Run a command that must succeed; return what it prints and its warnings."""
    done = subprocess.run(
        command,
        env={**os.environ, "GROFF_NO_SGR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return done.stdout
