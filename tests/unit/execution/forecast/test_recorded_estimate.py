"""`ktui status` and every view show the same of a run, whenever they begin to look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.watch.demo import SimulatedEngines
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Observer
from ktui.execution.forecast.estimate import CopiedBytes, Estimate
from ktui.execution.forecast.run_details import estimate_as_seen
from ktui.execution.host.kept import RunRecording
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.pacing.limits import Limits
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.run_view.attached import AttachedRun
from support.journals.journals import a_start, read, written
from support.simulated.moving_clusters import a_cluster
from support.views.running import a_new_run, moved

NAMES = tuple(f"orders-{number}" for number in range(8))


class RecordedRun:
    """A run on a simulated cluster whose engine records, and the views that are attached to it."""

    def __init__(self, cluster: SimulatedCluster, folder: RunDir) -> None:
        assert isinstance(cluster.clock, VirtualClock)
        self.clock = cluster.clock
        self.folder = folder
        self.observer = Observer(cluster.reader(), self.clock)
        self.follower = RunFollower(folder.journal, self.clock)
        self.journal: list[JournalEntry] = []
        self._recorder = Recorder(folder.recording, self.clock, program="a test")
        self._events = RunRecording(self._recorder, folder.name)
        self._views: list[tuple[AttachedRun, Progress]] = []

    def attach(self) -> AttachedRun:
        """Attach a view as the app does: the recording is read beside its first polls."""
        view = AttachedRun(self.folder, self.clock)
        view.refresh()
        view.expect_estimate()
        view.use_estimate(view.recorded_estimate())
        self._views.append((view, Progress()))
        return view

    async def poll(self, times: int) -> None:
        for _ in range(times):
            new = self.follower.refresh()
            self.journal += new
            self._events.take(new)
            polling = asyncio.create_task(self.observer.poll())
            await self.clock.advance(1.0)
            seen = await polling
            self._recorder.poll(seen)
            self._views = [(view, _next(view, progress, seen)) for view, progress in self._views]

    @property
    def shown_by_status(self) -> CopiedBytes:
        return estimate_as_seen(self.folder, self.journal, lambda _: None, self.clock).copied

    async def aclose(self) -> None:
        for view, _ in self._views:
            view.close()
        self.follower.close()
        self._recorder.close()
        await self.observer.aclose()


def _next(view: AttachedRun, progress: Progress, seen: Observation) -> Progress:
    view.refresh()
    progress = fold(with_requested_replicas(progress, view.run), seen)
    view.note_poll(progress)
    _ = view.status  # the app draws it after every poll
    return progress


def middle(copied: CopiedBytes) -> float:
    assert copied.left_s is not None
    return copied.left_s.middle


@pytest.fixture
def threads_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let work for threads be done at once: while one ran, a virtual clock would run away."""

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr("asyncio.to_thread", at_once)


@pytest.mark.usefixtures("threads_take_no_time")
async def test_status_and_early_and_late_views_show_the_same_bytes_and_time_left(
    tmp_path: Path,
) -> None:
    cluster = a_cluster(resting=NAMES, messages=20_000, inbound_s=20, copied_s=2_000)
    engines = SimulatedEngines(cluster, StateDir(tmp_path))
    limits = Limits(replicas=1, partitions=2)
    starting = asyncio.create_task(engines.start(a_new_run(moved(*NAMES), limits)))
    assert isinstance(cluster.clock, VirtualClock)
    while not starting.done():  # it reads files in a thread, while the cluster's time goes on
        await cluster.clock.advance(0.001)
    run = RecordedRun(cluster, starting.result())
    early = run.attach()
    await run.poll(70)
    late = run.attach()
    await run.poll(3)

    status = run.shown_by_status
    alone = Estimate(run.follower.run)
    alone.take(run.journal)
    alone.update(run.clock.now())
    for shown in (early.status, late.status):
        assert shown.bytes_done == pytest.approx(status.done, rel=0.03)
        assert shown.time_left is not None
        assert shown.time_left.time_s.middle == pytest.approx(middle(status), rel=0.1)
    assert middle(alone.copied) != pytest.approx(middle(status), rel=0.2)  # the journal says less
    await run.aclose()
    await engines.aclose()


def a_journal(folder: Path) -> list[JournalEntry]:
    path = folder / "journal"
    written(path, a_start(4)).close()
    return read(path)[0]


def test_the_journal_alone_counts_where_nothing_is_recorded(tmp_path: Path) -> None:
    run, clock = RunDir(tmp_path / "drain"), VirtualClock()
    copied = estimate_as_seen(run, a_journal(tmp_path), lambda _: None, clock).copied
    assert copied.done == 0
    assert copied.left_s is None


def test_an_unreadable_recording_leaves_the_journal(tmp_path: Path) -> None:
    run = RunDir(tmp_path / "drain")
    run.recording.mkdir(parents=True)
    (run.recording / "segment.jsonl.gz").write_bytes(b"no recording\n")
    journal, clock = a_journal(tmp_path), VirtualClock()
    copied = estimate_as_seen(run, journal, lambda _: None, clock).copied
    assert copied.left_s is None
