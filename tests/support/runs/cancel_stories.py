"""Runs that get extra plans or are cancelled at a certain stage, and the promises of a cancel."""

import enum
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.cancel_preview import PartitionPreview, preview_partition
from ktui.execution.engine.observed import Observed
from ktui.execution.journal.commands import Add, CancelMoves, Command
from ktui.execution.run.events import (
    Added,
    Answered,
    AnyRunEvent,
    CancelAsked,
    JournalEntry,
    OnConflict,
    Planned,
    Request,
    StateEntered,
    StepBegun,
    StepOver,
)
from ktui.execution.run.scope import tracks_in_scope
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import SHAPES, Limits, Shape
from ktui.simulated.cluster import SimulatedCluster
from support.rule_book import against_cancel
from support.runs.engine_runs import Replicas
from support.runs.held_to_rules import Rules
from support.runs.stories import EventStory, Such
from support.runs.witnessed import WitnessedRun
from support.simulated.moving_clusters import tp as partition
from support.simulated.witness import Departure


class CancelRules:
    """Nothing that carries a partition to its target is sent once the partition is cancelled.

    A request in flight at that time may still arrive. The only requests sent are cancels, and
    steps begun after the cancel that lead back. While the cancel gate is shut, nothing else is
    sent at all.
    """

    def __init__(self, run: WitnessedRun) -> None:
        self._run = run
        self._kinds: dict[TopicPartition, CancelKind] = {}
        self._steps: dict[TopicPartition, StepBegun] = {}
        """The last step of each partition that was begun since its cancel."""
        self.asked_s: dict[TopicPartition, float] = {}  # the second of each partition's last cancel
        self.sent: list[tuple[float, TopicPartition]] = []
        """Each request for a cancelled partition, and the second at which it was sent."""
        run.checks.append(self._written)
        run.witness.departures.append(self._departs)

    def _written(self, written: Sequence[JournalEntry]) -> None:
        for entry in written:
            match entry.event:
                case CancelAsked() as asked:
                    for tp in asked.partitions:
                        self._kinds[tp] = asked.kind
                        self._steps.pop(tp, None)
                        self.asked_s[tp] = self._run.clock.monotonic()
                case StepBegun() as begun if begun.tp in self._kinds:
                    original = self._run.folded.tracks[begun.tp].original
                    kind = self._kinds[begun.tp]
                    why = against_cancel(kind, begun.before, begun.replicas, original)
                    assert not why, (why, begun)
                    self._steps[begun.tp] = begun

    def _departs(self, departure: Departure) -> None:
        for tp, target in departure.partitions.items():
            if tp not in self._kinds:
                assert not self._run.gate_shut or target is None, f"{tp} goes on: the gate is shut"
                continue
            self.sent.append((departure.at_s, tp))
            if target is not None:
                step = self._steps.get(tp)
                assert step is not None, f"{tp} goes on to {target} though it was cancelled"
                assert target in (step.replicas, ()), f"{tp}: no step back leads to {target}"


class CalledOffStory(EventStory):
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

    def called_off(self, such: Such, command: CancelMoves) -> None:
        """Cancel partitions as soon as such an event has been written."""

        def call_off() -> None:
            self._foresee(command)
            self.ask(command)

        self.then(such, call_off)

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
    return lambda event: isinstance(event, StepBegun) and event.tp == partition(name)


def altered(name: str) -> Such:
    """Choose the answers to alters of a partition."""
    return lambda event: (
        isinstance(event, Answered)
        and event.request is Request.ALTER
        and event.tp == partition(name)
    )


def step_over(name: str) -> Such:
    return lambda event: isinstance(event, StepOver) and event.tp == partition(name)


def done(name: str) -> Such:
    return lambda event: (
        isinstance(event, StateEntered)
        and event.state is State.DONE
        and event.tp == partition(name)
    )


class Stage(enum.StrEnum):
    """The progress of a partition at the time of the cancel."""

    QUEUED = "queued"
    ADDING = "adding"
    LEADS = "leader-first done"
    MID = "mid"
    LAST = "last step"
    DONE = "done"


class Scope(enum.StrEnum):
    """The partitions to cancel."""

    PARTITION = "partition"
    TOPIC = "topic"
    ALL = "all"


class Case(NamedTuple):
    """One way to cancel a run."""

    shape: Shape
    replicas: int | None
    stage: Stage
    kind: CancelKind
    scope: Scope

    @property
    def name(self) -> str:
        """The case in characters that fit into a topic's name."""
        return "-".join(str(part).replace(" ", "-").lower() for part in self)


class Moment(NamedTuple):
    """When to cancel, and the copies that make no progress until then."""

    at: tuple[Request, int] | State
    """The nth answer to such a request about the partition, or a state of the partition."""
    held: Mapping[int, Replicas] = MappingProxyType({})
    """By partition of its topic, the brokers whose copy of it makes no progress."""
    partitions: int = 1  # P, the limit of partitions at once
    holds_other: bool = False  # whether the partition of the other topic makes no progress either


