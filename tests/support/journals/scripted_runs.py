"""A run whose events and polls a test supplies step by step, and an estimate that follows it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.run.events import (
    AnyRunEvent,
    JournalEntry,
    Planned,
    PlannedPart,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.insights.prior import Prior
from ktui.progress.timeline import Lane, Phase, Role, Slots, Timeline
from support.journals.journals import owned, started

AT = datetime(2026, 11, 21, 14, 0, tzinfo=UTC)
GB = 10**9
BESIDE = 3
"""Seconds that a step or two take besides copying, because of polls."""
TWO_AT_ONCE = 4 / 3
"""How many times as much two copies at once bring a broker as one does."""
MANY_AT_ONCE = 2.0
"""The same of very many copies."""


class ScriptedRun:
    """A run, and an estimate that follows the run event by event."""

    def __init__(
        self,
        *sizes: int,
        target: tuple[int, ...] = (4, 2, 3),
        targets: tuple[tuple[int, ...], ...] = (),
        original: tuple[int, ...] = (1, 2, 3),
        prior: Prior | None = None,
    ) -> None:
        self.run = Run("run")
        self.estimate = Estimate(self.run, lambda _cluster_id: prior)
        self.now, self.seq = AT, 0
        self.entries: list[JournalEntry] = []
        planned = [
            Planned(
                topic="a", partition=n, topic_id=None, original=original,
                target=targets[n] if targets else target,
                leader=1, size=size,
            )
            for n, size in enumerate(sizes)
        ]  # fmt: skip
        self.happen(started(len(planned)), PlannedPart(partitions=tuple(planned)), owned())

    def happen(self, *events: AnyRunEvent) -> None:
        new = []
        for event in events:
            self.seq += 1
            new.append(JournalEntry(self.seq, self.now, event))
            self.run.apply(new[-1])
        self.entries += new
        self.estimate.take(new)

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def look(self, share: float | None = None, partition: int = 0) -> None:
        """Show the estimate how far a partition's step is; without a share, only the journal."""
        tp = TopicPartition("a", partition)
        self.estimate.update(self.now, {} if share is None else {tp: _copying(tp, share)})

    def look_at(self, shares: Mapping[int, float]) -> None:
        """Show the estimate how far the steps of several partitions are."""
        seen = {}
        for partition, share in shares.items():
            tp = TopicPartition("a", partition)
            seen[tp] = _copying(tp, share, self.run.tracks[tp].planned.target[0])
        self.estimate.update(self.now, seen)

    def begin(self, partition: int = 0) -> None:
        tracks = self.run.tracks
        self.happen(_adds(partition, tracks[TopicPartition("a", partition)].planned.target[0]))

    def over(self, partition: int = 0) -> None:
        self.happen(StepOver(topic="a", partition=partition, replicas=(1, 2, 3, 4), leader=1))

    def add(self, partition: int = 0) -> None:
        self.begin(partition)
        self.over(partition)

    def finish(self, partition: int = 0) -> None:
        self.add(partition)
        self.happen(StateEntered(topic="a", partition=partition, state=State.DONE))

    def left_s(self) -> float | None:
        left = self.estimate.copied.left_s
        return None if left is None else left.middle

    def afresh(self) -> float | None:
        """Return the time left of an estimate that reads the whole journal now."""
        estimate = Estimate(self.run)
        estimate.take(self.entries)
        estimate.update(self.now)
        left = estimate.copied.left_s
        return None if left is None else left.middle


def _adds(partition: int, broker: int) -> StepBegun:
    return StepBegun(
        topic="a", partition=partition, batch=1, replicas=(1, 2, 3, broker), adding=(broker,),
        removing=(),
        elect=None, before=(1, 2, 3), leader=1,
    )  # fmt: skip


def _copying(tp: TopicPartition, share: float, broker: int = 4) -> Timeline:
    return Timeline(
        state=PartitionState(tp, None, (1, 2, 3, broker), (1, 2, 3), 1),
        phase=Phase.MOVING,
        began_at=AT,
        began_s=0.0,
        ended_at=None,
        original=(1, 2, 3),
        original_ordered=True,
        target=(1, 2, 3, broker),
        lanes={broker: Lane(broker, Role.ADDING, share=share)},
        recent=Slots(5.0, 0.0, b"\x00"),
    )


def copied_for(run: ScriptedRun, seconds: int, bytes_s: float) -> None:
    """Let the first partition be copied at this rate, and poll as often as a view does."""
    size = run.run.tracks[TopicPartition("a", 0)].planned.size
    for second in range(0, seconds, 5):
        run.look(bytes_s * second / size)
        run.left_s()
        run.pass_time(5)
    run.look(bytes_s * seconds / size)
