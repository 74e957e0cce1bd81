"""Events as sentences: what happened to one partition between two observations."""

from __future__ import annotations

import enum
from collections import Counter, defaultdict
from collections.abc import Iterable

import msgspec

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState
from ktui.progress.health import Health, health
from ktui.progress.poll import Poll
from ktui.progress.timeline import Cause, Event, Phase, Stall, StallKind

PER_TIMELINE = 200
MOST_ALIKE = 5
"""More replicas of one broker with the same alarm in one poll are told as one."""


class EventSeverity(enum.IntEnum):
    """How much an event matters."""

    NEWS = 0
    WARNING = 1
    TROUBLE = 2


_ILL = {
    Health.OFFLINE: "partition offline",
    Health.UNDER_MIN_ISR: "under min ISR",
    Health.UNDER_REPLICATED: "under-replicated",
}
"""What the sentences that tell of a partition's trouble begin with."""
_WELL = "fully replicated again"

_HINDRANCES = (Cause.TARGET_DOWN, Cause.LOG_DIR_OFFLINE, Cause.NO_LEADER)

_ENDINGS = {
    Phase.DONE: ("completed: replicas {now}", EventSeverity.NEWS),
    Phase.CANCELLED: ("cancelled: replicas {now}", EventSeverity.WARNING),
    Phase.CHANGED_ELSEWHERE: (
        "changed elsewhere: replicas {now}, neither the target nor the original",
        EventSeverity.WARNING,
    ),
}


class Alarm(msgspec.Struct, frozen=True):
    """A replica's alarm that came or went: told by itself, or with those of its broker."""

    event: Event
    broker: int
    becomes: str
    """What the replica is now: "stalled"."""
    become: str
    """The same of many."""
    why: str


class EventCollector:
    """Collects the events of one partition in one fold."""

    def __init__(self, state: PartitionState, poll: Poll) -> None:
        self._tp = state.tp
        self._at = poll.observation.at
        self.events: list[Event] = []
        self.alarms: list[Alarm] = []
        self.well_again = False
        """Whether its trouble is over, which may have been there before anybody looked."""

    def add(
        self, what: str, severity: EventSeverity = EventSeverity.NEWS, broker: int | None = None
    ) -> None:
        """Add one sentence."""
        self.events.append(Event(self._at, what, self._tp, broker, int(severity)))

    def alarm(
        self, broker: int, becomes: str, why: str, severity: EventSeverity, *, become: str = ""
    ) -> None:
        """Add what a replica's alarm has become."""
        what = f"replica {broker} {becomes}{_because(why)}"
        event = Event(self._at, what, self._tp, broker, int(severity))
        self.alarms.append(Alarm(event, broker, becomes, become or becomes, why))

    def after(self, earlier: tuple[Event, ...]) -> tuple[Event, ...]:
        """Give a timeline's events with these at the end.

        That trouble is over is one of them if they tell of the trouble, too.
        """
        if self.well_again and _tell_of_trouble(earlier):
            self.add(_WELL)
        now = [*self.events, *(alarm.event for alarm in self.alarms)]
        return (*earlier, *now)[-PER_TIMELINE:] if now else earlier


def listed(
    news: EventCollector, original: tuple[int, ...], target: tuple[int, ...], *, seen: bool
) -> None:
    """Tell that a reassignment was found under way (`seen`), or has started."""
    verb = "under way" if seen else "started"
    news.add(f"reassignment {verb}: {_list(original)} -> {_list(target)}")


def retargeted(news: EventCollector, before: tuple[int, ...], now: tuple[int, ...]) -> None:
    """Tell that a moving partition was altered again."""
    news.add(f"re-targeted: {_list(now)} instead of {_list(before)}", EventSeverity.WARNING)


def ended(news: EventCollector, phase: Phase, state: PartitionState) -> None:
    """Tell how a move ended."""
    sentence, severity = _ENDINGS[phase]
    news.add(sentence.format(now=_list(state.replicas)), severity)


def completed(news: EventCollector, target: tuple[int, ...]) -> None:
    """Tell that a move completed between two observations."""
    news.add(f"completed: replicas {_list(target)}")


def replicas_changed(news: EventCollector, was: tuple[int, ...], now: tuple[int, ...]) -> None:
    """Tell of an alter that was never seen listed: a reorder, a removal, or a very fast move."""
    news.add(f"replicas changed from {_list(was)} to {_list(now)} between two looks")


def topic_deleted(news: EventCollector, *, moving: bool) -> None:
    """Tell that the partition is gone."""
    news.add("topic deleted", EventSeverity.TROUBLE if moving else EventSeverity.WARNING)