def moment(case: Case) -> Moment:  # noqa: PLR0911 - a case a stage
    both, last = {0: (4, 5)}, {0: (5,)}
    match case.stage, case.shape, case.replicas:
        case (Stage.QUEUED, _, _):
            return Moment((Request.ALTER, 1), holds_other=True)
        case (Stage.ADDING, _, _):
            return Moment((Request.ALTER, 1), both)
        case (Stage.LEADS, Shape.KIP_435, _):
            return Moment((Request.ELECT, 1), last)
        case (Stage.MID, Shape.GENTLE, 2):  # ready to be cut, and waiting for the other partition
            return Moment(State.READY, {1: (4, 5)}, partitions=2, holds_other=True)
        case (Stage.MID, _, 1):
            return Moment((Request.ALTER, 2), last)
        case (Stage.LAST, Shape.GENTLE, int() as at_once):
            return Moment((Request.ALTER, 4 - at_once), {1: (4, 5)})
        case (Stage.LAST, Shape.KIP_435, int() as at_once):
            return Moment((Request.ALTER, 4 - at_once), last)
        case (Stage.DONE, _, _):
            return Moment(State.DONE, {} if case.scope is Scope.ALL else {1: (4, 5)})
    raise LookupError(case)


def a_grid() -> Iterator[Case]:
    for shape in SHAPES:
        for replicas in (1, 2, None):
            for stage in Stage:
                for kind in CancelKind:
                    for scope in Scope:
                        case = Case(shape, replicas, stage, kind, scope)
                        if can_be(case):
                            yield case


def can_be(case: Case) -> bool:
    """Return whether a run of three replicas reaches such a stage with something left to cancel."""
    one_step = case.replicas is None
    match case.stage:
        case Stage.LEADS:
            return case.shape is Shape.KIP_435 and not one_step
        case Stage.MID:
            return not one_step and (case.shape is Shape.GENTLE or case.replicas == 1)
        case Stage.LAST:
            return not one_step
        case Stage.DONE:
            return case.scope is not Scope.ALL or case.kind is CancelKind.ROLLBACK
    return True


SIZE = 1_000_000


class AddingStory(EventStory):
    """A story in which a command is sent as soon as an event has been written.

    A replica is copied in 2.5 s by default. Every decision is checked against the limits and the
    forbidden steps, by the present goal of each partition.
    """

    def __init__(
        self,
        folder: Path,
        ways: Mapping[str, tuple[Replicas, Replicas]],
        limits: Limits | None = None,
        cluster: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        quick = {"messages": 2_500, **(cluster or {})}
        super().__init__(folder, ways, limits=limits, cluster=quick, **options)
        self.rules = Rules(self, 1)

    async def start(self) -> None:
        await super().start()
        self.targets = _Goals(self)

    def adds(
        self,
        such: Such,
        targets: Mapping[str, Replicas],
        on_conflict: OnConflict = OnConflict.ROLLBACK,
    ) -> None:
        """Request an extra plan as soon as such an event has been written."""
        self.then(such, lambda: self.ask(self.add(targets, on_conflict)))

    def asks(self, such: Such, command: Command) -> None:
        """Send another command as soon as such an event has been written."""
        self.then(such, lambda: self.ask(command))

    def add(
        self, targets: Mapping[str, Replicas], on_conflict: OnConflict = OnConflict.ROLLBACK
    ) -> Add:
        """Return the command for an extra plan, with the partitions as they are now."""
        found = tuple(self._found(partition(name), target) for name, target in targets.items())
        return Add("more.json", "0" * 64, found, on_conflict)

    def _found(self, each: TopicPartition, target: Replicas) -> Planned:
        known = self.cluster.controller.get(each)
        assert known is not None
        original = tuple(broker for broker in known.replicas if broker not in known.adding)
        topic_id = self.cluster.controller.topics[each.topic].id
        return Planned(each.topic, each.partition, topic_id, target, original, known.leader, SIZE)

    @property
    def words(self) -> list[str]:
        """The texts of the answers, in order."""
        return [each.answer.words for each in self.answers if each.answer is not None]

    def came_to(self, name: str, replicas: Replicas) -> bool:
        """Return whether a partition has these replicas in this order, led by the first of them."""
        return (self.replicas(partition(name)), self.leader(partition(name))) == (
            replicas,
            replicas[0],
        )

    def steps_since_added(self, name: str) -> list[StepBegun]:
        """Return the steps of a partition that were begun after the last extra plan was added."""
        events = self.events
        last = max(n for n, event in enumerate(events) if isinstance(event, Added))
        return [e for e in events[last:] if isinstance(e, StepBegun) and e.tp == partition(name)]


class _Goals(dict[TopicPartition, Replicas]):
    """The present goal of each partition of a run."""

    def __init__(self, story: AddingStory) -> None:
        super().__init__(story.targets)
        self._story = story

    def __getitem__(self, each: TopicPartition) -> Replicas:
        track = self._story.folded.tracks[each]
        return track.original if track.cancel is CancelKind.ROLLBACK else track.planned.target
