"""The next run of a cluster begins with what its last runs have shown, however they ended."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.observer import ObservationSource
from ktui.execution.forecast.earlier_runs import LAST, EarlierRuns
from ktui.execution.host.kept import KeptSpeed, read_kept
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.run import Run
from ktui.insights.insights import Insights, publish_insights
from ktui.insights.prior import Prior
from ktui.pacing.limits import Limits
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.shown import SCHEMA_VERSION, SpeedShown
from support.pipeline.insights import of_cluster
from support.runs.stories import Story

MB = 1_000_000
RF3 = (1, 2, 3)
HUNDRED_MB = {"messages": 100_000, "copied_s": 20_000.0}
"""Each partition has 100 MB, and a broker takes in 20 MB/s."""


def kept(received: str, version: int = SCHEMA_VERSION) -> bytes:
    """Return a kept file."""
    head = f'"schema_version": {version}, "cluster_id": "prod", "at": "2026-11-28T00:00:00Z"'
    return f'{{{head}, "largest": 1, "received": [{received}]}}'.encode()


class KeptStory(Story):
    """A story whose engine keeps what it has shown, in a run's folder of a state directory."""

    def __init__(self, state: StateDir, name: str = "first", **options: Any) -> None:
        folder = state.create_run(name)
        ways = {f"orders-{n}": (RF3, (4, 2, 3)) for n in range(6)}
        super().__init__(folder.path, ways, Limits(partitions=1), HUNDRED_MB, **options)
        self.folder = folder

    def through(self, source: ObservationSource) -> ObservationSource:
        """Keep now and then what the engine has shown."""
        self.kept = KeptSpeed(self.folder, self.clock, lambda: self._shown)
        return self.kept.through(source)

    @property
    def _shown(self) -> SpeedShown | None:
        return None if self.engine is None else self.engine.speed_shown

    def to_its_end_in_a_process(self) -> Run:
        """Play the run, and write what it has shown as its process does in the end."""
        run = self.played()
        self.kept.write()
        return run

    @property
    def cluster_id(self) -> str:
        return self.cluster.spec.name


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def alone(prior: Prior | None) -> float | None:
    """Return the rate of a single copy."""
    return None if prior is None else prior.curve.bytes_s(1, None)


def test_a_run_that_has_ended_is_known_to_the_next_one(state: StateDir) -> None:
    story = KeptStory(state)
    assert story.to_its_end_in_a_process().ended
    prior = EarlierRuns(state)(story.cluster_id)
    assert prior is not None
    assert alone(prior) == pytest.approx(20 * MB, rel=0.2)
    assert (prior.runs, prior.onto, prior.largest) == (1, (4,), 100 * MB)


def test_a_run_whose_engine_was_killed_on_the_way_is_known_too(state: StateDir) -> None:
    story = KeptStory(state)
    run = story.played(until_s=27.0)  # nothing is written after that, as after kill -9
    assert not run.ended
    assert read_kept(story.folder.speed) is not None
    assert alone(EarlierRuns(state)(story.cluster_id)) == pytest.approx(20 * MB, rel=0.2)


def test_the_next_engine_of_a_run_adds_to_what_the_first_one_has_shown(state: StateDir) -> None:
    story = KeptStory(state)
    story.played(until_s=15.0)
    story.kept.write()
    first = read_kept(story.folder.speed)
    story.resumed()
    story.kept.write()
    whole = read_kept(story.folder.speed)
    assert first is not None
    assert whole is not None
    assert whole.received[0].seconds > first.received[0].seconds + 10


def test_a_run_of_an_earlier_version_is_known_by_its_journal(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    story.folder.speed.unlink()
    prior = EarlierRuns(state)(story.cluster_id)
    assert alone(prior) == pytest.approx(20 * MB, rel=0.2)


def test_a_run_does_not_count_as_an_earlier_one_of_itself(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    assert EarlierRuns.beside(story.folder)(story.cluster_id) is None
    assert EarlierRuns.beside(state.run("next"))(story.cluster_id) is not None


def test_only_the_last_runs_of_the_cluster_count(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    shown = read_kept(story.folder.speed)
    assert shown is not None
    for number in range(LAST + 2):
        copied(state, f"more-{number}", msgspec.json.encode(shown))
    other = msgspec.structs.replace(shown, cluster_id="another")
    copied(state, "other", msgspec.json.encode(other))
    prior = EarlierRuns(state)(story.cluster_id)
    assert prior is not None
    assert prior.runs == LAST


def copied(state: StateDir, name: str, contents: bytes) -> RunDir:
    folder = state.create_run(name)
    folder.speed.write_bytes(contents)
    return folder


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema_version": 1}',
        b"\xff\xfe",
        b'{"cluster_id": "prod", "at": "2026-11-28", "received": [], "largest": 1}',
        kept("""{"broker": 4, "throttle": null, "bytes": 1e300, "alone": 1e300, "seconds": 1e-300,
        "at_once": 1}"""),
        kept("", SCHEMA_VERSION + 1),
    ],
)
def test_a_damaged_or_foreign_file_counts_as_nothing(state: StateDir, contents: bytes) -> None:
    folder = copied(state, "damaged", contents)
    assert read_kept(folder.speed) is None
    assert EarlierRuns(state)("prod") is None


def test_runs_that_copied_nothing_leave_the_place_to_those_that_did(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    shown = read_kept(story.folder.speed)
    assert shown is not None
    for number in range(LAST):
        idle = msgspec.structs.replace(shown, received=())
        copied(state, f"idle-{number}", msgspec.json.encode(idle))
    prior = EarlierRuns(state)(story.cluster_id)
    assert prior is not None
    assert prior.runs == 1


def test_what_is_no_run_in_the_folder_of_runs_counts_as_nothing(state: StateDir) -> None:
    state.make(state.runs)
    (state.runs / "notes.txt").write_text("mine")
    folder = state.create_run("odd")
    folder.speed.mkdir()
    folder.journal.write_text("not a journal")
    assert EarlierRuns(state)("prod") is None


def test_insights_count_where_they_have_newer_moves_and_where_there_are_no_runs(
    state: StateDir,
) -> None:
    story = KeptStory(state)
    before = msgspec.structs.replace(
        of_cluster(story.cluster_id), ended=FIRST_MOMENT - timedelta(days=1)
    )
    publish_insights(Insights(clusters=(before,)), state.path)
    assert EarlierRuns(state)(story.cluster_id) == before.prior
    story.to_its_end_in_a_process()
    known = EarlierRuns(state)(story.cluster_id)
    assert known != before.prior
    assert known is not None
    assert known.runs == 1
    after = msgspec.structs.replace(before, ended=FIRST_MOMENT + timedelta(days=1))
    publish_insights(Insights(clusters=(after,)), state.path)
    assert EarlierRuns(state)(story.cluster_id) == after.prior