def topic_recreated(news: EventCollector, *, moving: bool) -> None:
    """Tell that another topic has the name now."""
    lost = "; its reassignment is gone" if moving else ""
    news.add(
        f"topic deleted and recreated under the same name{lost}",
        EventSeverity.TROUBLE if moving else EventSeverity.WARNING,
    )


def lost_sight(news: EventCollector) -> None:
    """Tell that the outcome of a move will never be known."""
    news.add(
        "no longer listed, and its metadata cannot be read: outcome unknown", EventSeverity.WARNING
    )


def changes(news: EventCollector, was: PartitionState, now: PartitionState) -> None:
    """Tell what changed in a partition's ISR and leader."""
    if was == now or not (was.described and now.described):
        return
    _joined(news, was, now)  # first: whoever leads next is in the ISR by then
    if was.leader != now.leader:
        _leader(news, was, now)
    _left(news, was, now)


def stall_changed(news: EventCollector, broker: int, was: Stall | None, now: Stall | None) -> None:
    """Tell that a replica's alarm came, went, or has another kind or cause."""
    if now is not None and now.alarm:
        if was is None or (was.kind, was.cause) != (now.kind, now.cause):
            severity = (
                EventSeverity.TROUBLE if now.kind is StallKind.STALLED else EventSeverity.WARNING
            )
            news.alarm(broker, now.kind.value, now.detail or now.cause.value, severity)
    elif was is not None and was.alarm:
        if now is not None:
            no_longer = f"no longer {was.kind.value}"
            news.alarm(
                broker, f"is {no_longer}", now.detail, EventSeverity.NEWS, become=f"are {no_longer}"
            )
        elif was.cause in _HINDRANCES:
            news.alarm(broker, "can copy again", "", EventSeverity.NEWS)
        else:
            news.alarm(
                broker, "makes headway again", "", EventSeverity.NEWS, become="make headway again"
            )


def gathered(alarms: Iterable[Alarm]) -> list[Event]:
    """Tell the alarms of one poll: one by one, or for the broker where it has many alike."""
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


def judged(
    news: EventCollector, state: PartitionState, config: TopicConfig | None, was: Health | None
) -> Health | None:
    """Tell what changed in a partition's health; give what it is as far as that is known."""
    if not state.described:
        return was
    now = health(state, config)
    if was is not None:
        _health(news, was, now, state, config)
    return now


def _leader(news: EventCollector, was: PartitionState, now: PartitionState) -> None:
    epoch = "" if now.leader_epoch is None else f" (epoch {now.leader_epoch})"
    if now.leader is None:
        news.add(f"no leader any more, it was {was.leader}", EventSeverity.TROUBLE, was.leader)
    elif was.leader is None:
        news.add(f"broker {now.leader} leads{epoch}", EventSeverity.NEWS, now.leader)
    else:
        news.add(
            f"leader moved {was.leader} -> {now.leader}{epoch}", EventSeverity.NEWS, now.leader
        )


def _joined(news: EventCollector, was: PartitionState, now: PartitionState) -> None:
    for broker in now.isr:
        if broker not in was.isr:
            caught_up = "adding replica caught up: " if broker in was.adding else ""
            news.add(f"{caught_up}broker {broker} joined the ISR", EventSeverity.NEWS, broker)


def _left(news: EventCollector, was: PartitionState, now: PartitionState) -> None:
    for broker in was.isr:
        if broker not in now.isr and broker in now.replicas:
            leaving = broker in now.removing
            severity = EventSeverity.NEWS if leaving else EventSeverity.WARNING
            news.add(
                f"{'retiring ' if leaving else ''}broker {broker} left the ISR", severity, broker
            )


def _health(
    news: EventCollector,
    was: Health,
    now: Health,
    state: PartitionState,
    config: TopicConfig | None,
) -> None:
    if was is now:
        return
    if now is Health.OFFLINE:
        news.add(_ILL[now], EventSeverity.TROUBLE)
    elif now is Health.UNDER_MIN_ISR:
        least = 0 if config is None else config.min_insync_replicas
        news.add(f"{_ILL[now]}: {len(state.isr)} in sync, {least} needed", EventSeverity.TROUBLE)
    elif now is Health.UNDER_REPLICATED:
        news.add(
            f"{_ILL[now]}: {len(state.isr)} of {len(state.original)} in sync", EventSeverity.WARNING
        )
    else:
        news.well_again = True


def _tell_of_trouble(events: tuple[Event, ...]) -> bool:
    """Whether events tell of trouble with a partition's health, and not yet of its end."""
    signs = (*_ILL.values(), _WELL)
    last = next((event.what for event in reversed(events) if event.what.startswith(signs)), _WELL)
    return last != _WELL


def _list(brokers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, brokers))}]"
