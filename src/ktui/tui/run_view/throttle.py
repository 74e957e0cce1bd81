"""The throttle of a run in the view: its state, changes of it, and the events of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigOp, ConfigResource, ConfigScope, Verdict
from ktui.cluster.settings import (
    FETCH_BYTES,
    FOLLOWER_RATE,
    LEADER_RATE,
    LEADER_REPLICAS,
    REPLICAS,
    broker_resource,
    names_by_scope,
    parse_throttled_list,
)
from ktui.execution.run.events import Configure, Configured, JournalEntry, ThrottleChanged
from ktui.execution.run.run import Run
from ktui.execution.run.text import describe_event
from ktui.execution.run.throttle_ledger import SetByRun, ThrottleLedger
from ktui.execution.run.throttle_status import prior_value_text
from ktui.planning.plan import join_named
from ktui.planning.throttle_rates import KB, ThrottleRates
from ktui.progress.flows import BrokerFlow, Flows
from ktui.progress.memory import STALLED_AFTER_S
from ktui.progress.news import EventSeverity
from ktui.progress.poll import ROOM, steady
from ktui.progress.summary import Inflow, inflows
from ktui.progress.timeline import Cause, Event, Lane, Progress, StallKind
from ktui.quantities import as_count, as_duration, as_rate, as_rate_above

Inflows = Mapping[int, Inflow]


class ThrottleNow(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic under a run's throttle, as the lines at the top show it."""

    into: tuple[BrokerInflow, ...] = ()
    """The brokers into which the run copies, those with the most first."""
    bytes_s: float | None = None
    fastest: Inflow | None = None
    broken: str = ""
    enough: float | None = None
    """The rate above which copies would catch up; None where the throttle is not too low."""
    too_low: str = ""


class BrokerInflow(msgspec.Struct, frozen=True):
    """What is copied into one broker, by whoever's steps, and its throttle."""

    broker: int
    flow: BrokerFlow
    throttle: int | None


