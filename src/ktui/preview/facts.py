"""What a preview rests on: the cluster, read once; the plan in figures; its moves; the terms."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ktui.cluster.broker import TopicConfig, racks_of
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import CanaryObstacles, Permissions
from ktui.insights import Prior
from ktui.pacing.limits import Limits
from ktui.pacing.queue import put_long_first
from ktui.pacing.situation import NO_RACKS, Racks, Situation, Step, WantedPartition
from ktui.pacing.steps import all_steps, ideal
from ktui.planning.check.findings import Allowances, ClusterSnapshot, Finding
from ktui.planning.check.rules import PlanRules, at_target, moves_leader
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates

NOTHING_ALLOWED = Allowances()


class ClusterFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster as a plan concerns it, whatever the terms."""

    seen: ClusterSnapshot
    cluster: str = ""
    cluster_id: str = ""
    permitted: Permissions | None = None  # None where nobody asked, or brokers do not tell
    obstacles: CanaryObstacles | None = None  # to a canary; None where nobody asked
    standing: tuple[Finding, ...] = ()  # against any plan now: a gate, an owner, other runs
    prior: Prior | None = None
    throttled_by: str = ""  # why no other run may have a throttle; empty where one may


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms under which a plan is carried out, as far as a preview depends on them."""

    limits: Limits
    throttle: ThrottleRates = NO_THROTTLE
    throttle_leaders: bool = False
    allowed: Allowances = NOTHING_ALLOWED
    canary: str = ""  # the topic of the run's canary; empty for none
    chooses_rates: bool = False  # whether the run may also choose rates by itself, for --by

    @property
    def throttles(self) -> bool:
        return bool(self.throttle) or self.chooses_rates


class FactorChange(msgspec.Struct, frozen=True):
    """The number of partitions that change from one replication factor to another."""

    before: int = msgspec.field(name="from")
    after: int = msgspec.field(name="to")
    partitions: int


class PlanSummary(msgspec.Struct, frozen=True):
    """The plan in figures. Partitions that others are moving count as before their move."""

    partitions: int
    unknown: int  # partitions that the cluster does not show; not in the rest
    at_target: int
    replica_movements: int
    leader_movements: int  # partitions with a leader that are to be led by another broker
    replication_factor_changes: tuple[FactorChange, ...]


def summarise(plan: Plan, cluster: ClusterSnapshot) -> PlanSummary:
    """Summarise a plan on a cluster."""
    rules = PlanRules(cluster)
    pairs = [(target, rules.state(target.tp)) for target in plan.partitions]
    known = [(target, state) for target, state in pairs if state is not None]
    gained = (b for target, state in known for b in target.replicas if b not in state.original)
    factors = Counter((len(state.original), len(target.replicas)) for target, state in known)
    return PlanSummary(
        partitions=len(pairs),
        unknown=len(pairs) - len(known),
        at_target=sum(at_target(target, state) for target, state in known),
        replica_movements=sum(1 for _ in gained),
        leader_movements=sum(moves_leader(target, state) for target, state in known),
        replication_factor_changes=tuple(
            FactorChange(before, after, count)
            for (before, after), count in sorted(factors.items())
            if before != after
        ),
    )


class BrokerShare(msgspec.Struct, frozen=True, kw_only=True):
    """What a broker has of the plan's topics. A topic counts with all its partitions."""

    broker: int
    replicas: int
    gains: int  # the replicas that the broker gains by the plan, as `loses`
    loses: int
    leaders: int
    leaders_after: int

    @property
    def replicas_after(self) -> int:
        return self.replicas + self.gains - self.loses

    @property
    def copies(self) -> bool:
        return bool(self.gains or self.loses)

    @property
    def changes(self) -> bool:
        return self.copies or self.leaders != self.leaders_after


