"""What happened to a partition between two observations, in sentences, and why a copy stands still.

The cause of that is the first in the observation, most specific first.
"""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState
from ktui.progress.catchup import CatchUp
from ktui.progress.memory import Health, StillClock, falling_behind, health, stalled, starved
from ktui.progress.poll import Poll, format_rate
from ktui.progress.timeline import HINDRANCES, Cause, Event, Phase, Stall, StallKind

_ADVICE = {
    Cause.TARGET_DOWN: "Start broker {broker}, or cancel this reassignment{key}.",
    Cause.LOG_DIR_OFFLINE: (
        "Mend or replace the log dir of broker {broker} and restart it, or cancel the"
        " reassignment{key}."
    ),
    Cause.KEPT_OUT_OF_SYNC: (
        "Bring broker {broker} back into the ISR: before Kafka 4.3 the reassignment cannot"
        " complete without it."
    ),
    Cause.NO_LEADER: "Start a broker of the ISR: without a leader there is nothing to copy from.",
    Cause.THROTTLED: (
        "Raise the throttle: of a run by t or ktui throttle, else"
        " follower.replication.throttled.rate on broker {broker}, and the leader's."
    ),
    Cause.NOT_FETCHING: (
        "Look for fetcher errors in the log of broker {broker}; restart it if its fetcher has died."
    ),
    Cause.UNKNOWN: "Look into the logs of broker {broker} and of the leader.",
}


def advice(cause: Cause, broker: int, cancel_key: str = "") -> str:
    """Return what the operator can do about a stall of a replica on a broker."""
    return _ADVICE[cause].format(broker=broker, key=f" ({cancel_key})" if cancel_key else "")


def copy_blocker(state: PartitionState, broker: int, poll: Poll) -> tuple[Cause, str] | None:
    """Return why the replica cannot copy, if the observation itself shows it."""
    if broker not in poll.alive:
        return Cause.TARGET_DOWN, f"broker {broker} is down"
    if broker in state.offline:
        return _log_dir_offline(broker, poll)
    if state.described and state.leader is None:
        return Cause.NO_LEADER, "no leader to copy from"
    return None


def replica_stall(
    state: PartitionState,
    broker: int,
    catch_up: CatchUp,
    poll: Poll,
    hindered: tuple[Cause, str] | None,
    before: Stall | None = None,
) -> Stall | None:
    """Judge one adding replica."""
    still, rising_s = catch_up.memory.still, catch_up.memory.rising_s
    is_stalled = stalled(still)
    if hindered is not None:
        kind = StallKind.STALLED if is_stalled else StallKind.WAITING
        return Stall(kind, hindered[0], still.since_s, broker, hindered[1])
    starving_s = catch_up.memory.starving_s
    if starved(starving_s) or (is_stalled and starving_s):
        bound = poll.throttles.starving(state, broker, already=True)
        if bound is not None:
            bound = bound.steadied(None if before is None else before.demand)
        detail, demand = ("", None) if bound is None else (bound.too_low, bound.demand)
        since_s = poll.now_s - starving_s
        return Stall(StallKind.FALLING_BEHIND, Cause.THROTTLED, since_s, broker, detail, demand)
    shared = poll.throttles.in_use(state, broker) if is_stalled else None
    if is_stalled and shared is None:
        cause, detail = _of_stalled(state, broker, poll)
        return Stall(StallKind.STALLED, cause, still.since_s, broker, detail)
    if falling_behind(rising_s) and shared is None:
        detail, since_s = _of_falling(catch_up), poll.now_s - rising_s
        return Stall(StallKind.FALLING_BEHIND, Cause.UNKNOWN, since_s, broker, detail)
    if shared is not None:
        detail = f"waits for its turn: {shared.detail}"
        return Stall(StallKind.WAITING, Cause.THROTTLED, still.since_s, broker, detail)
    return None


def uncompleted_stall(state: PartitionState, clock: StillClock, poll: Poll) -> Stall | None:
    """Judge a reassignment that is still listed although every adding replica is in sync."""
    if not stalled(clock):
        return None
    out = state.out_of_sync
    if out:
        down = " and down" if out[0] not in poll.alive else ""
        detail = f"broker {out[0]} is out of the ISR{down}"
        return Stall(StallKind.STALLED, Cause.KEPT_OUT_OF_SYNC, clock.since_s, out[0], detail)
    broker = (*state.adding, *state.removing)[0]
    detail = "all in sync, yet not completed"
    return Stall(StallKind.STALLED, Cause.UNKNOWN, clock.since_s, broker, detail)


