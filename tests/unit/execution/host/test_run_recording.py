"""A run notes whether it is recorded, and does not depend on it."""

from __future__ import annotations

from pathlib import Path

from ktui.cluster.observer import Observer
from ktui.cluster.ports import ClusterPorts
from ktui.execution.engine.engine import Engine
from ktui.execution.host.kept import RunRecording
from ktui.execution.run.events import AnyRunEvent, Recording
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import RecordingSource
from support.runs.engine_runs import OWNER, PlannedRun
from support.simulated.moving_clusters import a_cluster, tp


async def recorded(run: PlannedRun, recorder: Recorder) -> list[Recording]:
    """Record a run to its end and return what it has noted about the recording."""
    await run.start()
    with run.opened() as journal:
        run.run = Run("run").fold(journal.entries())
        observer, ways = Observer(run.reader, run.clock), ClusterPorts(run.reader, run.writer)
        source = RecordingSource(observer, recorder)
        state = RunRecording(recorder, "run").state
        run.engine = Engine(run.run, journal, source, ways, run.clock, recording=state)
        await run.engine.execute(OWNER)
        await observer.aclose()
    recorder.close()
    return [event for event in run.events if isinstance(event, Recording)]


def a_run(folder: Path) -> PlannedRun:
    cluster = a_cluster(resting=["orders-0", "orders-1"], messages=3_000)
    cluster.clock._leaping = True  # type: ignore[attr-defined]  # it is a virtual one
    targets = {tp(name): (4, 2, 3) for name in ("orders-0", "orders-1")}
    return PlannedRun(cluster, folder, targets, Limits(replicas=1, partitions=1))


async def test_a_recorded_run_notes_that_once(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    recorder = Recorder(tmp_path / "recording", run.clock, program="ktui of a test")

    assert await recorded(run, recorder) == [Recording(on=True)]
    assert run.run.recording == Recording(on=True)
    assert recorder.path is not None


async def test_a_full_disk_stops_the_recording_but_not_the_run(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    recorder = Recorder(tmp_path / "recording", run.clock, program="ktui of a test")
    look, polls = recorder.poll, []

    def fill_the_disk(observation: object) -> None:
        polls.append(observation)
        if len(polls) == 3:
            recorder._stop("no space left on device")
        look(observation)  # type: ignore[arg-type]  # it is handed on

    recorder.poll = fill_the_disk  # type: ignore[method-assign]  # a disk of the test's own

    noted = await recorded(run, recorder)

    assert run.run.ended
    assert [event.on for event in noted] == [True, False]
    assert noted[-1].reason.endswith("recording has stopped: no space left on device")


async def test_an_unrecorded_run_notes_nothing_about_recording(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    await run.to_its_end()

    events: list[AnyRunEvent] = run.events
    assert not [event for event in events if isinstance(event, Recording)]
