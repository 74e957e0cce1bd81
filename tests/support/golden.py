"""What ktui prints, whole, in golden files: `pytest --update-golden` writes those of its tests.

Read their difference before you commit it: it is what users will see. For a new session, write its
commands, and what happens between them, into a file; the option adds the rest.
"""

from __future__ import annotations

import difflib
import json
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pytest

from support.cli.call_ktui import Done, call_ktui

FOLDER = "golden"
GREP = " | grep "
RUNS = "runs"
"""What is not put back with the rest: runs stay when they are undone."""
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
    def condition(self) -> Mapping[str, str]:
        """What a verb may have changed, by its name in golden files."""

    @property
    def fixed(self) -> Mapping[str, str]:
        """What differs from test to test, with the words for it in golden files."""


Acts = Mapping[str, Callable[..., object]]
"""What may happen between commands; called with the sandbox, and with the words behind its name."""


class Golden:
    """The golden files beside a test, or in folders beside it."""

    def __init__(self, folder: Path, *, update: bool) -> None:
        self._folder, self._update = folder, update

    def check(self, name: str, text: str) -> None:
        """Compare a whole output with its file."""
        file = self._folder / (name if FOLDER in name else f"{FOLDER}/{name}")
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

    def play(self, name: str, sandbox: Sandbox, acts: Acts) -> None:
        """Call the commands of a session again, and compare what they print and change.

        The file begins its lines with `$` for a command, `*` for what happens meanwhile, `!` for
        what is on the standard error, and `=>` for what has changed. Behind `| grep WORDS`, only
        the lines with these words are shown. What is refused, or only previewed, changes nothing.
        """
        shown: list[str] = []
        at_first: Mapping[str, str] | None = None
        for line in (self._folder / f"{name}.txt").read_text(encoding="utf-8").splitlines():
            if line.startswith("* "):
                act, *words = shlex.split(line[2:])
                acts[act](sandbox, *words)
                shown.append(line)
            if not line.startswith("$ "):
                continue
            step = line[2:].partition("  (exit")[0]
            command = shlex.split(step.partition(GREP)[0], comments=True)[1:]
            before = sandbox.condition
            at_first = before if at_first is None else at_first
            done = call_ktui(*command, **sandbox.environment)
            after = sandbox.condition
            if done.returncode == BAD_INPUT or "--dry-run" in command:
                assert after == before, step
            shown += [*_printed(step, done), *_changed(before, after, at_first)]
        text = "\n".join([*shown, ""])
        for varying, word in sandbox.fixed.items():
            text = text.replace(varying, word)
        self.check(f"{name}.txt", text)


def sessions(test_file: str, *folders: str) -> list[str]:
    """Return the names of the sessions beside a test, or of those in folders beside it."""
    here = Path(test_file).parent
    found = (file for each in folders or [""] for file in (here / each / FOLDER).glob("*.txt"))
    return sorted(str(file.relative_to(here).with_suffix("")) for file in found)


def _printed(step: str, done: Done) -> list[str]:
    code = f"  (exit {done.returncode})" if done.returncode else ""
    words = step.partition(GREP)[2].partition("  #")[0].strip("'")
    printed = done.stdout
    if printed.startswith("{\n"):
        printed = _compact(json.loads(printed))
    errors = [line for line in done.stderr.splitlines() if not line.startswith("Try '")]
    if done.stderr.startswith("Usage:"):
        errors = errors[2:]  # the first ones, too, only tell how to get help
    lines = [*printed.splitlines(), *(f"! {line}" for line in errors)]
    return [f"$ {step}{code}", *(line.rstrip() for line in lines if words in line)]


def _changed(
    before: Mapping[str, str], after: Mapping[str, str], at_first: Mapping[str, str]
) -> list[str]:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    changes = "; ".join(f"{name}: {after.get(name, 'gone')}" for name in names)
    if names and {**after, RUNS: ""} == {**at_first, RUNS: ""}:
        changes = "all is as it was at first"
    return [f"=> {changes}"] * bool(names)


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
