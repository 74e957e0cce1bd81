"""Sums over all timelines, and how far each replica of a plan is (KIP-179)."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.progress.flows import BrokerFlow
from ktui.progress.timeline import Cause, Lane, Phase, Progress, Role, StallKind, Timeline
from ktui.speed.answer import Span


class Inflow(msgspec.Struct, frozen=True):
    """The catching-up replicas of one broker. Bytes a second; None where unknown."""

    broker: int
    copies: int
    bytes_s: float | None = None  # smoothed over some 20 s while replicas come and go
    inbound_bytes_s: float | None = None  # a throttle must exceed it for all to catch up
    fastest: TopicPartition | None = None
    fastest_bytes_s: float | None = None
    slowest_bytes_s: float | None = None
    throttle: int | None = None


def inflows(progress: Progress) -> dict[int, Inflow]:
    """Return the inflow of each broker onto which something is copied, ordered by broker id."""
    onto: defaultdict[int, list[tuple[Lane, Timeline]]] = defaultdict(list)
    for timeline in progress.timelines.values():
        if not timeline.phase.ended:
            for lane in timeline.catching_up:
                onto[lane.broker].append((lane, timeline))
    configs = {} if progress.last is None else progress.last.broker_configs
    flows = progress.flows
    return {
        broker: _inflow(broker, onto[broker], configs.get(broker), flows.of(broker).in_s)
        for broker in sorted(onto)
    }


def _inflow(
    broker: int,
    copies: Sequence[tuple[Lane, Timeline]],
    config: BrokerConfig | None,
    bytes_s: float | None,
) -> Inflow:
    written = [(t.inbound_bytes_s, t.tp) for _, t in copies if t.inbound_bytes_s is not None]
    fastest = max(written, default=None)
    return Inflow(
        broker=broker,
        copies=len(copies),
        bytes_s=bytes_s,
        inbound_bytes_s=sum(bytes_s for bytes_s, _ in written) if written else None,
        fastest=None if fastest is None else fastest[1],
        fastest_bytes_s=None if fastest is None else fastest[0],
        slowest_bytes_s=min(written)[0] if len(written) == len(copies) else None,
        throttle=None if config is None else config.follower_throttle_rate,
    )


MOST_MOVES = 40
"""The partitions in motion that are named for each broker: more than a screen has lines for."""


class BrokerLoad(msgspec.Struct, frozen=True):
    """The load that catching-up replicas put on one broker. Bytes a second; None where unknown."""

    broker: int
    bytes_in_s: float | None = None
    bytes_out_s: float | None = None
    flow: BrokerFlow = BrokerFlow()
    adding: int = 0
    removing: int = 0
    leaders: int | None = None
    lag_messages: int | None = None
    lag_bytes: int | None = None
    moves: tuple[TopicPartition, ...] = ()
    """Some that come, leave, or are copied from here; MOST_MOVES at most, stalled ones first."""


class Totals(msgspec.Struct, frozen=True):
    """The work as a whole. Ended moves count as long as their timelines are kept."""

    moving: int = 0  # listed and not stalled; settling moves are counted apart
    held_up: int = 0  # a part of `moving`: a replica cannot copy now, as onto a broker that is down
    stalled: int = 0
    falling_behind: int = 0  # a part of `moving`
    settling: int = 0
    done: int = 0
    cancelled: int = 0
    changed_elsewhere: int = 0
    topic_gone: int = 0
    bytes_left: int | None = None  # to copy as of now, without later writes. Known figures only
    bytes_s: float | None = None
    left_s: Span | None = None  # of the last broker; None while any is unknown
    share: float | None = None  # 0 to 1, by bytes if all sizes are known


def broker_loads(progress: Progress) -> dict[int, BrokerLoad]:
    """Sum up the load per broker, ordered by broker id."""
    sums = _Sums()
    for timeline in progress.timelines.values():
        if not timeline.phase.ended:
            sums.add(timeline)
    last = progress.last
    census = last.census if last is not None else None
    brokers = sums.brokers
    if last is not None:
        brokers = brokers.union(last.brokers, *(s.replicas for s in last.partitions.values()))
    return {
        broker: BrokerLoad(
            broker=broker,
            bytes_in_s=progress.flows.of(broker).in_s,
            bytes_out_s=progress.flows.of(broker).out_s,
            flow=progress.flows.of(broker),
            adding=sums.adding[broker],
            removing=sums.removing[broker],
            leaders=None if census is None else census.leaders.get(broker, 0),
            lag_messages=sums.lag_messages.get(broker),
            lag_bytes=sums.lag_bytes.get(broker),
            moves=(*sums.stalled[broker], *sums.moves[broker])[:MOST_MOVES],
        )
        for broker in sorted(brokers)
    }


class _Sums:
    def __init__(self) -> None:
        self.lag_messages: dict[int, int] = {}
        self.lag_bytes: dict[int, int] = {}
        self.adding: Counter[int] = Counter()
        self.removing: Counter[int] = Counter()
        self.moves: defaultdict[int | None, list[TopicPartition]] = defaultdict(list)
        self.stalled: defaultdict[int | None, list[TopicPartition]] = defaultdict(list)

    @property
    def brokers(self) -> set[int]:
        return {*self.lag_messages, *self.lag_bytes, *self.adding, *self.removing}

    def add(self, timeline: Timeline) -> None:
        state, tp = timeline.state, timeline.tp
        for leaving in state.removing:  # Counter.update takes three times as long
            self.removing[leaving] += 1
        if state.adding or state.removing:
            moves = self.stalled if timeline.phase is Phase.STALLED else self.moves
            for broker in (*state.adding, *state.removing, state.leader):
                known = moves[broker]
                if len(known) < MOST_MOVES and (not known or known[-1] is not tp):
                    known.append(tp)
        for lane in timeline.catching_up:
            if lane.role is Role.ADDING:
                self.adding[lane.broker] += 1
            _sum(self.lag_messages, lane.broker, lane.lag_messages)
            _sum(self.lag_bytes, lane.broker, lane.lag_bytes)


def _sum(sums: dict[int, int], broker: int, figure: int | None) -> None:
    if figure is not None:
        sums[broker] = sums.get(broker, 0) + figure


def totals(progress: Progress) -> Totals:
    """Sum up all moves; partitions that are only watched for their health do not count."""
    moves = [t for t in progress.timelines.values() if t.phase is not Phase.SETTLED]
    phases = Counter(timeline.phase for timeline in moves)
    open_ = [
        timeline for timeline in moves if timeline.state.reassigning and not timeline.phase.ended
    ]
    done = [timeline for timeline in moves if timeline.phase is Phase.DONE]
    adding = [lane for t in open_ for lane in t.lanes.values() if lane.role is Role.ADDING]
    left = [lane.lag_bytes for lane in adding if lane.lag_bytes is not None]
    rates = [lane.rate_bytes_s for lane in adding if lane.rate_bytes_s is not None]
    return Totals(
        moving=phases[Phase.MOVING],
        held_up=sum(t.phase is Phase.MOVING and t.held_up for t in open_),
        stalled=phases[Phase.STALLED],
        falling_behind=sum(
            timeline.phase is Phase.MOVING and _falls_behind(timeline) for timeline in open_
        ),
        settling=phases[Phase.SETTLING],
        done=phases[Phase.DONE],
        cancelled=phases[Phase.CANCELLED],
        changed_elsewhere=phases[Phase.CHANGED_ELSEWHERE],
        topic_gone=phases[Phase.TOPIC_GONE],
        bytes_left=sum(left) if left else None,
        bytes_s=sum(rates) if rates else None,
        left_s=_until_all_copied(adding),
        share=_share([*open_, *done]) if open_ else None,
    )


def _falls_behind(timeline: Timeline) -> bool:
    stalls = (lane.stall for lane in timeline.lanes.values())
    return any(s is not None and s.kind is StallKind.FALLING_BEHIND for s in stalls)


def _until_all_copied(adding: list[Lane]) -> Span | None:
    """Return the seconds until the last broker has all copies: those onto one share its rate."""
    onto: dict[int, list[Lane]] = {}
    for lane in adding:
        onto.setdefault(lane.broker, []).append(lane)
    ends = [_until_copied(lanes) for lanes in onto.values()]
    known = [end for end in ends if end is not None]
    if not known or len(known) < len(ends):
        return None
    return Span(
        low=max(end.low for end in known),
        middle=max(end.middle for end in known),
        high=max(end.high for end in known),
    )


def _until_copied(lanes: list[Lane]) -> Span | None:
    lags = [lane.lag_bytes for lane in lanes]
    if None in lags:
        lags = [lane.lag_messages for lane in lanes]
    if None in lags or any(map(_never_ends, lanes)):
        return None
    left = [(lag, lane.left_s) for lag, lane in zip(lags, lanes, strict=True) if lag]
    total = sum(lag for lag, _ in left)
    ends = [(lag, end) for lag, end in left if end is not None and end.low > 0.0]
    if total and not ends:
        return None
    return Span(
        low=_seconds(total, sum(lag / end.low for lag, end in ends)),
        middle=_seconds(total, sum(lag / end.middle for lag, end in ends)),
        high=_seconds(total, sum(lag / end.high for lag, end in ends)),
    )


def _seconds(lag: int, rate: float) -> float:
    return lag / rate if rate else 0.0


def _never_ends(lane: Lane) -> bool:
    stall = lane.stall
    if stall is None or not stall.alarm:
        return False
    return stall.kind is StallKind.STALLED or stall.cause is Cause.THROTTLED


def _share(moves: Iterable[Timeline]) -> float | None:
    """Weigh the replicas to add, also caught-up ones, by the sizes of their leaders' logs."""
    shares: list[float] = []
    sizes: list[int | None] = []
    for timeline in moves:
        size = timeline.memory.inbound_size if timeline.memory is not None else None
        for broker in timeline.target:
            share = _share_of(timeline, broker)
            if broker not in timeline.original and share is not None:
                shares.append(share)
                sizes.append(None if size is None else size.value)
    known = [size for size in sizes if size is not None]
    weights = known if sum(known) and len(known) == len(sizes) else [1] * len(shares)
    together = sum(share * weight for share, weight in zip(shares, weights, strict=True))
    return together / sum(weights) if shares else None


