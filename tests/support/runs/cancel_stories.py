"""Stories of runs that are cancelled at a certain stage, and the previews of those cancels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.cancel.preview import PartitionPreview, preview_partition
from ktui.execution.engine.observed import Observed
from ktui.execution.journal.commands import CancelMoves, Command
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Answered,
    AnyRunEvent,
    Request,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.scope import tracks_in_scope
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits
from ktui.simulated.cluster import SimulatedCluster
from support.runs.cancel_rules import CancelRules
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

Such = Callable[[AnyRunEvent], bool]
"""Chooses the event on which a command is sent, at once."""


class CalledOffStory(Story):
    """A story in which partitions are cancelled as soon as an event has been written.

    Attributes:
        before: the replicas and the leader of each partition before the run.
        foreseen: the preview for each cancelled partition, at the time of the cancel.
    """

    def __init__(
        self,
        folder: Path,
        ways: Mapping[str, tuple[Replicas, Replicas]],
        limits: Limits | None = None,
        cluster: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(folder, ways, limits=limits, cluster=cluster, **options)
        self.cancel_rules = CancelRules(self)
        self.before = {each: (self.replicas(each), self.leader(each)) for each in self.targets}
        self.foreseen: dict[TopicPartition, PartitionPreview] = {}
        self._sent_before: dict[TopicPartition, int] = {}
        self._waiting: list[tuple[Such, Callable[[], None]]] = []

    def then(self, such: Such, act: Callable[[], None]) -> None:
        """Act as soon as such an event has been written."""
        self._waiting.append((such, act))

    def called_off(self, such: Such, command: CancelMoves) -> None:
        """Cancel partitions as soon as such an event has been written."""

        def call_off() -> None:
            self._foresee(command)
            self.ask(command)

        self.then(such, call_off)

    def ask(self, command: Command) -> None:
        """Send a command to the run now."""
        with Journal.open(self.path, self.clock) as journal:
            journal.ask(command, "somebody@here (2)")

    def written(self, entries: Any) -> None:
        super().written(entries)
        for entry in entries:
            for one in [one for one in self._waiting if one[0](entry.event)]:
                self._waiting.remove(one)
                one[1]()

    def _foresee(self, command: CancelMoves) -> None:
        look = self._look()
        for track in tracks_in_scope(self.folded, command.topics, command.partitions):
            self._sent_before[track.tp] = len(self.sent(str(track.tp)))
            self.foreseen[track.tp] = preview_partition(
                track, command.kind, self.folded.limits, look
            )

    def _look(self) -> Observed:
        assert self.seen is not None
        now = {each: state_of(self.cluster, each) for each in self.targets}
        return Observed(msgspec.structs.replace(self.seen, partitions=now))

    @property
    def all_came(self) -> bool:
        """Whether every event with a planned action has occurred."""
        return not self._waiting

    def now(self, each: TopicPartition) -> tuple[Replicas, int | None]:
        return self.replicas(each), self.leader(each)

    def assert_as_foreseen(self) -> None:
        """Check the outcome of each partition against its preview, and the others against the plan.

        The requests sent for it are checked, too. A partition that was rolled back is as it was
        before the run.
        """
        for each, track in self.folded.tracks.items():
            said = self.foreseen.get(each)
            if said is None:
                assert track.state is State.DONE, each
                assert self.now(each) == (track.planned.target, track.planned.target[0]), each
                continue
            assert self.now(each) == (said.replicas, said.leader), said
            targets = [step.target for step in said.steps if step.alters]
            sent = self.sent(str(each))[self._sent_before[each] :]
            assert sent == [*([None] if said.cancels else []), *targets], said
            if track.cancel is CancelKind.ROLLBACK:
                assert self.now(each) == self.before[each], said


def state_of(cluster: SimulatedCluster, each: TopicPartition) -> PartitionState:
    """Return a partition as the controller has it."""
    known = cluster.controller.get(each)
    assert known is not None
    return PartitionState(
        each, None, known.replicas, known.isr, known.leader, known.leader_epoch,
        known.adding, known.removing,
    )  # fmt: skip


def nth(number: int, such: Such) -> Such:
    """Choose the nth matching event."""
    count = 0

    def chosen(event: AnyRunEvent) -> bool:
        nonlocal count
        count += such(event)
        return such(event) and count == number

    return chosen


def begun(name: str) -> Such:
    return lambda event: isinstance(event, StepBegun) and event.tp == tp(name)


def altered(name: str) -> Such:
    """Choose the answers to alters of a partition."""
    return lambda event: (
        isinstance(event, Answered) and event.request is Request.ALTER and event.tp == tp(name)
    )


def step_over(name: str) -> Such:
    return lambda event: isinstance(event, StepOver) and event.tp == tp(name)


def done(name: str) -> Such:
    return lambda event: (
        isinstance(event, StateEntered) and event.state is State.DONE and event.tp == tp(name)
    )
