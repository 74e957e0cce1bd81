"""`ktui record`: a cluster's moves are recorded in files until a stop condition is met."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cli.record import RecordedJson, RecordingEnd, RecordLoop, StopCondition
from ktui.cli.record_prune import ClusterRecording
from ktui.cluster.broker import BrokerConfig
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ports import ConfigOp, Verdict
from ktui.cluster.settings import FOLLOWER_RATE, broker_resource
from ktui.execution.host.kept import LiveRunsRecording
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.execution.host.told_rates import ToldRates
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Configure,
    Configured,
    EngineLeft,
    JournalEntry,
    SettingChanged,
)
from ktui.recording.reading import GoodLine, find_sessions, read_lines
from ktui.recording.recorder import Recorder
from ktui.recording.segments import AnyLine, End, LostPollLine, PollLine, RunLine
from ktui.recording.stored import Retention
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import ScheduledEvent
from support.cli.call_ktui import NamedCluster
from support.cli.shell import owned_run
from support.journals.journals import planned, read, started
from support.recordings.recordings import Recording, files_in, read_into_lake, seen_in
from support.simulated.moving_clusters import a_cluster, throttle
from support.simulated.observations import an_observation

COPY_S = 5  # seconds that the move takes


class RecordedCluster:
    """A cluster recorded in virtual time, with the reports and the notices of its recording."""

    def __init__(self, folder: Path, cluster: SimulatedCluster) -> None:
        assert isinstance(cluster.clock, VirtualClock)
        cluster.clock._leaping = True
        self.cluster, self.state = cluster, StateDir(folder / "state")
        self.folder = folder / "recordings"
        self.recorder = Recorder(self.folder, cluster.clock, program="ktui of a test")
        self.reports: list[RecordedJson] = []
        self.said: list[str] = []
        self.stop = asyncio.Event()
        self.limits: Retention | None = None

    async def record(self, **until: Any) -> RecordingEnd:
        clock = self.cluster.clock
        observer = Observer(self.cluster.reader(), clock)
        source = ClusterRecording(observer, self.recorder, self.state, self.limits)
        loop = RecordLoop(
            source,
            clock,
            Interest(),
            1.0,
            StopCondition(**until),
            report=self.tell,
            notify=self.said.append,
        )
        try:
            return await loop.run(self.stop)
        finally:
            await source.aclose()
            await observer.aclose()

    def tell(self, recorded: RecordedJson) -> None:
        self.reports.append(recorded)

    @property
    def lines(self) -> list[AnyLine]:
        files = [file for session in find_sessions(self.folder) for file in session.files]
        return [
            each.line for file in files for each in read_lines(file) if isinstance(each, GoodLine)
        ]


@pytest.fixture
def recorded_cluster(tmp_path: Path) -> RecordedCluster:
    return RecordedCluster(tmp_path, a_cluster(moving=["orders-0"], messages=COPY_S * 1_000))


async def test_an_idle_recording_ends_some_seconds_after_the_last_move(
    recorded_cluster: RecordedCluster,
) -> None:
    end = await recorded_cluster.record(idle=True)

    assert end is RecordingEnd.AS_ASKED
    looks = [line for line in recorded_cluster.lines if isinstance(line, PollLine)]
    assert len(looks) == len(recorded_cluster.reports) == recorded_cluster.reports[-1].looks
    assert (recorded_cluster.reports[0].moving, recorded_cluster.reports[-1].moving) == (1, 0)
    moving_s = sum(1 for expected in recorded_cluster.reports if expected.moving)
    assert COPY_S <= moving_s < len(recorded_cluster.reports) - 9
    assert isinstance(recorded_cluster.lines[-1], End)
    assert recorded_cluster.reports[-1].path == str(recorded_cluster.recorder.path)


async def test_a_timed_recording_ends_after_its_time(recorded_cluster: RecordedCluster) -> None:
    assert await recorded_cluster.record(seconds=3.0) is RecordingEnd.AS_ASKED
    assert len(recorded_cluster.reports) == 4


async def test_an_interrupted_recording_ends_at_once_with_an_end_line(
    recorded_cluster: RecordedCluster,
) -> None:
    def interrupt(recorded: RecordedJson) -> None:
        recorded_cluster.reports.append(recorded)
        if recorded.looks == 2:
            recorded_cluster.stop.set()

    recorded_cluster.tell = interrupt  # type: ignore[method-assign]  # a test's own

    assert await recorded_cluster.record() is RecordingEnd.INTERRUPTED
    assert recorded_cluster.reports[-1].looks == 2
    assert isinstance(recorded_cluster.lines[-1], End)


async def test_a_cluster_that_is_unreachable_at_first_is_an_error_and_leaves_no_recording(
    recorded_cluster: RecordedCluster,
) -> None:
    for machine in recorded_cluster.cluster.machines:
        recorded_cluster.cluster.do(layout.Kill(machine))

    with pytest.raises(ClusterError):
        await recorded_cluster.record(idle=True)
    assert not recorded_cluster.folder.exists()


async def test_a_recording_waits_for_a_lost_cluster_and_records_the_lost_polls(
    recorded_cluster: RecordedCluster,
) -> None:
    def break_and_mend(recorded: RecordedJson) -> None:
        recorded_cluster.reports.append(recorded)
        if recorded.looks == 2 and not recorded.lost:
            for machine in recorded_cluster.cluster.machines:
                recorded_cluster.cluster.do(layout.Kill(machine))
        elif recorded.lost == 3:
            for machine in recorded_cluster.cluster.machines:
                recorded_cluster.cluster.do(layout.Start(machine))

    recorded_cluster.tell = break_and_mend  # type: ignore[method-assign]  # a test's own

    assert await recorded_cluster.record(idle=True) is RecordingEnd.AS_ASKED
    assert [notice.split(":")[0] for notice in recorded_cluster.said] == [
        f"recording into {recorded_cluster.recorder.path}{StopCondition(idle=True).words}",
        "the cluster is lost",
        "the cluster answers again",
    ]
    lost = [line for line in recorded_cluster.lines if isinstance(line, LostPollLine)]
    assert len(lost) == recorded_cluster.reports[-1].lost >= 3


async def test_a_recording_stops_with_the_reason_when_the_disk_is_full(
    recorded_cluster: RecordedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.recording.recorder.LEAST_FREE_BYTES", 2**62)

    assert await recorded_cluster.record(idle=True) is RecordingEnd.STOPPED
    problem = recorded_cluster.reports[-1].problem
    assert problem is not None
    assert "are free on its disk" in problem


async def test_a_recording_includes_the_events_of_a_run_on_the_cluster(tmp_path: Path) -> None:
    recorded_cluster = RecordedCluster(tmp_path, a_cluster(resting=["orders-0"]))

    with owned_run(recorded_cluster.state, "drain") as run:
        assert await recorded_cluster.record(seconds=2.0) is RecordingEnd.AS_ASKED
        written = run.journal
        found = [line for line in recorded_cluster.lines if isinstance(line, RunLine)]

    assert written.exists()
    assert [line.entry for line in found] == list(range(1, len(found) + 1))
    assert {line.run for line in found} == {"drain"}
    (run_id,) = {line.run_id for line in found}
    assert run_id.startswith("drain@20")
    assert b'"event":"started"' in bytes(found[0].event)


async def test_what_a_run_did_after_the_last_poll_is_recorded_at_the_end(tmp_path: Path) -> None:
    recorded_cluster = RecordedCluster(tmp_path, a_cluster(resting=["orders-0"]))
    observer = Observer(recorded_cluster.cluster.reader(), recorded_cluster.cluster.clock)
    source = ClusterRecording(observer, recorded_cluster.recorder, recorded_cluster.state)

    with owned_run(recorded_cluster.state, "drain") as run:
        await source.poll(Interest())
    await source.aclose()
    await observer.aclose()

    journaled, _ = read(run.journal)
    found = [line.entry for line in recorded_cluster.lines if isinstance(line, RunLine)]
    assert isinstance(journaled[-1].event, EngineLeft)
    assert found == [entry.seq for entry in journaled]


async def test_the_events_of_a_run_are_in_no_session_of_another_cluster(tmp_path: Path) -> None:
    recorded_cluster = RecordedCluster(tmp_path, a_cluster(resting=["orders-0"]))
    observer = Observer(recorded_cluster.cluster.reader(), recorded_cluster.cluster.clock)
    first = await observer.poll(Interest())
    runs = LiveRunsRecording(recorded_cluster.recorder, recorded_cluster.state)

    with owned_run(recorded_cluster.state, "drain"):
        runs.record(replace(first, cluster_id="another"))
        runs.record(first)
    runs.close()
    recorded_cluster.recorder.close()
    await observer.aclose()

    events = {
        session.head.cluster_id: [
            each.line.entry
            for each in read_lines(session.files[0])
            if isinstance(each, GoodLine) and isinstance(each.line, RunLine)
        ]
        for session in find_sessions(recorded_cluster.folder)
    }
    assert events.pop("another") == []
    (own,) = events.values()
    assert own == list(range(1, len(own) + 1)) != []


async def test_each_session_of_a_recording_has_the_whole_story_of_a_run(tmp_path: Path) -> None:
    recorded_cluster = RecordedCluster(tmp_path, a_cluster(resting=["orders-0"]))
    recorded_cluster.recorder = Recorder(
        recorded_cluster.folder,
        recorded_cluster.cluster.clock,
        program="ktui of a test",
        longest_session_s=1.0,
    )

    with owned_run(recorded_cluster.state, "drain"):
        await recorded_cluster.record(seconds=2.0)

    sessions = find_sessions(recorded_cluster.folder)
    assert len(sessions) == 3
    for session in sessions:
        lines = [each.line for each in read_lines(session.files[0]) if isinstance(each, GoodLine)]
        entries = [line.entry for line in lines if isinstance(line, RunLine)]
        assert entries == list(range(1, len(entries) + 1)) != []


async def test_a_throttle_that_a_run_had_for_seconds_is_recorded_while_it_was_there(
    tmp_path: Path,
) -> None:
    """Settings are read every 30 s, and again two polls after a run's event: too late for these."""
    cluster = a_cluster(moving=["orders-0"], messages=60_000)
    recorded_cluster = RecordedCluster(tmp_path, cluster)
    change = throttle("follower", 4, 4_000_000)
    (at_rate,) = change.changes
    no_rate = replace(at_rate, op=ConfigOp.DELETE, value=None)
    cluster.schedule(ScheduledEvent(5.0, change))
    cluster.schedule(ScheduledEvent(12.0, layout.AlterConfigs((no_rate,))))
    run = recorded_cluster.state.create_run("drain")
    journal = Journal.create(run.journal, cluster.clock)
    journal.append([started(1, cluster.spec.name), planned(1)])
    configured = Configured(resource=at_rate.resource, verdict=Verdict.ACCEPTED)

    def tell(recorded: RecordedJson) -> None:
        # after the polls of the seconds 5 and 12
        if written := {6: at_rate, 13: no_rate}.get(recorded.looks):
            journal.append([Configure(changes=(written,)), configured])

    recorded_cluster.tell = tell  # type: ignore[method-assign]  # a test's own
    with own_run(run), journal:
        await recorded_cluster.record(seconds=20.0)

    assert [
        round(seen.monotonic_s)
        for seen in seen_in(recorded_cluster.folder)
        if seen.broker_configs[4].follower_throttle_rate is not None
    ] == list(range(6, 13))


