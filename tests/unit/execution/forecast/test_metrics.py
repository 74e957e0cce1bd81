"""Progress in words, metrics and recorded estimates."""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cli.watch.demo import SimulatedEngines
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Observer
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.estimate import NOT_KNOWN, CopiedBytes, Estimate
from ktui.execution.forecast.progress_text import (
    FIRST_BYTES,
    EngineTimes,
    RunEnding,
    end_lines,
    metrics_text,
    progress_line,
    run_ending,
)
from ktui.execution.forecast.run_details import estimate_as_seen
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.kept import RunRecording
from ktui.execution.host.ownership import this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    CancelGate,
    Ended,
    EngineLeft,
    JournalEntry,
    Paused,
    PauseOrigin,
    Planned,
    PlannedPart,
    StateEntered,
    StepGate,
    ThrottleChanged,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.recorder import Recorder
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.speed.answer import Basis, HowLong, Source, Span
from ktui.tui.run_view.attached import AttachedRun
from support.journals.journals import CLUSTER, a_start, ended, over, owned, started, step, written
from support.journals.journals import read as journals_read
from support.simulated.moving_clusters import a_cluster
from support.views.watching import a_new_run, moved

ENGINE = EngineTimes(up=True, since=FIRST_MOMENT, polled=FIRST_MOMENT + timedelta(seconds=1.5))
SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (-?[0-9.e+-]+)')


def a_run(name: str = "drain") -> Run:
    rates = parse_throttle_rates("50MB,3=20MB")
    stalled = StateEntered(topic="orders", partition=0, state=State.STALLED)
    throttled = ThrottleChanged(old=NO_THROTTLE, new=rates)
    events = enumerate([*a_start(), throttled, step(0), stalled], start=1)
    return Run(name).fold(JournalEntry(seq, FIRST_MOMENT, event) for seq, event in events)


def metrics_of(run: Run) -> str:
    return metrics_text(run_progress(run, this_process()), ENGINE)


def read(text: str) -> dict[str, float]:
    """Read the samples of one run, by name and the label that is not the run's."""
    samples: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith("# "):
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            own = re.sub(r'^run="(?:[^"\\]|\\.)*",cluster_id="[^"]*",?', "", sample[2])
            samples[f"{sample[1]}{own and '{'}{own}{own and '}'}"] = float(sample[3])
    return samples


def test_a_run_is_seen_with_its_states_bytes_time_left_and_throttle() -> None:
    left = HowLong(time_s=Span(40, 56, 80), basis=Basis())
    known = run_progress(a_run(), this_process())
    known = msgspec.structs.replace(
        known, bytes_done=300, bytes=1_000, bytes_s=12.5, time_left=left
    )

    samples = read(metrics_text(known, ENGINE))

    assert samples['ktui_run_partitions{state="stalled"}'] == 1
    assert samples["ktui_run_stalled_partitions"] == 1
    assert samples["ktui_run_steps_in_flight"] == 1
    assert samples["ktui_run_copied_bytes"] == 300
    assert samples["ktui_run_left_bytes"] == 700
    assert samples["ktui_run_copied_ratio"] == 0.3
    assert samples["ktui_run_copy_rate_bytes_per_second"] == 12.5
    assert samples["ktui_run_left_seconds"] == 56
    assert samples['ktui_run_throttle_bytes_per_second{broker="other"}'] == 50e6
    assert samples['ktui_run_throttle_bytes_per_second{broker="3"}'] == 20e6
    assert samples["ktui_engine_up"] == 1
    assert samples["ktui_engine_poll_timestamp_seconds"] == FIRST_MOMENT.timestamp() + 1.5


def test_what_is_not_known_is_left_out_and_not_shown_as_zero() -> None:
    samples = read(metrics_of(a_run()))

    assert "ktui_run_left_seconds" not in samples
    assert "ktui_run_copied_ratio" not in samples
    assert samples['ktui_run_partitions{state="failed"}'] == 0


def test_each_metric_is_described_once_before_its_values() -> None:
    text = metrics_of(a_run())
    names = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]

    assert text.encode().startswith(FIRST_BYTES)
    assert len(names) == len(set(names))
    assert names == list(dict.fromkeys(re.findall(r"^(ktui\w+)\{", text, re.MULTILINE)))


@given(st.text())
def test_any_name_is_escaped_so_that_it_can_be_read_back(name: str) -> None:
    text = metrics_of(a_run(name))
    line = next(each for each in text.split("\n") if each.startswith("ktui_engine_up"))
    sample = SAMPLE.fullmatch(line)
    assert sample is not None
    escaped = sample[2].removeprefix('run="').removesuffix(f'",cluster_id="{CLUSTER}"')

    unescaped = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], escaped)
    assert unescaped == name


AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
GIB = 1024**3


def progress_text_a_run(*events: AnyRunEvent, size: int = GIB) -> Run:
    parts = tuple(Planned("orders", n, "id", (1, 2, 4), (1, 2, 3), 1, size=size) for n in range(4))
    first: list[AnyRunEvent] = [started(4), PlannedPart(partitions=parts), owned()]
    entries = (
        JournalEntry(seq, AT + timedelta(seconds=seq), event)
        for seq, event in enumerate([*first, *events], start=1)
    )
    return Run("drain").fold(entries)


def now_in(partition: int, state: State, reason: str = "") -> StateEntered:
    return StateEntered(topic="orders", partition=partition, state=state, reason=reason)


def line(run: Run, copied: CopiedBytes = NOT_KNOWN) -> str:
    """The line of progress of a run with an engine."""
    return progress_line(run_progress(run, this_process(), copied=copied))


LEFT = CopiedBytes(left_s=Span(120.0, 130.0, 140.0))
ALL_DONE = tuple(now_in(n, State.DONE) for n in range(4))
ONE_FAILED = (*ALL_DONE[:3], now_in(3, State.FAILED, "refused 5 times: no"))


def test_the_progress_line_tells_what_moves_from_what_waits_for_a_broker_that_is_down() -> None:
    down = now_in(1, State.ADDING, "broker 4 is down")
    run = progress_text_a_run(step(0, 7), step(1, 7), down)

    assert line(run).startswith("drain: 0 of 4 done, 1 held up, 1 copying, 2 queued, batch 7")
    assert "left" not in line(run, LEFT)


def test_the_progress_line_shows_how_far_the_run_is() -> None:
    run = progress_text_a_run(now_in(0, State.DONE), step(1, 7), step(2, 7))

    assert line(run, LEFT) == (
        "drain: 1 of 4 done, 2 copying, 1 queued, batch 7, 1.0 GiB of 4.0 GiB copied, "
        "about 2.2 min left (2 to 2.3), as measured"
    )
    blocked = progress_text_a_run(step(1, 7), now_in(3, State.BLOCKED))
    assert line(blocked, LEFT) == (
        "drain: 0 of 4 done, 1 blocked, 1 copying, 2 queued, batch 7, 0 B of 4.0 GiB copied"
    )


def test_the_progress_line_counts_what_steps_in_flight_have_copied() -> None:
    copied = msgspec.structs.replace(LEFT, done=3 * 2**30)
    assert ", 3.0 GiB of 4.0 GiB copied, " in line(progress_text_a_run(step(1, 7)), copied)


def test_the_progress_line_marks_a_time_left_based_on_earlier_runs() -> None:
    reported = msgspec.structs.replace(LEFT, basis=Basis(Source.EARLIER_RUNS, 2))
    shown = line(progress_text_a_run(step(1, 7)), reported)
    assert shown.endswith(", about 2.2 min left (2 to 2.3), by 2 earlier runs")


def test_a_partition_given_up_does_not_count_as_done() -> None:
    run = progress_text_a_run(
        *ONE_FAILED[2:], now_in(0, State.CHANGED_ELSEWHERE), EngineLeft(reason="told to")
    )

    assert line(run).startswith("drain: 1 of 4 done, 1 failed, 1 left out, ")
    assert "1 of 4 partitions done" in end_lines(run)[0]


def test_the_progress_line_shows_why_the_run_is_held() -> None:
    gate = StepGate(shut=True, reason="2 partitions outside the run are offline")

    assert line(progress_text_a_run(gate)).endswith(
        "gate shut: 2 partitions outside the run are offline"
    )
    assert line(progress_text_a_run(gate, Paused(by=PauseOrigin.OPERATOR))).endswith(
        "paused: by the operator"
    )


def test_cancelled_partitions_are_counted_separately_and_never_as_done() -> None:
    some = tuple(TopicPartition("orders", n) for n in (1, 2))
    run = progress_text_a_run(
        now_in(0, State.DONE),
        CancelAsked(kind=CancelKind.STOP, partitions=some),
        step(3),
        CancelAsked(kind=CancelKind.ROLLBACK, partitions=(TopicPartition("orders", 3),)),
        over(3),
    )

    assert line(run).startswith(
        "drain: 1 of 4 done, 3 called off (1 rolling back, 2 not started), "
    )

    for event in (now_in(3, State.DONE), Ended(counts={})):
        run.apply(JournalEntry(run.seq + 1, AT, event))
    assert end_lines(run)[0].startswith(
        "run drain has ended: 2 stopped, 1 rolled back, 1 done, after"
    )
    assert run_ending(run) is RunEnding.SOME_NOT_DONE