class RateNow(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle of one broker, on one side."""

    broker: int
    sends: bool
    wanted: int | None
    ours: SetByRun | None
    inflow: Inflow | None = None

    @property
    def set_to(self) -> str:
        if self.ours is None or not self.ours.values:
            return "-"
        rates = " or ".join(map(rate_in_words, sorted(self.ours.values)))
        return f"{rates} ?" if self.ours.unsure else rates

    @property
    def needed(self) -> bool:
        return self.sends or self.inflow is not None

    @property
    def found(self) -> str:
        return "-" if self.ours is None else rate_in_words(prior_value_text(self.ours.before))


def run_inflows(run: Run, progress: Progress) -> Inflows:
    """Return the traffic into each broker by the steps of a run that are in flight."""
    known = progress.timelines
    in_flight = {tp: known[tp] for tp in run.tracks_in_flight if tp in known}
    return inflows(msgspec.structs.replace(progress, timelines=in_flight))


def throttle_now(
    run: Run, progress: Progress, into: Inflows, before: ThrottleNow | None = None
) -> ThrottleNow:
    """Summarize the throttle of a run; figures stay those of `before` while they are close."""
    flows = progress.flows
    known = [
        BrokerInflow(broker, flows.of(broker), run.throttled.in_force.of(broker)) for broker in into
    ]
    written = [each for each in into.values() if each.fastest_bytes_s]
    too_low, enough = _too_low(run, progress, into, None if before is None else before.enough)
    return ThrottleNow(
        into=tuple(sorted(known, key=lambda each: -(each.flow.in_s or 0.0))),
        bytes_s=flows.bytes_s,
        fastest=max(written, key=lambda each: each.fastest_bytes_s or 0.0, default=None),
        broken=_broken(flows),
        enough=enough,
        too_low=too_low,
    )


def _broken(flows: Flows) -> str:
    for broker, flow in flows.brokers.items():
        if flow.breaks_throttle:
            figure, rate = as_rate(flow.in_s), as_rate(flow.throttle)
            return f"broker {broker} takes in {figure}, above its throttle of {rate}"
    return ""


def _too_low(
    run: Run, progress: Progress, into: Inflows, shown: float | None
) -> tuple[str, float | None]:
    if not run.throttled.in_force:
        return "", None
    known = progress.timelines
    in_flight = [known[tp] for tp in run.tracks_in_flight if tp in known]
    starved = [lane for t in in_flight for lane in t.lanes.values() if _starves(lane)]
    if not starved:
        return "", None
    if run.options.throttle_leaders:  # the stall names the side, and the rate needed
        stall = starved[0].stall
        return ("" if stall is None else f"broker {stall.broker}: {stall.detail}"), None
    rates = run.throttled.in_force
    low = {
        lane.broker: (rate, written)
        for lane in starved
        if (rate := rates.of(lane.broker)) is not None
        and (inflow := into.get(lane.broker)) is not None
        and (written := inflow.inbound_bytes_s or 0.0) >= rate * ROOM
    }
    if not low:  # the throttle was raised just now, or is somebody else's
        return "", None
    broker, (rate, _) = min(low.items())
    enough = steady(max(max(each) for each in low.values()), shown)
    where = f"broker {broker}" if len(low) == 1 else f"{len(low)} brokers"
    needs = f"needs more than {as_rate_above(enough)}"
    return f"THROTTLE TOO LOW: {as_rate(rate)} into {where}, {needs}", enough


def _starves(lane: Lane) -> bool:
    stall = lane.stall
    behind = stall is not None and stall.kind is StallKind.FALLING_BEHIND
    return behind and stall is not None and stall.cause is Cause.THROTTLED


def rates_now(run: Run, into: Inflows) -> list[RateNow]:
    """Return the rates of brokers that get replicas or have a setting of the run's, by id."""
    ours = run.throttled.ours
    named = {each.broker for each in run.throttled.rates.brokers}
    gaining = {broker for broker, count in run.copies.onto.items() if count > 0}
    touched = {int(r.name) for r, _ in ours if r.scope is ConfigScope.BROKER}
    rows = [
        _rate_now(run, broker, FOLLOWER_RATE, into.get(broker))
        for broker in named | gaining | touched | into.keys()
    ]
    rows += [
        _rate_now(run, broker, LEADER_RATE, None)
        for broker in touched
        if (broker_resource(broker), LEADER_RATE) in ours
    ]
    return sorted(rows, key=lambda row: (row.broker, row.sends))


def _rate_now(run: Run, broker: int, key: str, inflow: Inflow | None) -> RateNow:
    return RateNow(
        broker=broker,
        sends=key == LEADER_RATE,
        wanted=run.throttled.in_force.of(broker),
        ours=run.throttled.ours.get((broker_resource(broker), key)),
        inflow=inflow,
    )


def lists_in_words(run: Run) -> str:
    """Return which replicas are on the throttled lists, and which lists have entries of others."""
    lists = {key: ours for key, ours in run.throttled.ours.items() if key[1] in REPLICAS}
    listed = [f"{r.name}:{value}" for (r, _), ours in lists.items() for value in ours.values]
    if not listed:
        return "No replica is listed for it now."
    topics = sorted({r.name for (r, _), ours in lists.items() if ours.values})
    words = f"{as_count(len(listed), 'replica')} listed for it, of {_topics(topics)}."
    with_others = sorted(
        {r.name for (r, _), ours in lists.items() if ours.before is not None and ours.before.own}
    )
    return f"{words} Entries of others stay: {_topics(with_others)}." if with_others else words


def _topics(names: Sequence[str]) -> str:
    return join_named("topic", names, most=4)


def rate_in_words(text: str) -> str:
    """Format a rate as Kafka stores it with its unit; anything else stays as it is."""
    return as_rate(int(text)) if text.isdecimal() else text


_WORDS = {
    ConfigOp.APPEND: "throttled",
    ConfigOp.SUBTRACT: "throttled no more",
}


class ThrottleNews:
    """Collects, for each partition, the events about throttles of topics and brokers."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._of: defaultdict[TopicPartition, list[Event]] = defaultdict(list)
        self._listed: defaultdict[TopicPartition, set[str]] = defaultdict(set)
        self._changed: set[ConfigResource] = set()

    def events_of(self, tp: TopicPartition) -> list[Event]:
        return self._of.get(tp, [])

    def note_entries(self, entries: Iterable[JournalEntry]) -> None:
        for entry in entries:
            match entry.event:
                case Configure() as asked:
                    self._asked(entry, asked)
                case Configured() as answer:
                    self._answered(entry, answer)
                case ThrottleChanged() as changed:
                    for tp, listed in self._listed.items():
                        if listed:
                            self._add_event(entry, tp, describe_event(changed))

    def changed(self) -> tuple[set[str], set[int]]:
        changed, self._changed = self._changed, set()
        return names_by_scope(changed)

    def _asked(self, entry: JournalEntry, asked: Configure) -> None:
        for change in asked.changes:
            if change.key not in REPLICAS or change.op not in _WORDS:
                continue
            for tp, broker in _replicas(change.resource.name, change.value or ""):
                listed = self._listed[tp]
                side = "as leader on " if change.key == LEADER_REPLICAS else "on "
                place = f"{side}broker {broker}"
                listed.add(place) if change.op is ConfigOp.APPEND else listed.discard(place)
                self._add_event(entry, tp, f"{_WORDS[change.op]} {place}")

    def _answered(self, entry: JournalEntry, answer: Configured) -> None:
        self._changed.add(answer.resource)
        if answer.verdict is Verdict.ACCEPTED or answer.resource.scope is not ConfigScope.TOPIC:
            return
        for tp in list(self._listed):
            if tp.topic == answer.resource.name:
                self._add_event(entry, tp, describe_event(answer), EventSeverity.WARNING)

    def _add_event(
        self,
        entry: JournalEntry,
        tp: TopicPartition,
        words: str,
        severity: EventSeverity = EventSeverity.NEWS,
    ) -> None:
        event = Event(entry.at, f"run {self._run}: {words}", tp, severity=severity)
        self._of[tp].append(event)


def _replicas(topic: str, listed: str) -> Iterator[tuple[TopicPartition, str]]:
    for each in sorted(parse_throttled_list(listed)):
        partition, _, broker = each.partition(":")
        if partition.isdecimal():
            yield TopicPartition(topic, int(partition)), broker


_LOWERED = "Lowered: for up to 11 s, until Kafka's average is under it, nothing may flow. No stall."
"""replication.quota.window.num is 11 windows of 1 s, unless the brokers set another number."""

ColouredSentence = tuple[str, str]


def throttle_effects(
    now: ThrottleLedger, new: ThrottleRates, into: Inflows
) -> list[ColouredSentence]:
    """Return the effects of a new throttle with the traffic in flight, the worst first."""
    if now.is_kept(new):
        return [("This is in force already.", "dim")]
    if not new:
        return [("Removes the throttle: earlier settings are restored.", "dim")]
    old, low = now.rates, _too_low_for(new, into)
    effects = [(words, "stalled") for words in (ends_nothing(new, into), low) if words]
    effects += [(words, "falling-behind") for words in _slow_fetches(new, into)]
    effects += [(words, "dim") for words in _lost_rates(old, new)]
    if _is_lowered(old, new, into):
        effects.append((_LOWERED, "dim"))
    unknown = [b for b, each in into.items() if each.inbound_bytes_s is None and new.of(b)]
    if unknown:
        words = f"The write rate of the partitions copied to {_brokers(unknown)} is not known yet."
        effects.append((words, "dim"))
    elif into and not low:
        effects.append(
            ("Everything in flight catches up under it, at the present write rate.", "dim")
        )
    return effects


def ends_nothing(new: ThrottleRates, into: Inflows) -> str:
    """Return why no copy in flight would end under new rates; empty where one does or may."""
    if not into or any(_may_end(new.of(broker), inflow) for broker, inflow in into.items()):
        return ""
    meant = new.in_megabytes
    return (
        "No copy in flight would end under it. "
        f"{f'Did you mean {meant}? ' if meant else ''}To insist: ktui throttle --allow-slow."
    )


def _may_end(rate: int | None, inflow: Inflow) -> bool:
    return rate is None or inflow.slowest_bytes_s is None or inflow.slowest_bytes_s < rate


def _too_low_for(new: ThrottleRates, into: Inflows) -> str:
    low = [
        (inflow.inbound_bytes_s / rate, rate, inflow)
        for broker, inflow in into.items()
        if (rate := new.of(broker)) is not None
        and inflow.inbound_bytes_s is not None
        and inflow.inbound_bytes_s >= rate
    ]
    if not low:
        return ""
    _, rate, worst = max(low, key=lambda each: each[0])
    enough = as_rate_above(max(inflow.inbound_bytes_s or 0.0 for _, _, inflow in low))
    more = f", and on {as_count(len(low) - 1, 'more broker')}" if len(low) > 1 else ""
    fastest = worst.fastest_bytes_s or 0.0
    if fastest >= rate:
        whom = f"{worst.fastest} on broker {worst.broker}"
        words = (
            f"Too low for {whom}{more}: it will never finish, {as_rate(fastest)} are written to it"
        )
    else:
        whom = f"the {worst.copies} copies onto broker {worst.broker}"
        written = as_rate(worst.inbound_bytes_s)
        words = f"May be too low for {whom}{more}: {written} are written to them together"
    return f"{words}; needs more than {enough}."


def _slow_fetches(new: ThrottleRates, into: Inflows) -> Iterator[str]:
    rates = {rate for broker in into if (rate := new.of(broker)) is not None}
    if rates and (least := min(rates)) * STALLED_AFTER_S < FETCH_BYTES:
        took = as_duration(FETCH_BYTES / least)
        words = f"At {as_rate(least)} one fetch of 1 MiB takes {took}, which looks like a stall."
        asks = least < KB and not ends_nothing(new, into)
        yield f"{words} Did you mean {new.in_megabytes}?" if asks else words


def _is_lowered(old: ThrottleRates, new: ThrottleRates, brokers: Iterable[int]) -> bool:
    pairs = [(old.of(broker), new.of(broker)) for broker in brokers]
    return any(after is not None and (was is None or after < was) for was, after in pairs)


def _lost_rates(old: ThrottleRates, new: ThrottleRates) -> Iterator[str]:
    kept = {each.broker for each in new.brokers}
    lost = [e.broker for e in old.brokers if e.broker not in kept and e.bytes_s != new.every]
    if lost:
        rate = "no throttle" if new.every is None else as_rate(new.every)
        yield f"{_brokers(lost).capitalize()} would get {rate} too; to keep a rate, type it again."


def _brokers(ids: list[int]) -> str:
    return join_named("broker", sorted(ids), most=4)
