"""One observation of the cluster in the terms of a run's steps; brokers that just went offline."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.errors import Operation
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.track import OpenStep, Track, find_goal
from ktui.pacing.queue import Usage
from ktui.pacing.situation import Racks, Situation, added_by_others


class Observed:
    """An observation, with what is needed to judge each of its partitions.

    Args:
        restarting: brokers that went offline a moment ago.
        closed: cordoned brokers that no target may name; None for those that the observation shows.
        asks_kafka: whether the run asks Kafka for its targets whatever they name (`ktui reassign`).
    """

    def __init__(
        self,
        seen: Observation,
        restarting: frozenset[int] = frozenset(),
        closed: frozenset[int] | None = None,
        *,
        asks_kafka: bool = False,
    ) -> None:
        self.seen = seen
        self._restarting = restarting
        self.closed = seen.closed if closed is None else closed
        self._asks_kafka = asks_kafka
        self.online = seen.online
        self._denied = frozenset(
            failure.topic
            for failure in seen.failures
            if failure.operation is Operation.TOPIC_CONFIGS and failure.denied
        )

    @property
    def environment(self) -> tuple[object, ...]:
        """What situations rest on, besides a partition and the settings of its topic."""
        return self.online, self._restarting, self.closed, self.seen.waits_for_kept

    def state(self, tp: TopicPartition) -> PartitionState | None:
        state = self.seen.partitions.get(tp)
        return state if state is not None and state.described else None

    def gone(self, track: Track) -> str | None:
        if track.tp in self.seen.absent:
            return "its topic was deleted"
        state, topic_id = self.state(track.tp), track.planned.topic_id
        if state is None or topic_id is None or state.topic_id in (None, topic_id):
            return None
        return f"its topic was deleted and created again: it is {state.topic_id} now"

    def situation(self, track: Track, state: PartitionState) -> Situation | None:
        """None while settings are unknown; one in sync is enough if not readable."""
        config = self.seen.topic_configs.get(track.tp.topic)
        if config is None:
            if track.tp.topic not in self._denied:
                return None
            config = TopicConfig()
        goes_to = find_goal(track, state.replicas, state.isr, state.leader, self.closed)
        return Situation(
            replicas=state.replicas,
            isr=state.isr,
            leader=state.leader,
            target=goes_to.replicas,
            lead=goes_to.lead,
            online=self.online.difference(state.offline),
            restarting=self._restarting,
            closed=frozenset() if self._asks_kafka and track.cancel is None else self.closed,
            min_insync_replicas=config.min_insync_replicas,
            waits_for_kept=self.seen.waits_for_kept,
            reassigning=state.reassigning,
            eligible=state.elr or (),
            intermediate=track.intermediate if track.cancel is None else (),
        )

    def hidden(self, topic: str) -> str:
        for failure in self.seen.failures:
            if failure.topic == topic:
                return f"the cluster does not report its state: {failure.answer}"
        return "the cluster does not report its state"

    def others(self, ours: Collection[TopicPartition], racks: Racks) -> Usage:
        """What others add; `racks` has brokers that are down, too: a poll does not show theirs."""
        used = Usage()
        for tp, state in self.seen.partitions.items():
            if state.adding and tp not in ours:
                used.count(added_by_others(tp, state.adding, state.leader, racks))
        return used

    def only(self, partitions: Collection[TopicPartition]) -> Observation:
        kept = {tp: self.seen.partitions[tp] for tp in partitions if tp in self.seen.partitions}
        return msgspec.structs.replace(self.seen, partitions=kept)


class StepOutcome(enum.StrEnum):
    """The outcome of a step, as observed."""

    IN_FLIGHT = "in flight"  # listed by Kafka, with the target asked for
    REACHED = "reached"
    ELECTION_DUE = "election due"  # replicas as asked for, but another broker leads
    AS_BEFORE = "as before"  # no effect, or cancelled before it had any
    CHANGED = "changed"  # neither as before nor as asked for
    TAKEN_OVER = "taken over"  # listed by Kafka with a target that this run has not asked for


def step_outcome(step: OpenStep, state: PartitionState) -> StepOutcome:
    """Judge a step by an observation of its partition.

    A step is over if ListPartitionReassignments does not list the partition, and `replicas` equals
    the requested list, in order. If the step elects, that leader must lead too. A leader change
    alone never ends a step.
    """
    begun = step.begun
    if state.reassigning:
        return StepOutcome.IN_FLIGHT if state.target == begun.replicas else StepOutcome.TAKEN_OVER
    if state.replicas == begun.replicas:
        led = begun.elect is None or state.leader == begun.elect
        return StepOutcome.REACHED if led else StepOutcome.ELECTION_DUE
    same = set(state.replicas) == set(begun.before)
    return StepOutcome.AS_BEFORE if same else StepOutcome.CHANGED


LEAVING_S = 5.0  # seconds of suspicion: longer than from leaving the last ISR to the fencing
RESTARTS_S = 60.0  # seconds for which a broker that was online counts as restarting


class SuspectedBrokers:
    """Suspects brokers that have just left every ISR in which they were seen."""

    def __init__(self) -> None:
        self._in_sync: frozenset[int] = frozenset()
        self._until_s: dict[int, float] = {}

    def update(self, observed: Observed) -> None:
        states = [state for state in observed.seen.partitions.values() if state.described]
        in_sync = frozenset(broker for state in states for broker in state.isr)
        there = {broker for state in states for broker in state.replicas}
        now_s = observed.seen.monotonic_s
        kept = {b: at_s for b, at_s in self._until_s.items() if at_s > now_s and b not in in_sync}
        left = (self._in_sync & there) - in_sync
        self._until_s = {**dict.fromkeys(left, now_s + LEAVING_S), **kept}
        self._in_sync = in_sync

    def any(self, brokers: Iterable[int]) -> bool:
        return any(broker in self._until_s for broker in brokers)


class AbsentBrokers:
    """Knows which brokers went offline recently; one offline at the first poll counts as dead."""

    def __init__(self) -> None:
        self._online: AbstractSet[int] = frozenset()
        self._since_s: dict[int, float] = {}

    def update(self, online: AbstractSet[int], now_s: float) -> None:
        for broker in self._online - online:
            self._since_s.setdefault(broker, now_s)
        self._since_s = {
            broker: since_s
            for broker, since_s in self._since_s.items()
            if broker not in online and now_s - since_s < RESTARTS_S
        }
        self._online = online

    @property
    def restarting(self) -> frozenset[int]:
        return frozenset(self._since_s)