def broker_shares(plan: Plan, snapshot: ClusterSnapshot) -> tuple[BrokerShare, ...]:
    """Count replicas and leaders per live broker, and per broker that has or gets a replica."""
    rules = PlanRules(snapshot)
    targets = {target.tp: target for target in plan.partitions}
    before, gains, loses = Counter[int](), Counter[int](), Counter[int]()
    leaders, leaders_after = Counter[int](), Counter[int]()
    for tp in snapshot.partitions:
        state = rules.state(tp)
        if state is None:
            continue
        before.update(state.original)
        led_by = () if state.leader is None else (state.leader,)
        leaders.update(led_by)
        target = targets.get(tp)
        if target is None or at_target(target, state):
            leaders_after.update(led_by)
            continue
        gains.update({*target.replicas} - {*state.original})
        loses.update({*state.original} - {*target.replicas})
        leaders_after[target.replicas[0]] += 1
    brokers = snapshot.online | before.keys() | gains.keys()
    return tuple(
        BrokerShare(
            broker=broker,
            replicas=before[broker],
            gains=gains[broker],
            loses=loses[broker],
            leaders=leaders[broker],
            leaders_after=leaders_after[broker],
        )
        for broker in sorted(brokers)
    )


class Pattern(NamedTuple):
    """All that decides a partition's steps, with places (0, 1, ..., added ones last) for ids."""

    replicas: int
    target: tuple[int, ...]
    leader: int
    min_isr: int
    closed: tuple[int, ...] = ()  # places of cordoned brokers that no list may name


class StepsCost(msgspec.Struct, frozen=True):
    """The cost of one partition's steps, from first to last."""

    alters: int = 0
    elections: int = 0
    leader_epoch_bumps: int = 0  # alters that drop a replica, and elections
    most_replicas: int = 0  # the most replicas held at once, with those being added
    most_adds: int = 0  # the most that one step adds, but to restore min ISR


def pattern_of(now: Situation) -> tuple[Pattern, Brokers]:
    """Return a partition's pattern, and the broker at each of its places."""
    brokers = (*now.replicas, *(b for b in now.target if b not in now.replicas))
    places = {broker: place for place, broker in enumerate(brokers)}
    leader = 0 if now.leader not in now.replicas else places[now.leader]
    target = tuple(places[broker] for broker in now.target)
    closed = tuple(places[broker] for broker in now.replicas if broker in now.closed)
    return Pattern(len(now.replicas), target, leader, now.min_isr, closed), brokers


class StepPatterns:
    """The steps of patterns under some limits, if all goes well."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._known: dict[Pattern, list[Step]] = {}

    def steps(self, pattern: Pattern) -> list[Step]:
        if pattern not in self._known:
            self._known[pattern] = all_steps(_situation(pattern), self._limits)
        return self._known[pattern]

    def cost(self, pattern: Pattern) -> StepsCost:
        held, leader = pattern.replicas, pattern.leader
        alters = elections = bumps = most_adds = 0
        most = max(held, len(pattern.target))
        for step in self.steps(pattern):
            alters += step.alters
            elections += step.elects is not None
            # the successor of a dropped leader needs no election of its own
            elected = step.elects is not None and leader not in step.drops
            bumps += bool(step.drops) + elected
            most = max(most, held + len(step.adds))
            most_adds = max(most_adds, 0 if step.urgent else len(step.adds))
            held = len(step.target)
            if step.moves_leader:
                leader = pattern.target[0]
        return StepsCost(alters, elections, bumps, most, most_adds)


def _situation(pattern: Pattern) -> Situation:
    return Situation(
        replicas=tuple(range(pattern.replicas)),
        isr=(),  # `all_steps` takes all replicas as up and in sync
        leader=pattern.leader,
        target=pattern.target,
        online=frozenset(),
        closed=frozenset(pattern.closed),
        min_insync_replicas=pattern.min_isr,
    )


class PlannedStep(msgspec.Struct, frozen=True):
    """The replicas to request, and the broker to elect as leader afterwards."""

    replicas: tuple[int, ...]
    elect: int | None


class PartitionSteps(msgspec.Struct, frozen=True):
    """A partition's steps: empty if at its target, None if the partition is unknown."""

    topic: str
    partition: int
    steps: tuple[PlannedStep, ...] | None


