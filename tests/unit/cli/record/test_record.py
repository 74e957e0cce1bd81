"""`ktui record`: what moves on a cluster ends in files, until it is enough."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cli.record.loop import RecordedJson, RecordingEnd, RecordLoop, StopCondition
from ktui.cli.record.sources import ClusterRecording
from ktui.cluster.errors import ClusterError
from ktui.cluster.observer import Interest, Observer
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import StateDir
from ktui.recording.lines import AnyLine, End, LostPollLine, PollLine, RunLine
from ktui.recording.reading import GoodLine, find_sessions, read_lines
from ktui.recording.recorder import Recorder
from ktui.simulated import events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.named_cluster import NamedCluster
from support.cli.owned_run import owned_run
from support.simulated.moving_clusters import a_cluster

COPY_S = 5
"""Seconds that the move takes."""


class Table:
    """A cluster that is recorded, in time that leaps, and what is told of it."""

    def __init__(self, folder: Path, cluster: SimulatedCluster) -> None:
        assert isinstance(cluster.clock, VirtualClock)
        cluster.clock._leaping = True
        self.cluster, self.state = cluster, StateDir(folder / "state")
        self.folder = folder / "recordings"
        self.recorder = Recorder(self.folder, cluster.clock, program="ktui of a test")
        self.told: list[RecordedJson] = []
        self.said: list[str] = []
        self.stop = asyncio.Event()

    async def record(self, **until: Any) -> RecordingEnd:
        clock = self.cluster.clock
        observer = Observer(self.cluster.reader(), clock)
        source = ClusterRecording(observer, self.recorder, self.state)
        loop = RecordLoop(
            source,
            clock,
            Interest(),
            1.0,
            StopCondition(**until),
            tell=self.tell,
            say=self.said.append,
        )
        try:
            return await loop.run(self.stop)
        finally:
            await source.aclose()
            await observer.aclose()

    def tell(self, recorded: RecordedJson) -> None:
        self.told.append(recorded)

    @property
    def lines(self) -> list[AnyLine]:
        files = [file for session in find_sessions(self.folder) for file in session.files]
        return [
            each.line for file in files for each in read_lines(file) if isinstance(each, GoodLine)
        ]


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path, a_cluster(moving=["orders-0"], messages=COPY_S * 1_000))


async def test_it_ends_some_seconds_after_the_last_move_and_has_all_of_it(table: Table) -> None:
    over = await table.record(idle=True)

    assert over is RecordingEnd.AS_ASKED
    looks = [line for line in table.lines if isinstance(line, PollLine)]
    assert len(looks) == len(table.told) == table.told[-1].looks
    assert (table.told[0].moving, table.told[-1].moving) == (1, 0)
    moving_s = sum(1 for told in table.told if told.moving)
    assert COPY_S <= moving_s < len(table.told) - 9
    assert isinstance(table.lines[-1], End)
    assert table.told[-1].path == str(table.recorder.path)


async def test_it_ends_after_as_long_as_it_was_asked_for(table: Table) -> None:
    assert await table.record(seconds=3.0) is RecordingEnd.AS_ASKED
    assert len(table.told) == 4


async def test_interrupted_it_ends_at_once_and_in_good_order(table: Table) -> None:
    def interrupt(recorded: RecordedJson) -> None:
        table.told.append(recorded)
        if recorded.looks == 2:
            table.stop.set()

    table.tell = interrupt  # type: ignore[method-assign]  # a test's own

    assert await table.record() is RecordingEnd.INTERRUPTED
    assert table.told[-1].looks == 2
    assert isinstance(table.lines[-1], End)


async def test_a_cluster_that_does_not_answer_at_first_is_an_error_and_no_recording(
    table: Table,
) -> None:
    for machine in table.cluster.machines:
        table.cluster.do(events.Kill(machine))

    with pytest.raises(ClusterError):
        await table.record(idle=True)
    assert not table.folder.exists()


async def test_a_cluster_that_is_lost_for_a_while_is_waited_for_and_the_loss_recorded(
    table: Table,
) -> None:
    def break_it(recorded: RecordedJson) -> None:
        table.told.append(recorded)
        if recorded.looks == 2 and not recorded.lost:
            for machine in table.cluster.machines:
                table.cluster.do(events.Kill(machine))
        elif recorded.lost == 3:
            for machine in table.cluster.machines:
                table.cluster.do(events.Start(machine))

    table.tell = break_it  # type: ignore[method-assign]  # a test's own

    assert await table.record(idle=True) is RecordingEnd.AS_ASKED
    assert [said.split(":")[0] for said in table.said] == [
        f"recording into {table.recorder.path}{StopCondition(idle=True).words}",
        "the cluster is lost",
        "the cluster answers again",
    ]
    lost = [line for line in table.lines if isinstance(line, LostPollLine)]
    assert len(lost) == table.told[-1].lost >= 3


async def test_it_ends_where_the_disk_is_full_and_says_so(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ktui.recording.recorder.LEAST_FREE_BYTES", 2**62)

    assert await table.record(idle=True) is RecordingEnd.STOPPED
    problem = table.told[-1].problem
    assert problem is not None
    assert "are free on its disk" in problem


async def test_what_happens_in_a_run_on_the_cluster_is_among_it(tmp_path: Path) -> None:
    table = Table(tmp_path, a_cluster(resting=["orders-0"]))

    with owned_run(table.state, "drain") as run:
        assert await table.record(seconds=2.0) is RecordingEnd.AS_ASKED
        written = run.journal
        found = [line for line in table.lines if isinstance(line, RunLine)]

    assert written.exists()
    assert [line.entry for line in found] == list(range(1, len(found) + 1))
    assert {line.run for line in found} == {"drain"}
    (run_id,) = {line.run_id for line in found}
    assert run_id.startswith("drain@20")
    assert b'"event":"started"' in bytes(found[0].event)


def test_a_journal_that_cannot_be_read_is_told_and_the_cluster_recorded_all_the_same(
    table: Table,
) -> None:
    run = table.state.create_run("drain")
    run.journal.write_text("no journal")
    with own_run(run):
        over = asyncio.run(table.record(seconds=2.0))

    assert over is RecordingEnd.AS_ASKED
    (said, _) = table.said
    assert said.startswith(f"warning: {run.journal}")
    assert table.told[-1].looks == 3


def record(*words: str) -> Result:
    return CliRunner().invoke(ktui, ["record", *words])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--for", "soon"], "--for: expected a time such as 90s"),
        (["--for", "0"], "--for: give a time above 0"),
        (["--from", "."], "--from makes a copy without names, and needs --redact"),
        (["--from", ".", "--redact"], "--from needs a folder for the copy. Name one with --to DIR"),
        (["--from", ".", "--redact", "--topic", "a"], "it takes no cluster"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_fix(words: list[str], told: str) -> None:
    error = record(*words).exception

    assert isinstance(error, BadInput)
    assert told in str(error)


def test_a_view_that_does_not_record_takes_no_place_for_it() -> None:
    error = CliRunner().invoke(ktui, ["watch", "--to", "here"]).exception

    assert isinstance(error, BadInput)
    assert "--to needs a recording. Give --record, too" in str(error)


def test_the_line_of_progress_tells_looks_losses_and_bytes() -> None:
    told = RecordedJson(
        at="", path=None, looks=1_200, lost=3, moving=1, written_bytes=4_500_000, problem=None
    )

    assert told.line == "1,200 polls, 3 lost, 1 partition moving, 4.3 MiB"


@pytest.fixture
def at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what names a cluster that answers at once, and a state directory."""
    cluster = a_cluster(moving=["orders-0"])
    named = NamedCluster(reader=cluster.reader)
    monkeypatch.setattr("ktui.cli.record.command.choose_cluster", lambda *_: named)
    return ["--context", "prod-eu", "--state-dir", str(tmp_path / "state"), "--for", "1"]