def _share_of(timeline: Timeline, broker: int) -> float | None:
    """Return the share caught up of one replica; a done move counts if its size is known."""
    if timeline.phase is Phase.DONE:
        known = timeline.memory is not None and timeline.memory.inbound_size is not None
        return 1.0 if known else None
    lane = timeline.lanes.get(broker)
    return None if lane is None else lane.share


class ReplicaStatus(enum.StrEnum):
    """The status of a planned replica, in KIP-179's words; "Broker is down" is ours."""

    IN_SYNC = "In sync"
    BEHIND = "Behind"
    UNKNOWN_TOPIC = "Unknown topic"
    UNKNOWN_PARTITION = "Unknown partition"
    UNKNOWN_BROKER = "Unknown broker"
    NOT_HOSTED = "Broker does not host this partition"
    DOWN = "Broker is down"
    NOT_KNOWN = "Not known"


class ReplicaProgress(msgspec.Struct, frozen=True, kw_only=True):
    """One replica that a plan wants, and how far it is."""

    tp: TopicPartition
    broker: int
    status: ReplicaStatus
    messages: int | None = None
    bytes: int | None = None
    rate_bytes_s: float | None = None
    left_s: Span | None = None  # until it has caught up; known from the second observation on


def replica_progress(
    progress: Progress, targets: Mapping[TopicPartition, Brokers], topics: Collection[str]
) -> Iterator[ReplicaProgress]:
    """Yield each replica of a plan, in the plan's order."""
    seen = progress.last
    if seen is None:
        return
    for tp, brokers in targets.items():
        timeline = progress.timelines.get(tp)
        lanes = {} if timeline is None else timeline.lanes
        for broker in brokers:
            status = _status(seen, tp, broker, topics)
            lane = lanes.get(broker) if status is ReplicaStatus.BEHIND else None
            yield ReplicaProgress(
                tp=tp,
                broker=broker,
                status=status,
                messages=None if lane is None else lane.lag_messages,
                bytes=None if lane is None else lane.lag_bytes,
                rate_bytes_s=None if lane is None else lane.rate_bytes_s,
                left_s=None if lane is None else lane.left_s,
            )


def _status(
    seen: Observation, tp: TopicPartition, broker: int, topics: Collection[str]
) -> ReplicaStatus:
    state = seen.partitions.get(tp)
    if tp.topic not in topics:
        return ReplicaStatus.UNKNOWN_TOPIC
    if tp in seen.absent:
        return ReplicaStatus.UNKNOWN_PARTITION
    if broker not in seen.brokers and (state is None or broker not in state.replicas):
        return ReplicaStatus.UNKNOWN_BROKER  # Kafka before 4.0 does not list one that is down
    if state is None or not state.described:
        return ReplicaStatus.NOT_KNOWN
    return _status_in(state, broker, alive=seen.alive(broker))


def _status_in(state: PartitionState, broker: int, *, alive: bool) -> ReplicaStatus:
    if broker not in state.replicas:
        return ReplicaStatus.NOT_HOSTED
    if not alive:
        return ReplicaStatus.DOWN
    return ReplicaStatus.IN_SYNC if broker in state.isr else ReplicaStatus.BEHIND