async def test_what_others_set_and_what_came_of_a_lost_answer_is_recorded_as_read(
    tmp_path: Path,
) -> None:
    cluster = a_cluster(moving=["orders-0"], messages=200_000)
    recorded_cluster = RecordedCluster(tmp_path, cluster)
    theirs, (ours,) = throttle("follower", 4, 7_000_000), throttle("follower", 4, 4_000_000).changes
    cluster.schedule(ScheduledEvent(40.0, theirs))
    run = recorded_cluster.state.create_run("drain")
    journal = Journal.create(run.journal, cluster.clock)
    journal.append([started(1, cluster.spec.name), planned(1)])
    lost = Configured(resource=ours.resource, verdict=Verdict.UNKNOWN)

    def tell(recorded: RecordedJson) -> None:
        if recorded.looks == 6:
            journal.append([Configure(changes=(ours,)), lost])

    recorded_cluster.tell = tell  # type: ignore[method-assign]  # a test's own
    with own_run(run), journal:
        await recorded_cluster.record(seconds=80.0)

    rates = [
        seen.broker_configs[4].follower_throttle_rate for seen in seen_in(recorded_cluster.folder)
    ]
    assert [rate for n, rate in enumerate(rates) if n == 0 or rate != rates[n - 1]] == [
        None,
        7_000_000,
    ]