def test_it_ends_well_and_says_what_it_has_and_where(at_hand: list[str], tmp_path: Path) -> None:
    done = record(*at_hand, "--poll-interval", "0.2")

    assert done.exit_code == 0, done.output
    (session,) = find_sessions(tmp_path / "state" / "recordings")
    folder = session.files[0].parent
    assert f"recording into {folder} for 1 s. Press Ctrl-C to stop sooner" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("recorded ")
    assert done.stderr.splitlines()[-1].endswith(f": {folder}")
    assert session.head.cluster == "prod-eu"


def test_it_goes_where_it_is_told_to_with_names_hidden_and_a_line_of_json_a_poll(
    at_hand: list[str], tmp_path: Path
) -> None:
    done = record(*at_hand, "--redact", "--to", str(tmp_path / "given"), "--json")

    assert done.exit_code == 0, done.output
    (session,) = find_sessions(tmp_path / "given")
    assert session.head.redacted
    assert session.head.cluster.startswith("cluster-")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(each["schema_version"], each["looks"], each["moving"]) for each in told] == [
        (1, n, 1) for n in range(1, len(told) + 1)
    ]
    assert told[-1]["path"] == str(session.files[0].parent)


@pytest.mark.parametrize(
    ("until", "told"),
    [
        (StopCondition(), ". Press Ctrl-C to stop"),
        (StopCondition(seconds=90.0), " for 1m 30s. Press Ctrl-C to stop sooner"),
        (
            StopCondition(seconds=3_600.0, idle=True),
            " for 1h or until nothing has moved for 10 s. Press Ctrl-C to stop sooner",
        ),
    ],
)
def test_it_says_when_it_will_end_by_itself(until: StopCondition, told: str) -> None:
    assert until.words == told


def test_it_fails_where_it_had_to_stop(at_hand: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ktui.recording.recorder.LEAST_FREE_BYTES", 2**62)

    done = record(*at_hand)

    assert done.exit_code == 1
    last = done.stderr.splitlines()[-1]
    assert "; recording has stopped: less than" in last
    assert last.count("recordings/") == 1
