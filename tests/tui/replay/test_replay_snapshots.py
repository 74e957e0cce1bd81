from __future__ import annotations

import asyncio

import pytest
from syrupy.assertion import SnapshotAssertion

from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.simulated.moving_clusters import a_cluster
from support.views.replays import Album, Course, Look, each_of, recorded_run, replaying
from support.views.watching import LARGE, MIDDLE, SMALL, a_new_run, moved

NAMES = [f"orders-{n}" for n in range(6)]
SIZES = [Look("dark", SMALL), Look("dark", MIDDLE), Look("dark", LARGE)]
DETAIL = Look("dark", (120, 40))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, same_owner: None) -> RunDir:  # noqa: ARG001 - it patches
    """A run during which a broker dies and comes back."""
    return recorded_run(
        StateDir(tmp_path_factory.mktemp("state")),
        a_cluster(resting=NAMES, messages=20_000, inbound_s=20),
        a_new_run(moved(*NAMES), Limits(replicas=3, partitions=3), "drain-b3"),
        Course({40.0: [layout.Kill(6)], 75.0: [layout.Start(6)]}, tail_s=30.0),
        longest_s=60,
    )


@pytest.fixture(scope="module")
def of_a_replay(run: RunDir) -> Album:
    """A replay that stands in the middle of the run, then at its end."""
    return asyncio.run(_pictures_of_a_replay(run))


async def _pictures_of_a_replay(run: RunDir) -> Album:
    album = Album()
    async with replaying(run.recording, LARGE, at_s=60, name="drain-b3", speed=10.0) as replay:
        await replay.press("p")
        await replay.surveyed()
        await replay.say("run drain-b3")
        replay.app.clear_notifications()
        await album.take("the middle", replay.pilot, *SIZES)
        await replay.press("enter")
        await album.take("the detail", replay.pilot, DETAIL)
        await replay.press("escape", "a", *"soon", "enter")
        replay.app.clear_notifications()
        await album.take("the moment", replay.pilot, SIZES[1])
        await replay.press("escape", *["shift+right"] * 20)
        replay.app.clear_notifications()
        await album.take("the end", replay.pilot, SIZES[1])
    return album


@each_of(*SIZES)
def test_a_replay_in_the_middle_of_a_run(
    of_a_replay: Album, kept: SnapshotAssertion, look: Look
) -> None:
    assert of_a_replay("the middle", look) == kept


def test_a_replay_at_its_end(of_a_replay: Album, kept: SnapshotAssertion) -> None:
    assert of_a_replay("the end", SIZES[1]) == kept


def test_a_replay_prompts_for_a_moment(of_a_replay: Album, kept: SnapshotAssertion) -> None:
    assert of_a_replay("the moment", SIZES[1]) == kept


def test_the_detail_in_a_replay(of_a_replay: Album, kept: SnapshotAssertion) -> None:
    assert of_a_replay("the detail", DETAIL) == kept
