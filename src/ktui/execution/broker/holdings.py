"""Why each replica of a broker is there, and what takes it away. Pure."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

import msgspec

from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.broker.facts import BrokerFacts
from ktui.execution.run.destination import find_goal
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track
from ktui.planning.objective import CANARY_PREFIX, is_canary


class Stay(enum.StrEnum):
    """Why a replica is on a broker."""

    LEAVING = "leaving"
    """A reassignment in flight removes the replica."""
    ARRIVING = "arriving"
    """A reassignment in flight adds the replica."""
    PLANNED = "planned"
    """An unfinished run takes the replica away, and has not begun or is between two steps."""
    KEPT = "kept"
    """An unfinished run has the partition, and keeps or brings the replica here."""
    CANARY = "canary"
    """The topic is of the canary of an unfinished run, which deletes it when its engine exits."""
    LEFT_CANARY = "left_canary"
    """The topic is of the canary of a run that is not among the unfinished ones here."""
    UNPLANNED = "unplanned"
    """No run of this state directory takes the replica away."""
    STRAY = "stray"
    """The replica is on the broker's disk, and the metadata that was read does not name it."""

    @property
    def leaves(self) -> bool:
        """Whether something takes the replica away, without a further plan."""
        return self in (Stay.LEAVING, Stay.PLANNED, Stay.CANARY)


class HeldReplica(msgspec.Struct, frozen=True, kw_only=True):
    """One replica on a broker, or on its way to it."""

    tp: TopicPartition
    why: Stay
    run: str = ""
    """The run that moves, takes or keeps the replica; empty for none of this state directory."""
    size: int | None = None
    """Bytes on the broker, with those of a copy in another log dir; None where not known."""
    moves_dirs: bool = False
    """Whether the replica is moving to another log dir of the broker."""
    leads: bool = False
    preferred: bool = False
    """Whether it is the first replica, which Kafka prefers as the leader."""
    only_in_sync: bool = False
    """Whether no other replica is in sync: without this broker, the partition is offline."""
    offline: bool = False
    """Whether the partition has no leader: nothing can be copied from it."""


class RunClaim(msgspec.Struct, frozen=True):
    """What an unfinished run means to do with a replica."""

    run: str
    in_flight: bool
    """Whether a step of the partition is in flight."""
    keeps: bool
    """Whether the broker has a replica of the partition once the run is over."""


Claims = Mapping[TopicPartition, RunClaim]


class Holdings(msgspec.Struct, frozen=True):
    """All replicas of a broker, ordered by partition."""

    replicas: tuple[HeldReplica, ...]

    @property
    def bytes(self) -> int | None:
        """Bytes of all replicas; None where some size is not known."""
        return total(each.size for each in self.replicas)

    def count(self, *whys: Stay) -> int:
        """Return how many replicas are there for one of these reasons."""
        return sum(each.why in whys for each in self.replicas)

    def split(self, exclude: Collection[str]) -> tuple[Holdings, Holdings]:
        """Return the replicas that are to leave, and those of topics that are left out.

        Args:
            exclude: names of topics, or shell patterns.
        """
        if not exclude:
            return self, Holdings(())
        out = {
            each.tp for each in self.replicas if any(fnmatchcase(each.tp.topic, p) for p in exclude)
        }
        leaving = tuple(each for each in self.replicas if each.tp not in out)
        return Holdings(leaving), Holdings(tuple(e for e in self.replicas if e.tp in out))

    def topics(self) -> list[TopicHoldings]:
        """Return the replicas by topic: most bytes first, then most replicas."""
        by_topic: dict[str, list[HeldReplica]] = {}
        for each in self.replicas:
            by_topic.setdefault(each.tp.topic, []).append(each)
        topics = [TopicHoldings(name, tuple(some)) for name, some in by_topic.items()]
        return sorted(topics, key=lambda t: (-(t.bytes or 0), -len(t.replicas), t.topic))


