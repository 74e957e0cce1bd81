"""What faults have left behind on a twin, and what an operator should do about it."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from ktui.cluster.partition import PartitionState, Reassignment
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.run import Run
from ktui.planning.plan import join_some
from ktui.progress.memory import Health, HealthCounts, health
from ktui.progress.news import advice
from ktui.progress.timeline import Cause, Stall, StallKind
from ktui.quantities import as_count, as_duration
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import Power

AFTERWARDS_S = 90.0
"""Seconds after a fault within which trouble shows, for copies that fall behind do so after 60 s
and a few polls. A twin is watched at least so long."""


class EndedBy(enum.StrEnum):
    """How a rehearsal has ended."""

    RUN = "run"  # the run has ended by itself
    LEFT = "left"  # left by the engine, for instance at the time of --until
    STANDSTILL = "standstill"  # no progress for so long that nothing was waited for any more


class BrokerUse(msgspec.Struct, frozen=True):
    """What the plan asks of one broker at most; inflow is the mean of a second, or of a poll."""

    broker: int
    inflow: float  # bytes a second that are copied into it
    room: int  # the least free bytes on its disk
    disk: int  # bytes, in all
    extra_replicas: int = 0  # at one time, held besides all those that replace them


class SeenStall(msgspec.Struct, frozen=True, kw_only=True):
    """A time in which copies onto a broker made no progress, or too little."""

    kind: StallKind
    cause: Cause
    broker: int
    detail: str  # the cause in words, with its figures; may be empty
    since_s: float  # first seen, from the start of the run
    lasted_s: float
    partitions: int  # the most at one time

    @property
    def why(self) -> str:
        return self.detail or self.cause.value


class Lost(enum.Enum):
    """Why a broker does not serve."""

    DOWN = "down"
    HANGING = "hanging"  # its process is suspended
    DISK_FULL = "disk full"  # it went down, and its disk has no room


class Aftermath(msgspec.Struct, frozen=True, kw_only=True):
    """What was true of a twin at the end of the time that counts to a fault."""

    until_s: float  # from the start of the run to the next fault, or the end of watching
    lost: Mapping[int, Lost]  # they do not serve, nor come back by themselves
    slowed: Mapping[int, float]  # the share that they have of their network and disk
    stalls: tuple[Stall, ...]  # at the last poll: one of each kind, cause and broker
    unhealthy: Mapping[int | None, HealthCounts]
    """The unhealthy partitions of the cluster by the brokers that they lack: the lost ones, else
    those that lag. None has those whose old replicas are all in sync."""
    raised: Mapping[str, int]  # the first min.insync.replicas of topics that have less now


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A fault that has happened."""

    text: str
    at_s: float  # from the start of the run
    after: Aftermath  # for the last fault, as of now while the twin is watched


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, carried out on one twin."""

    entries: tuple[JournalEntry, ...] = ()  # the journal of the run
    began: datetime
    lasted_s: float  # to the end of the run, or to the last progress at a standstill
    ended_by: EndedBy
    why: str = ""  # why the run was left; empty if it has ended
    leader_epoch_bumps: int  # on the plan's partitions, whatever the reason
    peaks: tuple[BrokerUse, ...]  # of every broker, by its id
    stalls: tuple[SeenStall, ...]  # in the order in which they began
    hits: tuple[Hit, ...]  # faults that have happened, in order
    missed: tuple[str, ...] = ()  # faults whose moment never came


_BACK_BY_ITSELF = (Power.UP, Power.STARTING)
_HEALTHY = (Health.OK, Health.UNKNOWN)


def look_around(
    cluster: SimulatedCluster,
    *,
    stalls: Sequence[Stall],
    min_isr: Mapping[str, int],
    until_s: float,
) -> Aftermath:
    """Return what is true of a twin now; `min_isr` is that of topics at the start."""
    lost = dict(_lost(cluster))
    unhealthy = tuple(_unhealthy(cluster))
    capacities = {broker: cluster.replication.capacity(broker) for broker in cluster.machines}
    return Aftermath(
        until_s=until_s,
        lost=lost,
        slowed={broker: share for broker, share in capacities.items() if share < 1},
        stalls=tuple(stalls),
        unhealthy=_by_broker(unhealthy, lost),
        raised={
            topic: min_isr[topic]
            for topic in sorted({each.state.tp.topic for each in unhealthy if each.below_min_isr})
            if topic in min_isr and cluster.controller.configs.min_isr(topic) > min_isr[topic]
        },
    )


class _Unhealthy(NamedTuple):
    state: PartitionState
    health: Health

    @property
    def below_min_isr(self) -> bool:
        return self.health is Health.UNDER_MIN_ISR


def _lost(cluster: SimulatedCluster) -> Iterator[tuple[int, Lost]]:
    for broker in cluster.spec.brokers:
        power = cluster.machines.power(broker.id)
        if power is Power.HANGING:
            yield broker.id, Lost.HANGING
        elif power not in _BACK_BY_ITSELF:
            full = cluster.replication.used(broker.id) >= broker.disk_bytes
            yield broker.id, Lost.DISK_FULL if full else Lost.DOWN


def _unhealthy(cluster: SimulatedCluster) -> Iterator[_Unhealthy]:
    controller = cluster.controller
    for topic in controller.topics:
        config = controller.configs.topic_config(topic)
        for tp, state in cluster.described(topic).items():
            moving = controller.reassigning.get(tp)
            if moving is not None:
                listed = Reassignment(moving.replicas, moving.adding, moving.removing)
                state = state.with_reassignment(listed)  # noqa: PLW2901 - the same partition
            judged = health(state, config)
            if judged not in _HEALTHY:
                yield _Unhealthy(state, judged)


def _by_broker(
    unhealthy: Collection[_Unhealthy], lost: Collection[int]
) -> dict[int | None, HealthCounts]:
    counts: dict[int | None, Counter[Health]] = {}
    for state, judged in unhealthy:
        kept = state.original
        lacks = [b for b in kept if b in lost] or [b for b in kept if b not in state.isr]
        for broker in lacks or (None,):
            counts.setdefault(broker, Counter())[judged] += 1
    return {
        broker: HealthCounts(
            of[Health.OFFLINE], of[Health.UNDER_MIN_ISR], of[Health.UNDER_REPLICATED]
        )
        for broker, of in counts.items()
    }


_MOST_REASONS = 6
_BRING_BACK = {
    Lost.DOWN: "Start broker {broker}",
    Lost.HANGING: "Let broker {broker} answer again (resume its process, or restart it)",
    Lost.DISK_FULL: "Free the disk of broker {broker} and start it",
}
_OR_CANCEL = {
    Lost.DOWN: "or cancel the reassignment",
    Lost.HANGING: "or cancel the reassignment",
    Lost.DISK_FULL: "or cancel the reassignment and plan it onto other brokers",
}


def what_to_do(hit: Hit, run: Run) -> Iterator[str]:
    """Yield what an operator should do after a fault, by the run at the end of its time."""
    after = hit.after
    found = dict.fromkeys((*_of_cluster(after, run), *_of_run(run)))
    if found:
        yield from found
    elif trouble := "; ".join(reasons(run)):
        yield f"See to what does not go on: {trouble}."
    elif run.left and not run.ended:
        yield f"See why the run was left: {run.left}."
    elif run.ended:
        yield "Nothing: the run has ended."
    elif after.until_s - hit.at_s < AFTERWARDS_S:
        yield f"Not known yet: trouble can take up to {as_duration(AFTERWARDS_S)} to show."
    else:
        yield "Nothing: the run goes on by itself."


def reasons(run: Run) -> Iterator[str]:
    """Yield why partitions of a run are in trouble, the most frequent reasons first."""
    counts = Counter(
        f"{track.state.words}{f': {track.reason}' if track.reason else ''}"
        for track in run.troubled.values()
    )
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST_REASONS]
    yield from (f"{as_count(count, 'partition')} {reason}" for reason, count in most)


def _of_cluster(after: Aftermath, run: Run) -> Iterator[str]:
    for broker, why in after.lost.items():
        instead = f", {_OR_CANCEL[why]}" if _waits_for(run, broker) else ""
        yield f"{_BRING_BACK[why].format(broker=broker)}{instead}{_lack(after, broker)}."
    if after.raised:
        topics = join_some(f"{topic} to {before}" for topic, before in after.raised.items())
        yield f"Set min.insync.replicas back to what it was: {topics}."
    slow = {stall.broker: stall for stall in after.stalls if _too_slow(stall)}
    lagging = [b for b in after.unhealthy if b is not None and b not in after.lost]
    for broker in sorted({*slow, *lagging}):
        yield f"{_keep_up(after, broker, slow.get(broker))}{_lack(after, broker)}."
    if None in after.unhealthy:
        yield f"Wait for the copies to come into sync{_lack(after, None)}."
    for stall in after.stalls:
        if stall.cause is not Cause.TARGET_DOWN and not _too_slow(stall):
            yield advice(stall.cause, stall.broker)


def _waits_for(run: Run, broker: int) -> bool:
    return any(
        broker in track.target
        for track in run.tracks.values()
        if not track.state.ended and track.cancel is None
    )


def _too_slow(stall: Stall) -> bool:
    return stall.kind is StallKind.FALLING_BEHIND and stall.cause is Cause.UNKNOWN


def _keep_up(after: Aftermath, broker: int, stall: Stall | None) -> str:
    if (share := after.slowed.get(broker)) is not None:
        return f"Give broker {broker} back its network and disk, of which it has {share:.0%}"
    if stall is None:
        return f"Wait until broker {broker} has caught up"
    detail = f" ({stall.detail})" if stall.detail else ""
    return f"Let producers write less, or fewer replicas be copied onto broker {broker}{detail}"


def _lack(after: Aftermath, broker: int | None) -> str:
    counts = after.unhealthy.get(broker, HealthCounts())
    words = [
        f"{count:,} {name}"
        for count, name in (
            (counts.offline, "offline"),
            (counts.under_min_isr, "under min ISR"),
            (counts.under_replicated, "under-replicated"),
        )
        if count
    ]
    return f": of the cluster's partitions, {', '.join(words)} until then" if words else ""


def _of_run(run: Run) -> Iterator[str]:
    if run.ended:
        return
    if (paused := run.pauses.reason) is not None:
        yield f"Continue the run, which is paused: {paused}."
    if run.gate.shut and run.gate.until is None:
        yield f"See to what holds back the steps of the run: {run.gate.reason}."
