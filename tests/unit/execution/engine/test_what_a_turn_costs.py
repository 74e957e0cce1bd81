"""The cost of a turn depends on what is in flight, not on the queue: counted, not timed."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from ktui.cluster.broker import Broker, TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.engine.decider import Decider
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Planned, Request, Started
from ktui.execution.run.first_events import planned_parts
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.pacing import roster, steps
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Next, Situation
from ktui.simulated.clock import FIRST_MOMENT
from support.runs.stories import Story
from support.simulated.counting_reader import CountingReader

EACH = 500
PLACES = 10
BEFORE, TARGET = (1, 2, 3), (4, 2, 3)
A_TURN = 8 * PLACES
"""A turn with ten places never has to examine more than this."""


class _LargeRun:
    """A decider of a large run, on a cluster that completes each step by the next poll."""

    def __init__(self, topics: int) -> None:
        self.partitions = [
            TopicPartition(f"topic-{t:04}", n) for t in range(topics) for n in range(EACH)
        ]
        planned = [
            Planned(tp.topic, tp.partition, "id", TARGET, BEFORE, 1) for tp in self.partitions
        ]
        started = Started(
            cluster_id="a",
            plan="plan.json",
            plan_sha256="",
            partitions=len(planned),
            limits=Limits(replicas=1, partitions=PLACES),
            options=RunOptions(),
            version="1",
        )
        self.run = Run("run")
        self.seconds = 0
        self.replicas: dict[TopicPartition, tuple[int, ...]] = {}
        self.record([started, *planned_parts(planned)])
        self.decider = Decider(self.run)

    def record(self, events: list[AnyRunEvent]) -> None:
        at = FIRST_MOMENT + timedelta(seconds=self.seconds)
        for event in events:
            self.run.apply(JournalEntry(self.run.seq + 1, at, event))

    def turn(self) -> int:
        """Run one turn and return how many partitions had to be polled."""
        wanted = self.decider.interest.partitions
        self.seconds += 1
        self.record(self.decider.process_poll(self._seen(wanted)))
        decided = self.decider.decide()
        if decided.look_again:
            return len(wanted) + self.turn()
        self.record(list(decided.intents))
        for sending in decided.sendings:
            for tp, replicas in sending.partitions.items():
                if sending.request is Request.ALTER and replicas is not None:
                    self.replicas[tp] = replicas
            results = dict.fromkeys(sending.partitions, WriteResult(Verdict.ACCEPTED))
            self.record(self.decider.process_answer(sending.request, results))
        self.record(self.decider.end())
        return len(wanted)

    def _seen(self, wanted: frozenset[TopicPartition]) -> Observation:
        topics = {tp.topic for tp in wanted}
        return Observation(
            cluster_id="a",
            controller=1,
            brokers={b: Broker(b, f"broker-{b}", 9092, None, alive=True) for b in range(1, 5)},
            partitions={tp: self._state(tp) for tp in wanted},
            topic_configs=dict.fromkeys(topics, TopicConfig()),
            at=FIRST_MOMENT + timedelta(seconds=self.seconds),
            monotonic_s=float(self.seconds),
            took_s=0.0,
            fresh=True,
        )

    def _state(self, tp: TopicPartition) -> PartitionState:
        replicas = self.replicas.get(tp, BEFORE)
        leader = 1 if 1 in replicas else replicas[0]
        return PartitionState(tp, "id", replicas, replicas, leader)


@pytest.mark.parametrize("topics", [20, pytest.param(400, marks=pytest.mark.soak)])
def test_a_turn_costs_what_is_in_flight_however_many_partitions_are_queued(
    topics: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: Counter[str] = Counter()
    real = steps.next_step

    def counted(now: Situation, limits: Limits) -> Next:
        calls["next steps"] += 1
        return real(now, limits)

    monkeypatch.setattr(roster, "next_step", counted)
    large_run = _LargeRun(topics)
    large_run.turn()
    first = calls["next steps"]

    polled, computed = [], []
    for _ in range(20):
        calls.clear()
        polled.append(large_run.turn())
        computed.append(calls["next steps"])

    assert first >= topics * EACH
    assert max(polled) <= A_TURN
    assert max(computed) <= A_TURN
    assert large_run.run.over >= 90


@pytest.mark.parametrize(("messages_s", "quick"), [(300, False), (1_000, True)])
def test_only_steps_that_are_soon_over_are_polled_more_often_than_once_a_second(
    tmp_path: Path, messages_s: int, *, quick: bool
) -> None:
    ways = {f"orders-{n}": ((1, 2, 3), (4 + n % 3, 2, 3)) for n in range(12)}
    limits = Limits(replicas=1, partitions=3)
    story = Story(tmp_path, ways, limits, cluster={"copied_s": messages_s})
    reader = CountingReader(story.reader)
    story.reader = reader

    run = story.played()

    polls, lasted_s = reader.calls["list_reassignments"], story.clock.monotonic()
    assert run.ended
    assert (polls > 1.5 * lasted_s) is quick