def _of_stalled(state: PartitionState, broker: int, poll: Poll) -> tuple[Cause, str]:
    if broker in poll.failed_dirs:
        return _log_dir_offline(broker, poll)
    if state.leader is None:
        return Cause.UNKNOWN, ""
    bound = poll.throttles.binding(state, broker)
    if bound is None:
        return Cause.NOT_FETCHING, f"broker {broker} does not fetch from {state.leader}"
    if bound.slower_than_a_fetch:
        return Cause.THROTTLED, bound.detail
    return Cause.UNKNOWN, f"cause unknown ({bound.detail})"


def _log_dir_offline(broker: int, poll: Poll) -> tuple[Cause, str]:
    path = poll.failed_dirs.get(broker)
    # Without a failed log dir, the broker may be going down: metadata can know it before the
    # list of brokers, which is read first.
    which = f"log dir {path}" if path else "its replica"
    return Cause.LOG_DIR_OFFLINE, f"{which} on broker {broker} is offline"


def _of_falling(catch_up: CatchUp) -> str:
    copied, inbound = catch_up.bytes_s, catch_up.inbound_bytes_s
    if copied is None or inbound is None:
        return ""
    return f"{format_rate(copied)} copied, {format_rate(inbound)} in"


PER_TIMELINE = 200
MOST_ALIKE = 5


class EventSeverity(enum.IntEnum):
    """How much an event matters."""

    NEWS = 0
    WARNING = 1
    TROUBLE = 2


_UNHEALTHY = {
    Health.OFFLINE: "partition offline",
    Health.UNDER_MIN_ISR: "under min ISR",
    Health.UNDER_REPLICATED: "under-replicated",
}
_HEALTHY_AGAIN = "fully replicated again"

ENDINGS = {
    Phase.DONE: ("completed: replicas {now}", EventSeverity.NEWS),
    Phase.CANCELLED: ("cancelled: replicas {now}", EventSeverity.WARNING),
    Phase.CHANGED_ELSEWHERE: (
        "changed elsewhere: replicas {now}, neither the target nor the original",
        EventSeverity.WARNING,
    ),
}


class Alarm(msgspec.Struct, frozen=True):
    """A replica's alarm that came or went: an event alone, or merged with those of its broker."""

    event: Event
    broker: int
    becomes: str
    become: str
    why: str


class EventCollector:
    """Collects the events of one partition in one fold."""

    def __init__(self, state: PartitionState, poll: Poll) -> None:
        self._tp = state.tp
        self._at = poll.observation.at
        self.events: list[Event] = []
        self.alarms: list[Alarm] = []
        self.well_again = False  # trouble is over, maybe older than the first observation

    def add(
        self, what: str, severity: EventSeverity = EventSeverity.NEWS, broker: int | None = None
    ) -> None:
        self.events.append(Event(self._at, what, self._tp, broker, int(severity)))

    def alarm(
        self, broker: int, becomes: str, why: str, severity: EventSeverity, *, become: str = ""
    ) -> None:
        what = f"replica {broker} {becomes}{_because(why)}"
        event = Event(self._at, what, self._tp, broker, int(severity))
        self.alarms.append(Alarm(event, broker, becomes, become or becomes, why))

    def after(self, earlier: tuple[Event, ...]) -> tuple[Event, ...]:
        """Append collected events; the end of trouble counts only if trouble was reported."""
        if self.well_again and _report_trouble(earlier):
            self.add(_HEALTHY_AGAIN)
        now = [*self.events, *(alarm.event for alarm in self.alarms)]
        return (*earlier, *now)[-PER_TIMELINE:] if now else earlier


def report_isr_and_leader(
    collector: EventCollector, was: PartitionState, now: PartitionState
) -> None:
    """Report changes of a partition's ISR and leader."""
    if was == now or not (was.described and now.described):
        return
    _joined(collector, was, now)  # first: the next leader has joined the ISR by then
    if was.leader != now.leader:
        _leader(collector, was, now)
    _left(collector, was, now)


