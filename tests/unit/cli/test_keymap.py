"""config.yaml changes keys by the ids of actions; its mistakes are refused with line and fix."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.binding import Binding, BindingsMap
from textual.dom import DOMNode

import ktui.tui
from ktui.cli.context.config import load_config
from ktui.cli.output.view import Action, actions, read_keymap
from ktui.inputfile import FileProblem
from ktui.tui.app.simulated import DemoApp
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
    keymap = _keymap(tmp_path, "  app.resume: ctrl+r\n")
    bindings = BindingsMap(DemoApp.BINDINGS)
    bindings.apply_keymap(keymap)
    actions_by_key = {key: binding.action for key, binding in bindings}
    assert actions_by_key["ctrl+r"] == "resume_run"
    assert actions_by_key["R"] == "play_again"


def test_the_page_of_keys_lists_every_action_with_its_keys() -> None:
    page = KEYS_PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows == [_row(action) for action in actions()]


def _row(action: Action) -> str:
    keys = " ".join(f"`{key_text(key)}`" for key in action.keys)
    return f"| `{action.id}` | {keys} | {action.words} |"