def test_the_progress_line_names_who_shut_the_cancel_gate() -> None:
    run = progress_text_a_run(
        CancelGate(shut=True, reason="ada@ops1 (1) at 14:00, to stop all of run drain")
    )

    assert line(run, LEFT).endswith(
        "cancel gate shut by ada@ops1 (1) at 14:00, to stop all of run drain"
    )


def test_each_added_replica_counts_as_copied_when_its_step_completes() -> None:
    two = Planned("orders", 0, "id", (1, 4, 5), (1, 2, 3), 1, size=GIB)
    events: list[AnyRunEvent] = [started(1), PlannedPart(partitions=(two,)), owned()]
    run = Run("drain").fold(
        JournalEntry(seq, AT, event) for seq, event in enumerate(events, start=1)
    )
    assert (run.copies.done, run.copies.whole) == (0, 2 * GIB)

    run.apply(JournalEntry(4, AT, step(0)))
    assert run.copies.done == 0
    run.apply(JournalEntry(5, AT, over(0)))
    assert (run.copies.done, run.copies.whole) == (GIB, 2 * GIB)
    assert "1.0 GiB of 2.0 GiB copied" in line(run)

    run.apply(JournalEntry(6, AT, now_in(0, State.DONE)))
    assert (run.copies.done, run.copies.whole) == (2 * GIB, 2 * GIB)


def test_a_partition_changed_elsewhere_is_neither_copied_nor_left_to_copy() -> None:
    elsewhere = StateEntered(
        topic="orders",
        partition=1,
        state=State.CHANGED_ELSEWHERE,
        reason="someone else gave it brokers 1, 2, 4",
        replicas=(1, 2, 4),
    )
    run = progress_text_a_run(now_in(0, State.DONE), elsewhere)

    assert (run.copies.done, run.copies.whole) == (GIB, 3 * GIB)
    assert run.tracks[elsewhere.tp].replicas == (1, 2, 4)


def test_the_progress_line_names_what_interrupted_the_run() -> None:
    reported = line(progress_text_a_run(Paused(by=PauseOrigin.SIGNAL)))

    assert reported.endswith("paused: by an interrupt (Ctrl-C)")


@pytest.mark.parametrize(
    ("events", "how"),
    [
        ((*ALL_DONE, Ended(counts={State.DONE: 4})), RunEnding.ALL_DONE),
        ((*ONE_FAILED, Ended(counts={State.DONE: 3, State.FAILED: 1})), RunEnding.SOME_NOT_DONE),
        ((Paused(by=PauseOrigin.SIGNAL), EngineLeft(reason="paused by a signal")), RunEnding.LEFT),
        ((EngineLeft(reason="its process got SIGTERM"),), RunEnding.LEFT),
        ((Paused(by=PauseOrigin.UNTIL), EngineLeft(reason="too late")), RunEnding.SOME_NOT_DONE),
        (
            (Paused(by=PauseOrigin.FAILURE), EngineLeft(reason="orders-1 has failed")),
            RunEnding.FAILED,
        ),
        (
            (Paused(by=PauseOrigin.FAILURE), Paused(by=PauseOrigin.SIGNAL), EngineLeft(reason="")),
            RunEnding.LEFT,
        ),
        ((step(0),), RunEnding.FAILED),
    ],
)
def test_the_ending_of_a_run_follows_from_its_events(
    events: tuple[AnyRunEvent, ...], how: RunEnding
) -> None:
    assert run_ending(progress_text_a_run(*events)) is how


def test_the_end_lines_name_partitions_that_are_not_done_and_why() -> None:
    run = progress_text_a_run(*ONE_FAILED, Ended(counts={State.DONE: 3, State.FAILED: 1}))

    assert end_lines(run) == [
        "run drain has ended: 3 done, 1 failed, after 7 s",
        "  orders-3: failed: refused 5 times: no",
    ]


def test_the_end_lines_count_all_partitions_or_just_one(tmp_path: Path) -> None:
    many = progress_text_a_run(*ALL_DONE, Ended(counts={State.DONE: 4}))
    one = written(tmp_path / "one.db", [*a_start(1), ALL_DONE[0], ended(1)])

    assert end_lines(many) == ["run drain has ended: all 4 partitions done, after 7 s"]
    assert end_lines(Run("one").fold(one.entries())) == [
        "run one has ended: 1 partition done, after 0 s"
    ]


def test_the_end_lines_of_a_left_run_name_the_steps_that_go_on_in_kafka() -> None:
    run = progress_text_a_run(
        now_in(0, State.DONE), step(1), step(2), EngineLeft(reason="its process got SIGTERM")
    )

    (reported,) = end_lines(run)
    assert "left (its process got SIGTERM): 1 of 4 partitions done" in reported
    assert "2 steps in flight go on in Kafka" in reported


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
    return journals_read(path)[0]


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
