from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from ktui.cli.record.replay import replay_app
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.pacing.limits import Limits
from ktui.simulated import events
from ktui.simulated.clock import VirtualClock
from ktui.tui.replay.app import ReplayApp
from support.simulated.moving_clusters import a_cluster
from support.views.replays import Course, Replaying, recorded_run, the_tape
from support.views.running import a_new_run, moved
from support.views.watching import LARGE, SMALL

Compare = Callable[..., bool]
NAMES = [f"orders-{n}" for n in range(6)]
SIZES = [SMALL, (120, 30), LARGE]
IDS = ["80x24", "120x30", "200x60"]


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures show local times, and are the same in every country."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run in which a broker dies on the way, and comes back."""
    return recorded_run(
        StateDir(tmp_path_factory.mktemp("state")),
        a_cluster(resting=NAMES, messages=20_000, inbound_s=20),
        a_new_run(moved(*NAMES), Limits(replicas=3, partitions=3), "drain-b3"),
        Course({40.0: [events.Kill(6)], 75.0: [events.Start(6)]}, tail_s=30.0),
        longest_s=60,
    )


@pytest.fixture
def app(run: RunDir) -> Iterator[ReplayApp]:
    tape = the_tape(run.recording)
    with replay_app(
        tape, tape.from_s + 60, recording="drain-b3", real=VirtualClock(), speed=10.0
    ) as app:
        yield app


def after(app: ReplayApp, *keys: str) -> Callable[[Pilot[None]], Any]:
    """Let the replay stand where it begins, know the whole recording, and press keys."""

    async def run(pilot: Pilot[None]) -> None:
        replay = Replaying(app, VirtualClock(), pilot)
        await replay.at_rest()
        await replay.press("p")
        await replay.surveyed()
        await replay.until_told("run drain-b3")
        await replay.press(*keys)
        app.clear_notifications()
        await replay.pilot.pause()

    return run


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_a_replay_in_the_middle_of_a_run(
    snap_compare: Compare, app: ReplayApp, size: tuple[int, int]
) -> None:
    assert snap_compare(app, terminal_size=size, run_before=after(app))


def test_a_replay_at_its_end(snap_compare: Compare, app: ReplayApp) -> None:
    keys = ["shift+right"] * 20
    assert snap_compare(app, terminal_size=(120, 30), run_before=after(app, *keys))


def test_the_moment_is_asked_for(snap_compare: Compare, app: ReplayApp) -> None:
    keys = ["a", *"soon", "enter"]
    assert snap_compare(app, terminal_size=(120, 30), run_before=after(app, *keys))


def test_the_detail_in_a_replay(snap_compare: Compare, app: ReplayApp) -> None:
    assert snap_compare(app, terminal_size=(120, 40), run_before=after(app, "enter"))