@pytest.mark.parametrize(
    ("found", "recorded"),
    [("5", 5), (None, None), (str(2**63 - 1), None), ("abc", 9), ("9" * 5000, 9)],
)
def test_a_rate_found_changed_is_recorded_unless_it_is_no_rate(
    found: str | None, recorded: int | None
) -> None:
    seen = an_observation([], 1.0, broker_configs={4: BrokerConfig(follower_throttle_rate=9)})
    change = SettingChanged(resource=broker_resource(4), key=FOLLOWER_RATE, found=found)
    rates = ToldRates()

    rates.take("drain", [JournalEntry(1, seen.at, change)])

    assert rates.on(seen).broker_configs[4].follower_throttle_rate == recorded


@pytest.mark.parametrize(
    ("config", "limits"),
    [("{older_than: 30d}", None), ("{keep: 1TB}", Retention(older_than_s=30 * 86_400.0))],
)
async def test_a_long_recording_prunes_old_ones_with_each_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str, limits: Retention | None
) -> None:
    (tmp_path / "config.yaml").write_text(f"recordings: {config}")
    monkeypatch.setenv("KTUI_CONFIG_DIR", str(tmp_path))
    recorded_cluster = RecordedCluster(tmp_path, a_cluster())
    state, clock = recorded_cluster.state, recorded_cluster.cluster.clock
    recorded_cluster.recorder = Recorder(
        recorded_cluster.folder, clock, program="ktui of a test", longest_session_s=1.0
    )
    old = Recording(state.recordings)
    old.looks(1)
    old.recorder.close()
    for file in files_in(state.recordings):
        os.utime(file, (0, 0))
    read_into_lake(files_in(state.recordings), state.path / "lake")
    recorded_cluster.limits = limits

    await recorded_cluster.record(seconds=1.0)

    assert files_in(state.recordings) == []


