from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest
from syrupy.assertion import SnapshotAssertion

from ktui.execution.host.ownership import Holder
from ktui.pacing.limits import Limits
from ktui.planning.plan import plan_as_json
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import a_cluster, move, wait
from support.views.replays import Album, Look, each_of
from support.views.watching import LARGE, SMALL, RunWatched, a_new_run, moved, watching_runs

WIDE = (120, 40)
SIZES = [Look("dark", SMALL), Look("dark", WIDE), Look("dark", LARGE)]
LIGHT, SIXTEEN = Look("light", WIDE), Look("sixteen", WIDE)
RUN_S, POLL_S = 150.0, 2.0
_ORIGINALS = ((1, 2, 3), (2, 3, 4), (3, 1, 2))


def busy_cluster() -> SimulatedCluster:
    """A cluster with a dead broker and topics to be moved."""
    cluster = a_cluster(
        {
            "audit": [(1, 2)] * 3,
            "orders": [_ORIGINALS[n % 3] for n in range(12)],
            "payments": [_ORIGINALS[n % 3] for n in range(6)],
        },
        messages=20_000,
        inbound_s=20,
        configs={"min.insync.replicas": "2"},
    )
    cluster.do(layout.Kill(9))
    wait(cluster, 30.0)
    return cluster


PLAN = {
    **moved(*(f"orders-{n}" for n in range(10)), target=(5, 6, 3)),
    **moved("payments-0", "payments-3", target=(4, 2, 3)),
    **moved("payments-1", target=(9, 3, 4)),
    **moved("payments-2", target=(7, 1, 2)),
}
"""One partition targets a dead broker; another is being moved by somebody else."""


@asynccontextmanager
async def watching_the_run(throttle: str = "none") -> AsyncIterator[RunWatched]:
    """Start a run beside a foreign reassignment, and watch it."""
    async with watching_runs(busy_cluster(), size=LARGE, poll_s=POLL_S) as watch:
        limits = Limits(replicas=1, partitions=4, per_broker=3)
        run = await watch.engines.start(a_new_run(PLAN, limits, "drain-b3", throttle))
        watch.cluster.do(move("payments-2", 8, 1, 2))
        watch.app.call_later(watch.app.attach_to, run)
        await watch.until(lambda: watch.app.attached is not None)
        yield watch


async def at_rest(watch: RunWatched) -> None:
    """Wait until nothing is being worked out for the screen any more."""
    workers = watch.app.workers
    await watch.until(lambda: not any(w.is_running for w in workers if w.group != "polling"))


@pytest.fixture(scope="module")
def of_a_run(tmp_path_factory: pytest.TempPathFactory, same_owner: None) -> Album:  # noqa: ARG001 - it patches
    """One run from its start until parts of it are cancelled."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "plan.json").write_text(plan_as_json(plan_of(moved("audit-0", target=(4, 5, 6)))))
    ada = Holder(4711, "ops1", "ada", datetime(2026, 11, 21, tzinfo=UTC))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("ktui.tui.app.run_catalog.this_process", lambda: ada)
        patch.setattr("ktui.execution.host.client.this_process", lambda: ada)
        return asyncio.run(_pictures_of_a_run())


async def _pictures_of_a_run() -> Album:
    album = Album()
    async with watching_the_run() as watch:
        await watch.pass_time(2.0)
        await watch.press("n")
        await watch.submit("plan.json", "replica movements")
        await at_rest(watch)
        await album.take("a plan", watch.pilot, *SIZES)
        await watch.press("escape")
        await watch.pass_time(RUN_S - 2.0)
        await album.take("the run", watch.pilot, *SIZES, LIGHT)
        await watch.press("p")
        await album.take("pause", watch.pilot, SIZES[0])
        await watch.press("escape", "l", "down", "x")
        await album.take("limits", watch.pilot, *SIZES)
        await watch.press("escape", "j")
        await album.take("the run", watch.pilot, SIXTEEN)
        await watch.press("slash", *"orders-4", "enter", "enter")
        await album.take("steps", watch.pilot, *SIZES)
        await watch.press("escape", "escape", "home", "c", "up", "right")
        await watch.pass_time(2 * POLL_S)
        await at_rest(watch)
        await album.take("a rollback", watch.pilot, *SIZES, LIGHT)
        await watch.press("escape", "end", "space", "up", "space", "home")
        await watch.press("c", "up", "right", "y")
        await watch.pass_time(8 * POLL_S)
        await at_rest(watch)
        await album.take("cancelled", watch.pilot, *SIZES, LIGHT, SIXTEEN)
    return album


@each_of(*SIZES, LIGHT)
def test_a_busy_run(of_a_run: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_a_run("the run", look) == kept


def test_a_busy_run_in_sixteen_colours(of_a_run: Album, kept: SnapshotAssertion) -> None:
    assert of_a_run("the run", SIXTEEN) == kept


@each_of(*SIZES)
def test_the_limits_of_a_run(of_a_run: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_a_run("limits", look) == kept


@each_of(*SIZES)
def test_the_steps_of_a_partition(of_a_run: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_a_run("steps", look) == kept


def test_the_pause_confirmation(of_a_run: Album, kept: SnapshotAssertion) -> None:
    assert of_a_run("pause", SIZES[0]) == kept


@each_of(*SIZES)
def test_a_plan_before_it_is_started(of_a_run: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_a_run("a plan", look) == kept


@each_of(*SIZES, LIGHT)
def test_the_preview_of_a_rollback(of_a_run: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_a_run("a rollback", look) == kept


@each_of(*SIZES, LIGHT, SIXTEEN)
def test_a_cancelled_run(of_a_run: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_a_run("cancelled", look) == kept


@pytest.fixture(scope="module")
def of_its_throttle(same_owner: None) -> Album:  # noqa: ARG001 - it patches
    """A run whose throttle is about to be changed."""
    return asyncio.run(_pictures_of_its_throttle())


async def _pictures_of_its_throttle() -> Album:
    album = Album()
    async with watching_the_run("500kB,9=none") as watch:
        await watch.pass_time(RUN_S)
        await watch.press("t")
        await watch.type("15kB,5=1MB")
        await at_rest(watch)
        await album.take("throttle", watch.pilot, *SIZES, LIGHT)
    return album


@each_of(*SIZES, LIGHT)
def test_the_throttle_of_a_run(of_its_throttle: Album, kept: SnapshotAssertion, look: Look) -> None:
    assert of_its_throttle("throttle", look) == kept


@pytest.fixture(scope="module")
def of_a_low_throttle(same_owner: None) -> Album:  # noqa: ARG001 - it patches
    """A run that is throttled below what is written to its partitions."""
    return asyncio.run(_pictures_of_a_low_throttle())


async def _pictures_of_a_low_throttle() -> Album:
    album = Album()
    async with watching_the_run("15kB") as watch:
        await watch.pass_time(120.0)
        await album.take("the run", watch.pilot, *SIZES)
    return album


@each_of(*SIZES)
def test_a_throttle_that_is_too_low(
    of_a_low_throttle: Album, kept: SnapshotAssertion, look: Look
) -> None:
    assert of_a_low_throttle("the run", look) == kept
