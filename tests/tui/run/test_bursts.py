"""Keys that are typed faster than the view draws, in every form there is."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from textual.app import App
from textual.events import Key
from textual.pilot import Pilot
from textual.widgets import Input

import ktui.tui
from ktui.execution.host.state_dir import StateDir
from support.runs.engine_runs import plan_of
from support.views.cancel_dialog import open_dialog
from support.views.plan_steps import a_plan_file, go_to, read, settled
from support.views.replays import Course, record_run, replaying
from support.views.running import (
    ONE_BY_ONE,
    RunWatched,
    a_new_run,
    a_quiet_cluster,
    moved,
    watching_run,
    watching_runs,
)

_NAMED = {":": "colon", "/": "slash"}
MOVED = moved("a-0", "a-1")


async def burst(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys, each before the view has looked at the one before."""
    for key in keys:
        pilot.app.post_message(Key(_NAMED.get(key, key), key if len(key) == 1 else None))
    await pilot.pause()


def typed(app: App[Any]) -> list[str]:
    """Return what stands in the fields that are on the screen, from the top."""
    shown = (field for field in app.screen.query(Input) if field.region)
    return [field.value for field in shown if field.value]


class Form(NamedTuple):
    """A form, how it is reached, and what is to stand in its fields after some keys at once."""

    keys: tuple[str, ...]
    fields: list[str]
    reached: str = "list"


FORMS = {
    "LimitsForm": Form(("l", "2", "down", "5", "tab", "7", "up", "8"), ["2", "8", "7"]),
    "ThrottleForm": Form(("t", *"50MB"), ["50MB"]),
    "CommandScreen": Form((":", *"pause"), ["pause"]),
    "FilterLine": Form(("/", *"pc"), ["pc"]),
    "TopicsPrompt": Form(("T", *"cl"), ["cl"]),
    "EventsScreen": Form(("e", "/", *"qx"), ["qx"]),
    "HelpScreen": Form(("question_mark", "/", *"qn"), ["qn"]),
    "NotePrompt": Form(("e", "N", *"cp"), ["cp"]),
    "SourceForm": Form(("n", *"qc"), ["qc"]),
    "CancelScreen": Form(("y", *"ny"), ["ny"], "cancel"),
    "AddScreen": Form(("x", "n"), ["xn"], "add"),
    "StartScreen": Form(("x", "tab", "y", "shift+tab", "z"), ["z", "y"], "start"),
    "MomentPrompt": Form(("a", *"+1m"), ["+1m"], "replay"),
}


@asynccontextmanager
async def reached(form: Form, folder: Path) -> AsyncIterator[Pilot[Any]]:
    """Go to where the keys of a form are typed."""
    cluster = a_quiet_cluster("a-0", "a-1", messages=50_000)
    path = a_plan_file(folder, plan_of(MOVED), "drain-3.json")
    if form.reached == "replay":
        state = StateDir(folder)
        wanted = a_new_run(MOVED, ONE_BY_ONE)
        run = await record_run(state, cluster, wanted, Course(most_s=5.0))
        async with replaying(run.recording) as replay:
            yield replay.pilot
    elif form.reached == "start":
        async with watching_runs(cluster, folder) as watch:
            await watch.press("n")
            await read(watch, path)
            await go_to(watch, "start")
            await settled(watch)
            watch.app.screen.query_one("#start-name").focus()
            await watch.pilot.pause()
            yield watch.pilot
    else:
        async with watching_run(cluster, folder, moved("a-0")) as watch:
            await _in_the_run(watch, form.reached, path)
            yield watch.pilot


async def _in_the_run(watch: RunWatched, where: str, path: Path) -> None:
    if where == "cancel":
        await open_dialog(watch, "up", "right")
    elif where == "add":
        await watch.press("n")
        await read(watch, path)
        await go_to(watch, "add")
        await settled(watch)


@pytest.mark.parametrize("name", FORMS)
async def test_keys_typed_in_one_burst_take_effect_in_their_order(
    tmp_path: Path, name: str
) -> None:
    form = FORMS[name]
    async with reached(form, tmp_path) as pilot:
        await burst(pilot, *form.keys)
        assert typed(pilot.app) == form.fields


def test_every_form_of_the_view_is_among_those_that_get_bursts() -> None:
    assert set(_makers_of_fields()) == set(FORMS)


def _makers_of_fields() -> Iterator[str]:
    """Yield the classes of the view in whose code a field is made."""
    fields = {"Input", *(each.__name__ for each in _below(Input))}
    for module in _modules():
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
        for made in (each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)):
            calls = (each.func for each in ast.walk(made) if isinstance(each, ast.Call))
            if any(isinstance(name, ast.Name) and name.id in fields for name in calls):
                yield made.name


def _modules() -> Iterator[Any]:
    for each in pkgutil.walk_packages(ktui.tui.__path__, "ktui.tui."):
        yield importlib.import_module(each.name)


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for each in kind.__subclasses__():
        yield each
        yield from _below(each)