def test_a_recording_warns_of_an_unreadable_journal_and_records_the_cluster(
    recorded_cluster: RecordedCluster,
) -> None:
    run = recorded_cluster.state.create_run("drain")
    run.journal.write_text("no journal")
    with own_run(run):
        end = asyncio.run(recorded_cluster.record(seconds=2.0))

    assert end is RecordingEnd.AS_ASKED
    (notice, _) = recorded_cluster.said
    assert notice.startswith(f"warning: {run.journal}")
    assert recorded_cluster.reports[-1].looks == 3


def record(*words: str) -> Result:
    return CliRunner().invoke(ktui, ["record", *words])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--for", "soon"], "--for: expected a time such as 90s"),
        (["--for", "0"], "--for: give a time above 0"),
        (["--from", "."], "--from makes a copy without names, and needs --redact"),
        (["--from", ".", "--redact"], "--from needs a folder for the copy. Name one with --to DIR"),
        (["--from", ".", "--redact", "--topic", "a"], "leave out cluster"),
    ],
)
def test_contradictory_record_options_are_refused_with_the_fix(
    words: list[str], expected: str
) -> None:
    error = record(*words).exception

    assert isinstance(error, BadInput)
    assert expected in str(error)


def test_watch_refuses_a_folder_without_a_recording() -> None:
    error = CliRunner().invoke(ktui, ["watch", "--to", "here"]).exception

    assert isinstance(error, BadInput)
    assert "--to needs a recording. Give --record, too" in str(error)


def test_the_progress_line_has_polls_lost_polls_moves_and_bytes() -> None:
    expected = RecordedJson(
        at="", path=None, looks=1_200, lost=3, moving=1, written_bytes=4_500_000, problem=None
    )

    assert expected.line == "1,200 polls, 3 lost, 1 partition moving, 4.3 MiB"


@pytest.fixture
def cluster_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The options that name a cluster that answers at once, and a state directory."""
    cluster = a_cluster(moving=["orders-0"])
    named = NamedCluster(reader=cluster.reader)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    return ["--context", "prod-eu", "--state-dir", str(tmp_path / "state"), "--for", "1"]


def test_ktui_record_prints_where_it_records_and_what_it_has_recorded(
    cluster_options: list[str], tmp_path: Path
) -> None:
    done = record(*cluster_options, "--poll-interval", "0.2")

    assert done.exit_code == 0, done.output
    (session,) = find_sessions(tmp_path / "state" / "recordings")
    folder = session.files[0].parent
    assert f"recording into {folder} for 1 s. Press Ctrl-C to stop sooner" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("recorded ")
    assert done.stderr.splitlines()[-1].endswith(f": {folder}")
    assert session.head.cluster == "prod-eu"


def test_ktui_record_writes_a_redacted_recording_to_a_folder_and_json_per_poll(
    cluster_options: list[str], tmp_path: Path
) -> None:
    done = record(*cluster_options, "--redact", "--to", str(tmp_path / "given"), "--json")

    assert done.exit_code == 0, done.output
    (session,) = find_sessions(tmp_path / "given")
    assert session.head.redacted
    assert session.head.cluster.startswith("cluster-")
    expected = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["schema_version"], each["looks"], each["moving"]) for each in expected] == [
        (1, n, 1) for n in range(1, len(expected) + 1)
    ]
    assert expected[-1]["path"] == str(session.files[0].parent)


@pytest.mark.parametrize(
    ("until", "expected"),
    [
        (StopCondition(), ". Press Ctrl-C to stop"),
        (StopCondition(seconds=90.0), " for 1m 30s. Press Ctrl-C to stop sooner"),
        (
            StopCondition(seconds=3_600.0, idle=True),
            " for 1h or until nothing has moved for 10 s. Press Ctrl-C to stop sooner",
        ),
    ],
)
def test_a_recording_states_its_stop_condition(until: StopCondition, expected: str) -> None:
    assert until.words == expected


def test_ktui_record_fails_if_it_had_to_stop(
    cluster_options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.recording.recorder.LEAST_FREE_BYTES", 2**62)

    done = record(*cluster_options)

    assert done.exit_code == 1
    last = done.stderr.splitlines()[-1]
    assert "; recording has stopped: less than" in last
    assert last.count("recordings/") == 1
