from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from ktui.cli.watch.demo_launcher import SimulatedEngines
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import StateDir
from ktui.pacing.limits import Limits
from ktui.planning.plan import plan_as_json
from ktui.simulated import events
from ktui.simulated.cluster import SimulatedCluster
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import a_cluster, move, wait
from support.views.running import a_new_run, moved
from support.views.watching import LARGE, SMALL, Looks, Watching, an_app

Compare = Callable[..., bool]
WIDE = (120, 40)
SIZES = [SMALL, WIDE, LARGE]
IDS = ["80x24", "120x40", "200x60"]
RUN_S, POLL_S = 260.0, 2.0
_ORIGINALS = ((1, 2, 3), (2, 3, 4), (3, 1, 2))


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Pictures show local times, and are the same in every country."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def busy_cluster() -> SimulatedCluster:
    """Brokers of which one is dead, and topics to be moved."""
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
    cluster.do(events.Kill(9))
    wait(cluster, 30.0)
    return cluster


PLAN = {
    **moved(*(f"orders-{n}" for n in range(10)), target=(5, 6, 3)),
    **moved("payments-0", "payments-3", target=(4, 2, 3)),
    **moved("payments-1", target=(9, 3, 4)),
    **moved("payments-2", target=(7, 1, 2)),
}
"""One wants a dead broker; one is being moved by somebody else."""


class Scene:
    """The app over a run that is under way, for a picture of it."""

    def __init__(self, folder: Path, **how: Any) -> None:
        self._cluster = busy_cluster()
        self._folder = folder
        self._looks = Looks(self._cluster)
        state_dir = StateDir(folder / "state")
        self._engines = SimulatedEngines(self._cluster, state_dir)
        self.app = an_app(
            self._cluster,
            self._looks,
            read_only=False,
            poll_s=POLL_S,
            state_dir=state_dir,
            engines=self._engines,
            **how,
        )

    def after(
        self,
        *keys: str,
        seconds: float = RUN_S,
        then_s: float = 0.0,
        until: str = "",
        throttle: str = "none",
    ) -> Callable[[Pilot[None]], Any]:
        """Let the run go on for so long, then press keys, and wait for words if need be.

        After the keys it goes on for some seconds more.
        """

        async def run(pilot: Pilot[None]) -> None:
            watch = Watching(self.app, self._looks, self._cluster, pilot)
            await watch.begin()
            limits = Limits(replicas=1, partitions=4, per_broker=3)
            folder = await self._engines.start(a_new_run(PLAN, limits, "drain-b3", throttle))
            self._cluster.do(move("payments-2", 8, 1, 2))
            self.app.call_later(self.app.attach_to, folder)
            await watch.until(lambda: self.app.attached is not None)
            await watch.pass_time(seconds)
            await watch.press(*keys)
            await watch.pass_time(then_s)
            await watch.until(lambda: until in watch.text and self._at_rest())
            await self._engines.aclose()

        return run

    def _at_rest(self) -> bool:
        """Whether nothing is being worked out for the screen any more."""
        return not any(w.is_running for w in self.app.workers if w.group != "polling")


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_a_busy_run(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int], theme: str
) -> None:
    scene = Scene(tmp_path, theme=theme)
    assert snap_compare(scene.app, terminal_size=size, run_before=scene.after())


def test_a_busy_run_in_sixteen_colours(snap_compare: Compare, tmp_path: Path) -> None:
    scene = Scene(tmp_path, theme="sixteen")
    assert snap_compare(scene.app, terminal_size=WIDE, run_before=scene.after("j"))


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_the_limits_of_a_run(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    scene = Scene(tmp_path)
    typed = scene.after("l", "down", "x")
    assert snap_compare(scene.app, terminal_size=size, run_before=typed)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_the_throttle_of_a_run(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int], theme: str
) -> None:
    scene = Scene(tmp_path, theme=theme)
    typed = ["1", "5", "k", "B", "comma", "5", "equals_sign", "1", "M", "B"]
    asked = scene.after("t", *typed, throttle="500kB,9=none")
    assert snap_compare(scene.app, terminal_size=size, run_before=asked)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_a_throttle_that_is_too_low(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int]
) -> None:
    scene = Scene(tmp_path)
    too_low = scene.after(throttle="15kB", seconds=120.0)
    assert snap_compare(scene.app, terminal_size=size, run_before=too_low)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_the_steps_of_a_partition(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int]
) -> None:
    scene = Scene(tmp_path)
    opened = scene.after("slash", *"orders-4", "enter", "enter")
    assert snap_compare(scene.app, terminal_size=size, run_before=opened)


def test_the_question_whether_to_pause(snap_compare: Compare, tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    assert snap_compare(scene.app, terminal_size=SMALL, run_before=scene.after("p"))


@pytest.mark.parametrize("size", SIZES, ids=IDS)
def test_a_plan_before_it_is_started(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plan.json").write_text(plan_as_json(plan_of(moved("audit-0", target=(4, 5, 6)))))
    monkeypatch.chdir(tmp_path)
    scene = Scene(tmp_path)
    keys = [{".": "full_stop", "-": "minus"}.get(each, each) for each in "plan.json"]
    read = scene.after("n", *keys, "enter", seconds=2.0, until="replica movements")
    assert snap_compare(scene.app, terminal_size=size, run_before=read)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("theme", ["dark", "light"])
def test_what_a_rollback_would_come_to(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int], theme: str
) -> None:
    scene = Scene(tmp_path, theme=theme)
    chosen = scene.after("c", "up", "right", then_s=2 * POLL_S)
    assert snap_compare(scene.app, terminal_size=size, run_before=chosen)


@pytest.mark.parametrize("size", SIZES, ids=IDS)
@pytest.mark.parametrize("theme", ["dark", "light", "sixteen"])
def test_a_run_that_is_called_off(
    snap_compare: Compare,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: tuple[int, int],
    theme: str,
) -> None:
    ada = Holder(4711, "ops1", "ada", datetime(2026, 11, 21, tzinfo=UTC))
    monkeypatch.setattr("ktui.tui.app.cancel_controller.this_process", lambda: ada)
    monkeypatch.setattr("ktui.execution.host.client.this_process", lambda: ada)
    scene = Scene(tmp_path, theme=theme)
    marked = ("end", "space", "up", "space", "home")
    called_off = scene.after(*marked, "c", "up", "right", "y", then_s=8 * POLL_S)
    assert snap_compare(scene.app, terminal_size=size, run_before=called_off)
