"""The present throttle of a run: the rates wanted, those set, and the traffic under them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ktui.cluster.ports import ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE, LEADER_RATE, REPLICAS, broker_resource
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import SetByRun
from ktui.execution.run.throttle_status import prior_value_text
from ktui.planning.names import join_named
from ktui.progress.flows import BrokerFlow, Flows
from ktui.progress.summary import Inflow, inflows
from ktui.progress.throttle import ROOM, steady
from ktui.progress.timeline import Cause, Lane, Progress, StallKind
from ktui.quantities import as_count, as_rate, as_rate_above

Inflows = Mapping[int, Inflow]


class ThrottleNow(msgspec.Struct, frozen=True, kw_only=True):
    """The traffic under a run's throttle, as the lines at the top show it."""

    into: tuple[BrokerInflow, ...] = ()
    """The brokers into which the run copies, those with the most first."""
    bytes_s: float | None = None
    """Copied into all brokers together."""
    fastest: Inflow | None = None
    """The broker that has the partition with the most written to it; None if nothing is."""
    broken: str = ""
    """The broker into which more is copied than its throttle should let in."""
    enough: float | None = None
    """The rate above which copies would catch up; None where the throttle is not too low."""
    too_low: str = ""
    """The place where the throttle never lets a copy catch up, with a rate that would."""


class BrokerInflow(msgspec.Struct, frozen=True):
    """What is copied into one broker, by whoever's steps, and its throttle."""

    broker: int
    flow: BrokerFlow
    throttle: int | None
    """The rate that the run wants there."""


class RateNow(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle of one broker, on one side."""

    broker: int
    sends: bool
    """Whether the rate limits what the broker sends as a leader; else what it receives."""
    wanted: int | None
    ours: SetByRun | None
    """The run's part of the setting; None before the run has read it."""
    inflow: Inflow | None = None

    @property
    def set_to(self) -> str:
        """The value that the run has set."""
        if self.ours is None or not self.ours.values:
            return "-"
        rates = " or ".join(map(rate_in_words, sorted(self.ours.values)))
        return f"{rates} ?" if self.ours.unsure else rates

    @property
    def needed(self) -> bool:
        """Whether the run needs the setting now; of what a broker sends that is not known."""
        return self.sends or self.inflow is not None

    @property
    def found(self) -> str:
        """The value before the run."""
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
    """Return the broker whose throttle should bind, and does not."""
    for broker, flow in flows.brokers.items():
        if flow.breaks_throttle:
            figure, rate = as_rate(flow.in_s), as_rate(flow.throttle)
            return f"broker {broker} takes in {figure}, above its throttle of {rate}"
    return ""


def _too_low(
    run: Run, progress: Progress, into: Inflows, shown: float | None
) -> tuple[str, float | None]:
    """Return whose throttle the rows report as too low, and a rate that is not."""
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
    with_others = sorted({r.name for (r, _), ours in lists.items() if _has_others_entries(ours)})
    return f"{words} Entries of others stay: {_topics(with_others)}." if with_others else words


def _has_others_entries(ours: SetByRun) -> bool:
    return ours.before is not None and bool(ours.before.own)


def _topics(names: Sequence[str]) -> str:
    return join_named("topic", names, most=4)


def rate_in_words(text: str) -> str:
    """Format a rate as Kafka stores it with its unit; anything else stays as it is."""
    return as_rate(int(text)) if text.isdecimal() else text