def report_stall(
    collector: EventCollector, broker: int, was: Stall | None, now: Stall | None
) -> None:
    """Report that a replica's alarm came, went, or has another kind or cause."""
    if now is not None and now.alarm:
        if was is None or (was.kind, was.cause) != (now.kind, now.cause):
            severity = (
                EventSeverity.TROUBLE if now.kind is StallKind.STALLED else EventSeverity.WARNING
            )
            collector.alarm(broker, now.kind.value, now.detail or now.cause.value, severity)
    elif was is not None and was.alarm:
        if now is not None:
            no_longer = f"no longer {was.kind.value}"
            collector.alarm(
                broker, f"is {no_longer}", now.detail, EventSeverity.NEWS, become=f"are {no_longer}"
            )
        elif was.cause in HINDRANCES:
            collector.alarm(broker, "can copy again", "", EventSeverity.NEWS)
        else:
            collector.alarm(
                broker, "makes headway again", "", EventSeverity.NEWS, become="make headway again"
            )


def merge_alarms(alarms: Iterable[Alarm]) -> list[Event]:
    """Return the events of one poll's alarms: one each, or one for a broker with many alike."""
    alike: defaultdict[tuple[int, str], list[Alarm]] = defaultdict(list)
    for alarm in alarms:
        alike[alarm.broker, alarm.becomes].append(alarm)
    events: list[Event] = []
    for of_broker in alike.values():
        many = len(of_broker) > MOST_ALIKE
        events += [_of_many(of_broker)] if many else [alarm.event for alarm in of_broker]
    return events


def _of_many(alarms: list[Alarm]) -> Event:
    first = alarms[0]
    why, count = Counter(alarm.why for alarm in alarms).most_common(1)[0]
    because = _because(why) if 2 * count > len(alarms) else ""
    what = f"broker {first.broker}: {len(alarms)} replicas {first.become}{because}"
    return Event(first.event.at, what, None, first.broker, first.event.severity)


def _because(why: str) -> str:
    return f": {why}" if why else ""


def report_health(
    collector: EventCollector, state: PartitionState, config: TopicConfig | None, was: Health | None
) -> Health | None:
    """Report a change of a partition's health."""
    if not state.described:
        return was
    now = health(state, config)
    if was is not None:
        _health(collector, was, now, state, config)
    return now


def _leader(collector: EventCollector, was: PartitionState, now: PartitionState) -> None:
    epoch = "" if now.leader_epoch is None else f" (epoch {now.leader_epoch})"
    if now.leader is None:
        collector.add(f"lost its leader, broker {was.leader}", EventSeverity.TROUBLE, was.leader)
    elif was.leader is None:
        collector.add(f"broker {now.leader} leads{epoch}", EventSeverity.NEWS, now.leader)
    else:
        collector.add(
            f"leader moved {was.leader} -> {now.leader}{epoch}", EventSeverity.NEWS, now.leader
        )


def _joined(collector: EventCollector, was: PartitionState, now: PartitionState) -> None:
    for broker in now.isr:
        if broker not in was.isr:
            caught_up = "adding replica caught up: " if broker in was.adding else ""
            collector.add(f"{caught_up}broker {broker} joined the ISR", EventSeverity.NEWS, broker)


def _left(collector: EventCollector, was: PartitionState, now: PartitionState) -> None:
    for broker in was.isr:
        if broker not in now.isr and broker in now.replicas:
            leaving = broker in now.removing
            severity = EventSeverity.NEWS if leaving else EventSeverity.WARNING
            collector.add(
                f"{'retiring ' if leaving else ''}broker {broker} left the ISR", severity, broker
            )


def _health(
    collector: EventCollector,
    was: Health,
    now: Health,
    state: PartitionState,
    config: TopicConfig | None,
) -> None:
    if was is now:
        return
    if now is Health.OFFLINE:
        collector.add(_UNHEALTHY[now], EventSeverity.TROUBLE)
    elif now is Health.UNDER_MIN_ISR:
        least = 0 if config is None else config.min_insync_replicas
        collector.add(
            f"{_UNHEALTHY[now]}: {len(state.isr)} in sync, {least} needed", EventSeverity.TROUBLE
        )
    elif now is Health.UNDER_REPLICATED:
        collector.add(
            f"{_UNHEALTHY[now]}: {len(state.isr)} of {len(state.original)} in sync",
            EventSeverity.WARNING,
        )
    else:
        collector.well_again = True


def _report_trouble(events: tuple[Event, ...]) -> bool:
    signs = (*_UNHEALTHY.values(), _HEALTHY_AGAIN)
    last = next(
        (event.what for event in reversed(events) if event.what.startswith(signs)), _HEALTHY_AGAIN
    )
    return last != _HEALTHY_AGAIN


def shown(brokers: tuple[int, ...]) -> str:
    """Return a list of replicas as events show it."""
    return f"[{','.join(map(str, brokers))}]"
