"""Several sessions of one time: which of them counts when, and when the events of runs were."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import AnyRunEvent, Ended, encode
from ktui.execution.run.states import State
from ktui.pipeline.lake.lake import Lake
from ktui.pipeline.lake.tables import MOVES, POLLS, RUNS, SAMPLES, STATES
from ktui.pipeline.sql import DuckLake, SparkQueries, check
from ktui.recording.recorder import Recorder
from ktui.recording.segments import wall_ms
from ktui.simulated.clock import VirtualClock
from support.pipeline.lake_rows import into_lake, rows
from support.pipeline.sampled import now, over, planned, started, step
from support.simulated.observations import START, a_move, a_partition, an_observation

BEGAN = wall_ms(START)
B = TopicPartition("b", 0)
ENGINE, BESIDE = "ktui 1.0 engine", "ktui 1.0 record"
HISTORY = (
    (0, started(2)), (0, planned("a", "b", topic_id="id-of-b")),
    (1, step("a")), (20, over("a")), (20, now("a")),
    (21, step("b", 2)), (48, over("b")), (48, now("b")),
    (59, Ended(counts={State.DONE: 2})),
)  # fmt: skip


class Session:
    """A recorder that begins at a second of a cluster's time."""

    def __init__(self, folder: Path, cluster: str, at_s: float, program: str) -> None:
        self._cluster = cluster
        self._clock = VirtualClock(START, leaping=True)
        self._clock.pass_time(at_s)
        self._recorder = Recorder(folder, self._clock, program=program)
        self._entry = 0

    def looks(self, seconds: Iterable[int], *, moves: bool = True, **more: Any) -> Session:
        """Poll at some seconds, while a partition moves or is in its new place."""
        for at_s in seconds:
            self._clock.pass_time(at_s - self._clock.monotonic())
            states = [a_move(B) if moves else a_partition(B, (4, 2, 3))]
            self._recorder.poll(an_observation(states, at_s, cluster_id=self._cluster, **more))
        return self

    def events(self, *events: tuple[float, AnyRunEvent]) -> Session:
        """Take the next events of the run's journal, each with the second of its entry."""
        for at_s, event in events:
            self._clock.pass_time(max(0, at_s - self._clock.monotonic()))
            self._entry += 1
            at = START + timedelta(seconds=at_s)
            self._recorder.run_event("drain", "drain@1", self._entry, at, encode(event))
        return self

    def close(self) -> str:
        """End the session, and return its id."""
        self._recorder.close()
        assert self._recorder.problem is None
        assert self._recorder.path is not None
        return self._recorder.path.name[-8:]


def throttled(rate: int) -> dict[str, Any]:
    return {"broker_configs": {4: BrokerConfig(follower_throttle_rate=rate)}}


class Beside:
    """A lake of clusters, each recorded by two sessions, or late."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.lake, self._folder = folder / "lake", folder / "recorded"
        self.engine = self._throttled()
        self.others = self._gap()
        self._late()
        self._session("slow", 0).events(HISTORY[0]).looks(range(0, 400, 90)).close()
        self._session("slow", 5).looks(range(5, 300, 10)).close()
        into_lake(spark, self.lake, self._folder)

    def _session(self, cluster: str, at_s: float, program: str = BESIDE) -> Session:
        return Session(self._folder, cluster, at_s, program)

    def _throttled(self) -> str:
        """A throttle of 15 to 21 s, which a recorder beside the run reads at 20 s and at 50 s."""
        beside = self._session("throttled", 0).looks(range(20)).events(*HISTORY[:3])
        beside.looks(range(20, 45), **throttled(4_000_000)).close()
        engine = self._session("throttled", 10, ENGINE).events(*HISTORY[:3]).looks(range(10, 15))
        return engine.looks(range(15, 21), **throttled(4_000_000)).looks(range(21, 45)).close()

    def _gap(self) -> str:
        """The engine of a run does not poll from 20 to 200 s; somebody else does."""
        engine = self._session("gap", 0, ENGINE).events(*HISTORY[:6])
        engine.looks([*range(20), *range(200, 220)]).close()
        return self._session("gap", 0).looks(range(0, 220, 5)).close()

    def _late(self) -> None:
        """A run that is recorded from its 32nd second on."""
        session = self._session("late", 32).looks([32]).events(*HISTORY[:6])
        session.looks(range(33, 48)).events(*HISTORY[6:8]).looks(range(48, 61), moves=False)
        session.events(HISTORY[8]).close()


@pytest.fixture(scope="module")
def beside(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Beside:
    return Beside(spark, tmp_path_factory.mktemp("beside"))


def test_the_engine_that_carries_a_run_on_is_believed_before_a_recorder_beside_it(
    beside: Beside,
) -> None:
    polls = rows(beside.lake, POLLS, ["t", "session"], cluster_id="throttled", shadowed=False)
    of_engine = [t for t, session in polls if session.startswith(beside.engine)]
    assert [(t - BEGAN) // 1000 for t in of_engine] == list(range(10, 45))
    assert [(t - BEGAN) // 1000 for t, _ in polls] == list(range(45))


def test_a_throttle_is_seen_for_as_long_as_the_engine_had_it(beside: Beside) -> None:
    seen = rows(beside.lake, SAMPLES, ["t", "rates"], cluster_id="throttled", shadowed=False)
    assert [(t - BEGAN) // 1000 for t, rates in seen if rates] == list(range(15, 21))


def test_where_the_better_session_has_a_gap_others_count(beside: Beside) -> None:
    polls = rows(beside.lake, POLLS, ["t", "session"], cluster_id="gap", shadowed=False)
    of_others = [(t - BEGAN) // 1000 for t, session in polls if session.startswith(beside.others)]
    assert of_others == list(range(20, 200, 5))
    states = rows(beside.lake, STATES, ["state", "began_t", "ended_t"], cluster_id="gap", topic="b")
    seen = [each for each in states if each[0] == "adding"]
    assert seen == [("adding", BEGAN, BEGAN + 219_000)]


def test_a_session_that_polls_every_other_minute_hides_nothing(beside: Beside) -> None:
    assert len(rows(beside.lake, POLLS, ["t"], cluster_id="slow", shadowed=False)) == 5 + 30


def test_the_check_names_the_gap_and_how_many_polls_others_have_there(
    spark: SparkSession, beside: Beside
) -> None:
    found = check(DuckLake.open(str(beside.lake)))
    assert check(SparkQueries(Lake.open(spark, str(beside.lake)))) == found
    gap, *of_slow = found.longest_gaps
    assert (gap.cluster_id, gap.polls_of_others) == ("gap", 36)
    assert [each.polls_of_others for each in of_slow] == [9, 9, 9, 3]
    assert (gap.began_t - BEGAN, gap.ended_t - BEGAN) == (19_000, 200_000)
    assert (found.gaps, found.longest_gap_ms) == (5, 181_000)


def test_an_event_that_was_recorded_late_was_when_the_journal_says(beside: Beside) -> None:
    assert rows(beside.lake, RUNS, ["began_t", "ended_t"], cluster_id="late") == [
        (BEGAN, BEGAN + 59_000)
    ]
    columns = ["topic", "began_t", "ended_t", "looks", "stalled_ms"]
    assert rows(beside.lake, MOVES, columns, cluster_id="late") == [
        ("a", BEGAN + 1_000, BEGAN + 20_000, 0, None),
        ("b", BEGAN + 21_000, BEGAN + 48_000, 16, 0),
    ]
