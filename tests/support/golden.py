"""What ktui prints, whole, in golden files: `pytest --update-golden` writes those of its tests.

Read their difference before you commit it: it is what users will see.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest

from support.cli.call_ktui import Done, call_ktui

FOLDER = "golden"
BAD_INPUT = 2
ESTIMATED = dict.fromkeys(("time_s", "copying_s", "waiting_s", "after_s", "ends_at"), "estimated")
"""How long a plan takes, which other tests hold."""
LINE = 100
"""As many characters as a line of JSON in a golden file has, apart from its last key."""


class Sandbox(Protocol):
    """Where `ktui` is called, and what it may change there."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables of ktui."""

    @property
    def condition(self) -> Mapping[str, object]:
        """What a verb may have changed, by its name in golden files."""

    @property
    def fixed(self) -> Mapping[str, str]:
        """What differs from test to test, with the words for it in golden files."""


S = TypeVar("S")
Session = tuple[str | Callable[[S], object], ...]
"""Command lines without their `ktui`, and what happens between them."""


class Golden:
    """The golden files beside a test."""

    def __init__(self, folder: Path, *, update: bool) -> None:
        self._folder, self._update = folder / FOLDER, update

    def check(self, name: str, text: str) -> None:
        """Compare a whole output with its file."""
        file = self._folder / name
        if self._update:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        kept = file.read_text(encoding="utf-8") if file.exists() else ""
        if text != kept:
            lines = kept.splitlines(), text.splitlines()
            differs = difflib.unified_diff(*lines, str(file), "now", lineterm="")
            hint = "If it should be so: pytest --update-golden"
            pytest.fail("\n".join([*differs, hint]), pytrace=False)

    def check_json(self, name: str, text: str, **fixed: str) -> None:
        """Compare a JSON object as people and scripts get it with its file, which is shorter.

        Args:
            name: the file's name without its ending.
            text: the output.
            fixed: the values of fields, anywhere in it, that differ from time to time.
        """
        value = json.loads(text)
        assert text == json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        self.check(f"{name}.json", _compact(_fixed(value, fixed)) + "\n")

    def play(self, name: str, session: Session[Any], sandbox: Sandbox) -> None:
        """Compare what a session prints and changes with its file.

        A line begins with `!` if it is from the standard error, and with `=>` for what has changed.
        What is refused, or only shown, changes nothing.
        """
        shown: list[str] = []
        at_first: Mapping[str, object] | None = None
        for step in session:
            if not isinstance(step, str):
                step(sandbox)
                continue
            before = sandbox.condition
            at_first = before if at_first is None else at_first
            done = call_ktui(*shlex.split(step), **sandbox.environment)
            after = sandbox.condition
            if done.returncode == BAD_INPUT or "--dry-run" in step:
                assert after == before, step
            shown += [*_printed(step, done), *_changed(before, after, at_first), ""]
        text = "\n".join(shown)
        for varying, word in sandbox.fixed.items():
            text = text.replace(varying, word)
        self.check(f"{name}.txt", text)


def _printed(step: str, done: Done) -> list[str]:
    code = f"  (exit {done.returncode})" if done.returncode else ""
    errors = (f"! {line}".rstrip() for line in done.stderr.splitlines())
    return [f"$ ktui {step}{code}", *map(str.rstrip, done.stdout.splitlines()), *errors]


def _changed(
    before: Mapping[str, object], after: Mapping[str, object], at_first: Mapping[str, object]
) -> list[str]:
    if before == after:
        return []
    if after == at_first:
        return ["=> all is as at first"]
    names = dict.fromkeys([*before, *after])
    changes = ((name, after.get(name)) for name in names if before.get(name) != after.get(name))
    return [f"=> {name}: {value}" for name, value in changes]


def _fixed(value: Any, fixed: Mapping[str, str], name: str = "") -> Any:
    if name in fixed and value is not None:
        return fixed[name]
    if isinstance(value, dict):
        return {key: _fixed(part, fixed, key) for key, part in value.items()}
    return [_fixed(part, fixed) for part in value] if isinstance(value, list) else value


def _compact(value: Any, indent: str = "") -> str:
    """Return JSON with as much in a line as fits."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent + line) <= LINE or not isinstance(value, dict | list) or not value:
        return line
    deeper = f"{indent}  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_compact(part, deeper)}" for key, part in value.items()]
    else:
        parts = [_compact(part, deeper) for part in value]
    lines = [deeper + parts[0]]
    for part in parts[1:]:
        lines[-1] += ","
        together = f"{lines[-1]} {part}"
        if "\n" in together or len(together) > LINE or isinstance(value, list):
            lines.append(deeper + part)
        else:
            lines[-1] = together
    first, last = "{}" if isinstance(value, dict) else "[]"
    return "\n".join([first, *lines, indent + last])