class TopicHoldings(msgspec.Struct, frozen=True):
    """The replicas of one topic on a broker."""

    topic: str
    replicas: tuple[HeldReplica, ...]

    @property
    def bytes(self) -> int | None:
        """Bytes of the topic's replicas; None where some size is not known."""
        return total(each.size for each in self.replicas)

    def reasons(self) -> list[tuple[Stay, str, int]]:
        """Return each reason with its run and how many replicas it has, in the order of `Stay`."""
        counted = Counter((each.why, each.run) for each in self.replicas)
        order = [*Stay]
        ranked = sorted(counted.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
        return [(why, run, count) for (why, run), count in ranked]


def total(sizes: Iterable[int | None]) -> int | None:
    """Add up sizes; None where one of them is not known."""
    summed = 0
    for size in sizes:
        if size is None:
            return None
        summed += size
    return summed


def claims_on(
    broker: int, runs: Iterable[Run], states: Mapping[TopicPartition, PartitionState]
) -> dict[TopicPartition, RunClaim]:
    """Return what unfinished runs mean to do with the replicas on a broker.

    Args:
        broker: the broker.
        runs: the unfinished runs on its cluster. Those that were exported go on elsewhere.
        states: the partitions with a replica on the broker.
    """
    claims: dict[TopicPartition, RunClaim] = {}
    for run in runs:
        if run.exported is not None:
            continue
        for tp, state in states.items():
            track = run.tracks.get(tp)
            if track is None or track.state.ended:
                continue
            claim = RunClaim(run.name, track.step is not None, broker in _goal(track, state))
            if tp not in claims or claim.in_flight:
                claims[tp] = claim
    return claims


def _goal(track: Track, state: PartitionState) -> tuple[int, ...]:
    if track.cancel is None:
        return track.target
    return find_goal(track, state.replicas, state.isr, state.leader).replicas


def find_holdings(facts: BrokerFacts, claims: Claims, runs: Collection[str] = ()) -> Holdings:
    """Return all replicas of a broker, and why each is there.

    Args:
        facts: what was read of the broker.
        claims: what unfinished runs mean to do with its replicas.
        runs: the names of the unfinished runs, which may have canaries.
    """
    return Holdings(tuple(sorted(_held(facts, claims, runs), key=lambda each: each.tp)))


def _held(facts: BrokerFacts, claims: Claims, runs: Collection[str]) -> Iterator[HeldReplica]:
    on_disk = {} if facts.on_disk is None else facts.on_disk.replicas
    for tp, state in facts.states.items():
        why, run = _why(facts.id, state, claims.get(tp))
        if why is Stay.CANARY and run not in runs:
            why = Stay.LEFT_CANARY
        held = on_disk.get(tp)
        yield HeldReplica(
            tp=tp,
            why=why,
            run=run,
            size=held.total_size if held is not None else _absent_size(facts, state),
            moves_dirs=held is not None and held.future is not None,
            leads=state.leader == facts.id,
            preferred=state.target[:1] == (facts.id,),
            only_in_sync=state.described and state.isr == (facts.id,),
            offline=state.described and state.leader is None,
        )
    for tp in on_disk.keys() - facts.states.keys():
        yield HeldReplica(tp=tp, why=Stay.STRAY, size=on_disk[tp].total_size)


def _absent_size(facts: BrokerFacts, state: PartitionState) -> int | None:
    """Return the bytes of a replica that the broker does not report: none if it is yet to come."""
    return 0 if facts.on_disk is not None and facts.id in state.adding else None


def _why(broker: int, state: PartitionState, claim: RunClaim | None) -> tuple[Stay, str]:
    mover = claim.run if claim is not None and claim.in_flight else ""
    if broker in state.removing:
        return Stay.LEAVING, mover
    if broker in state.adding:
        return Stay.ARRIVING, mover
    if claim is not None:
        return Stay.KEPT if claim.keeps else Stay.PLANNED, claim.run
    if is_canary(state.tp.topic):
        return Stay.CANARY, state.tp.topic.removeprefix(CANARY_PREFIX)
    return Stay.UNPLANNED, ""