class KnownPartition(msgspec.Struct, frozen=True):
    """One partition of a plan; `state` and `situation` are None if the cluster does not have it."""

    target: PartitionTarget
    state: PartitionState | None
    situation: Situation | None


def situations(plan: Plan, cluster: ClusterSnapshot) -> Iterator[KnownPartition]:
    """Yield each partition's situation in order; moves of others count as not begun."""
    rules = PlanRules(cluster)
    online = cluster.online
    closed = rules.cordoned if cluster.refuses_cordoned else frozenset[int]()
    unread = TopicConfig()
    for target in plan.partitions:
        state = rules.state(target.tp)
        if state is None:
            yield KnownPartition(target, None, None)
            continue
        now = Situation(
            replicas=state.original,
            isr=state.isr,
            leader=state.leader,
            target=target.replicas,
            online=online,
            # a target that names one is a problem, and is shown as if there were no cordon
            closed=closed.difference(target.replicas),
            min_insync_replicas=cluster.configs.get(target.topic, unread).min_insync_replicas,
        )
        yield KnownPartition(target, state, now)


def steps_of(plan: Plan, cluster: ClusterSnapshot, limits: Limits) -> tuple[PartitionSteps, ...]:
    """Return each partition's steps, in the plan's order, if all goes well."""
    patterns = StepPatterns(limits)
    return tuple(
        PartitionSteps(
            known.target.topic,
            known.target.partition,
            None if known.situation is None else _steps(known.situation, patterns),
        )
        for known in situations(plan, cluster)
    )


def _steps(now: Situation, patterns: StepPatterns) -> tuple[PlannedStep, ...]:
    pattern, brokers = pattern_of(now)
    return tuple(
        PlannedStep(
            tuple(brokers[place] for place in step.target),
            None if step.elects is None else brokers[step.elects],
        )
        for step in patterns.steps(pattern)
    )


class Moves(msgspec.Struct):
    """The partitions and bytes to move, whatever the limits."""

    wanted: list[WantedPartition]  # the partitions to move, assumed online and in sync
    patterns: defaultdict[Pattern, list[int]]  # indexes into `wanted`
    bytes_in: Counter[int]
    bytes_out: Counter[int]
    unknown: Counter[int]  # by broker, replicas gained or lost of unknown size
    sizes_unknown: int = 0
    bytes_to_copy: int = 0
    racks: Racks = NO_RACKS


def moves_of(plan: Plan, snapshot: ClusterSnapshot) -> Moves:
    """Collect the moves of a plan; a partition counts with the size of its leader's log."""
    moved = Moves([], defaultdict(list), Counter(), Counter(), Counter())
    for known in situations(plan, snapshot):
        now, state = known.situation, known.state
        if now is not None and state is not None and not at_target(known.target, state):
            _count(moved, state.tp, now, snapshot.size(state.tp))
    moved.wanted = put_long_first(moved.wanted)
    moved.racks = racks_of(snapshot.brokers.values())
    return moved


def _count(moved: Moves, tp: TopicPartition, now: Situation, size: int | None) -> None:
    pattern, brokers = pattern_of(now)
    moved.patterns[pattern].append(len(moved.wanted))
    moved.wanted.append(WantedPartition(tp, ideal(now), size or 0, sized=size is not None))
    adds, drops = brokers[len(now.replicas) :], now.excess
    if size is None:
        moved.unknown.update((*adds, *drops))
        moved.sizes_unknown += bool(adds)
        return
    moved.bytes_to_copy += size * len(adds)
    for broker in adds:
        moved.bytes_in[broker] += size
    for broker in drops:
        moved.bytes_out[broker] += size
