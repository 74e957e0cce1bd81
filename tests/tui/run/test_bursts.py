"""Keys typed ahead, and dialogs."""

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
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from ktui.tui.screens.dialog import Dialog
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import move
from support.views.replays import Course, record_run, replaying
from support.views.watching import (
    LARGE,
    MIDDLE,
    ONE_BY_ONE,
    SMALL,
    RunWatched,
    a_new_run,
    a_plan_file,
    a_quiet_cluster,
    asked,
    go_to,
    moved,
    open_dialog,
    read,
    settled,
    state_of,
    watching_moves,
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
        async with watching_runs(cluster, folder=folder) as watch:
            await watch.press("n")
            await read(watch, path)
            await go_to(watch, "start")
            await settled(watch)
            watch.app.screen.query_one("#start-name").focus()
            await watch.pilot.pause()
            yield watch.pilot
    else:
        async with watching_run(cluster, moved("a-0"), folder=folder) as watch:
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


NAMES = ("a-0", "a-1", "b-0")


def place_of(watch: RunWatched, words: str) -> tuple[int, int]:
    """Return where some words stand on the screen."""
    found = [(line.find(words), y) for y, line in enumerate(watch.lines) if words in line]
    return found[-1]


async def test_the_view_below_a_dialog_goes_on_and_shows_that_the_cluster_is_lost() -> None:
    async with watching_moves(*NAMES, messages=50_000, size=LARGE) as watch:
        await watch.press("l")
        before = watch.row("a-0")
        await watch.pass_time(5)
        assert watch.row("a-0") != before
        await watch.lose()
        await watch.pass_time(3)
        for key in ("l", "t", "c"):
            await watch.press("escape", key)
            assert isinstance(watch.app.screen, Dialog)
            for size in (SMALL, MIDDLE, LARGE):
                await watch.resize(size)
                assert "does not answer, last" in watch.lines[1]


async def test_a_dialog_shows_its_title_and_keys_on_its_border_and_a_click_presses_them() -> None:
    async with watching_moves(*NAMES, messages=50_000) as watch:
        await watch.press("p")
        assert "╭─ Pause run drain-3? ──" in watch.text
        await watch.pilot.click(offset=place_of(watch, "n, esc no"))
        assert isinstance(watch.app.screen, WatchScreen)
        assert asked(watch) == []


async def test_what_is_reported_meanwhile_stands_in_a_dialog_that_covers_the_footer() -> None:
    async with watching_moves(*NAMES, messages=50_000, size=SMALL) as watch:
        await open_dialog(watch)
        watch.app.notify("something happened", severity="warning")
        await watch.pilot.pause()
        assert "something happened" in watch.dialog_line("something")
        await watch.press("down")
        assert not any("something" in line for line in watch.dialog)


async def test_keys_that_are_letters_are_typed_into_the_runs_name() -> None:
    async with watching_moves(*NAMES, messages=50_000, size=SMALL) as watch:
        await open_dialog(watch, "up", "right", "y")
        assert "Type the run's name to roll back everything" in watch.text
        await watch.press("y", "n", "q", "O", "down", "up")
        assert "● everything in the run (3 partitions)" in watch.text
        assert "1 in flight is cancelled" in watch.text  # what is decided on stays in sight
        await watch.press("enter")
        assert "! Type drain-3 to confirm" in watch.text
        await watch.press("escape")
        assert "Press y to roll back everything" in watch.text
        await watch.press("escape")
        assert isinstance(watch.app.screen, WatchScreen)
        assert asked(watch) == []


@pytest.mark.parametrize("key", ["l", "t"])
async def test_a_dialog_higher_than_the_terminal_scrolls(key: str) -> None:
    async with watching_moves(*NAMES, throttle="20MB", messages=50_000) as watch:
        await watch.press(key)
        await watch.resize((60, 12))
        last = "A field that is empty stays" if key == "l" else "Enter puts it in force"
        assert last not in " ".join(" ".join(watch.dialog).split())
        await watch.press("pagedown", "pagedown", "pagedown")
        assert last in " ".join(" ".join(watch.dialog).split())


async def test_a_title_longer_than_the_border_stands_inside_the_box() -> None:
    name = f"{'orders.' * 12}v1-0"
    cluster = a_quiet_cluster(name, "a-0", messages=50_000)
    async with watching_run(cluster, moved("a-0"), size=SMALL) as watch:
        await watch.do(move(name, 4, 2, 3))
        await watch.press("v")
        while watch.cursor != name:
            await watch.press("down")
        await watch.press("X")
        assert name in "".join("".join(watch.dialog).split())


async def test_the_dialog_shows_what_is_sent_and_how_each_partition_will_end() -> None:
    async with watching_moves(*NAMES, messages=50_000, size=SMALL) as watch:
        await open_dialog(watch, "up")
        for size in (SMALL, MIDDLE, LARGE):
            await watch.resize(size)
            assert "● everything in the run (3 partitions)" in watch.text
            assert watch.dialog_line("a-0 ").split() == [
                "a-0",
                "adding",
                "cancel",
                *"123",
                "3",
                "1",
            ]
            assert watch.dialog_line("b-0 ").split() == [
                "b-0",
                "queued",
                "nothing",
                *"123",
                "3",
                "1",
            ]
            assert "1 in flight is cancelled, 2 will not start" in watch.text
            assert "This also shuts the cluster's cancel gate" in watch.text


async def test_the_preview_of_a_cancel_follows_the_chosen_scope_and_action() -> None:
    async with watching_moves(*NAMES) as watch:
        await watch.pass_until("done 1/3")
        await open_dialog(watch)
        assert "● stop" in watch.text
        assert "partition a-1" in watch.dialog_line("●")
        await watch.press_and_see("down", "right")
        assert "● topic a (2 partitions)" in watch.text
        assert "● roll back" in watch.text
        assert watch.dialog_line("a-0 ").split()[:4] == ["a-0", "done", "4", "steps"]
        assert "1 in flight is cancelled, 1 is rolled back" in watch.text
        await watch.pilot.click("#actions", offset=(12, 0))
        assert "● stop" in watch.text
        assert watch.dialog_line("a-0 ").split()[:3] == ["a-0", "done", "nothing:"]
        await watch.pilot.click("#scopes", offset=(12, 0))
        assert "● partition a-1" in watch.text


async def test_a_rollback_names_its_bytes_and_its_time_before_it_is_asked_for() -> None:
    names = [f"a-{n}" for n in range(4)]
    cluster, at_once = a_quiet_cluster(*names, messages=20_000), Limits(replicas=3, partitions=2)
    async with watching_run(cluster, moved(*names), at_once, size=LARGE) as watch:
        await watch.pass_until("done 2/4")
        await watch.pass_time(25)
        await open_dialog(watch, "up", "right")
        assert "● everything in the run (4 partitions)" in watch.text
        assert "2 in flight are cancelled, 2 are rolled back" in watch.text
        # three replicas of two partitions, 20 MB each, at 1 MB/s onto each of three brokers
        assert "114 MiB to copy back (about 4" in watch.line("to copy back")


async def test_enter_requests_nothing_and_esc_leaves_everything_as_it_is() -> None:
    async with watching_moves(*NAMES) as watch:
        await open_dialog(watch)
        await watch.press("enter", "enter")
        assert isinstance(watch.app.screen, CancelScreen)
        await watch.press_and_see("escape")
        assert isinstance(watch.app.screen, WatchScreen)
        assert asked(watch) == []
        assert state_of(watch, "a-0") is State.ADDING


async def test_marked_partitions_come_first_and_those_outside_the_run_are_left_out() -> None:
    cluster = a_quiet_cluster(*NAMES, "x-0", messages=50_000)
    async with watching_run(cluster, moved(*NAMES)) as watch:
        await watch.press("down", "space", "v")
        await watch.do(move("x-0", 4, 2, 3))
        while watch.cursor != "x-0":
            await watch.press("down")
        await watch.press("space")
        await open_dialog(watch)
        assert "● 1 marked partition; 1 marked is not in the run" in watch.text
        assert "a-1" in watch.dialog_line("queued")


async def test_a_read_only_view_shows_the_cancel_preview_and_why_it_cannot_be_requested() -> None:
    async with watching_moves("a-0", messages=50_000, write=False) as watch:
        await open_dialog(watch)
        assert (
            "This view is read-only; open it with ktui watch --write to make changes." in watch.text
        )
        assert "1 in flight is cancelled" in watch.text
        await watch.press_and_see("y")
        assert isinstance(watch.app.screen, CancelScreen)
        assert state_of(watch, "a-0") is State.ADDING


async def test_the_cancel_key_without_a_run_reports_that_none_is_attached() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        await watch.press("c")
        assert "No run is attached." in watch.text


async def test_the_dialog_shows_a_refused_rollback_and_its_cause() -> None:
    async with watching_moves("a-0", "a-1") as watch:
        await watch.pass_until("done 1/2")
        await watch.do(layout.Kill(1))
        await watch.pass_time(20)
        await open_dialog(watch, "up", "right")
        assert "broker 1 of its original replicas is down" in watch.text
        assert "refused for now" in watch.text


async def test_the_dialog_warns_when_a_cancel_leaves_fewer_than_min_insync_replicas() -> None:
    async with watching_moves(
        "a-0", messages=500_000, configs={"min.insync.replicas": "2"}
    ) as watch:
        await watch.do(layout.Kill(2), layout.Kill(3))
        await watch.pass_time(40)
        await open_dialog(watch)
        assert "1 would stay in sync, fewer than min.insync.replicas (2)" in watch.text
        assert "1 at risk" in watch.text
