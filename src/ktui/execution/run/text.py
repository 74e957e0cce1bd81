"""The events of a run as text, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, Verdict
from ktui.cluster.text import clean
from ktui.execution.run import events
from ktui.execution.run.events import OnConflict, RateCause, Request
from ktui.execution.run.options import Schedule, local_minute
from ktui.execution.run.states import CancelKind
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.pacing.limits import LETTERS, InternalOrder, Limits, Mode, full_limit_figure, is_limited
from ktui.pacing.situation import Urgency
from ktui.planning.plan import join_some
from ktui.planning.throttle_rates import Objective
from ktui.quantities import as_count, as_rate


def urgent_text(why: Urgency) -> str:
    """Return why a partition goes before the others, for people: `urgent: under min ISR`."""
    return f"urgent: {why.value}"


_MOVES = {
    RateCause.OVER: "down",
    RateCause.FAR_OVER: "down at once",
    RateCause.UNDER: "up",
    RateCause.IN_BAND: "stays",
}


def held_text(held: events.RateHeld, objective: Objective | None = None) -> str:
    """Describe an objective's rates, how often it held, and why the last one moved."""
    none = f"there is no figure{f': {held.reason}' if held.reason else ''}"
    name, figure = _named(objective, held.figure)
    figures = none if held.figure is None else f"{name} is {figure}"
    share = f", {held.kept:,} of {as_count(held.windows, 'window')} kept" if held.windows else ""
    why = "" if held.why is None else f"; {reason_text(held.why, held.rate, objective)}"
    return f"{_rates(held)}: {figures}{share}{why}"


def reason_text(why: events.RateReason, rate: int, objective: Objective | None = None) -> str:
    """Describe why a rate (bytes a second) moved last: "down: p99 of broker 4 was 212ms"."""
    name, value = _named(objective, why.figure)
    whose = "" if why.of is None else f" of broker {why.of}"
    if why.cause is RateCause.NO_FIGURE:
        return f"the least rate: there was no figure{whose}"
    if why.cause is RateCause.UNUSED:
        return f"stays: {why.used or 0.0:.0%} of it is used"
    least = rate <= FLOOR and why.cause in (RateCause.OVER, RateCause.FAR_OVER)
    move = "the least rate" if least else _MOVES[why.cause]
    return f"{move}: {name}{whose} was {value}"


def _named(objective: Objective | None, figure: float | None) -> tuple[str, str]:
    if objective is None:
        return "the figure", "" if figure is None else f"{figure:g}"
    return objective.name, "" if figure is None else objective.value(figure)


def _rates(held: events.RateHeld) -> str:
    rates = sorted(held.rates.values())
    if not rates:
        return f"{as_rate(held.rate)} into each broker"
    low, high = as_rate(rates[0]), as_rate(rates[-1])
    into = as_count(len(rates), "broker")
    return f"{low} into {into}" if low == high else f"{low} to {high} into {into}"


_SIGNS = {ConfigOp.APPEND: "+", ConfigOp.SUBTRACT: "-", ConfigOp.SET: "=", ConfigOp.DELETE: "unset"}
KIND_IN_WORDS = {
    CancelKind.STOP: "stop",
    CancelKind.ROLLBACK: "roll back",
    CancelKind.TRIM: "stop and trim",
}
_CONFLICTS = {
    OnConflict.ROLLBACK: "partitions that the run moves elsewhere are rolled back first",
    OnConflict.KEEP: "partitions that the run moves elsewhere keep their target",
    OnConflict.RETARGET: "partitions that the run moves elsewhere go there from where they are",
}
_REQUESTS = {
    Request.ALTER: "the alter",
    Request.ELECT: "the election",
    Request.CANCEL: "the cancel",
}


def describe_event(event: events.AnyRunEvent) -> str:
    """Describe an event without naming its partition; control characters are escaped."""
    return clean(_event_text(event))


def event_sentence(event: events.AnyRunEvent) -> str:
    """Describe an event in one line that stands alone, with its partition."""
    tp = getattr(event, "tp", None)
    return clean(_event_text(event) if tp is None else f"{tp}: {_event_text(event)}")


def limit_figures(limits: Limits) -> list[str]:
    """Return the limits that are set, each with its letter: "B 4 (broker 3: 1)"."""
    return [
        f"{letter} {full_limit_figure(limits, option)}"
        for option, letter in LETTERS.items()
        if is_limited(limits, option)
    ]


def limits_text(limits: Limits) -> str:
    """Describe set limits by KIP-435's letters: "R 1, P 20, B 4 (broker 3: 1), gentle"."""
    own = limits.internal is not InternalOrder.NONE
    internal = [_internal_text(limits)] if own else []
    return ", ".join(
        [*limit_figures(limits), limits.shape, limits.mode, f"by {limits.order}", *internal]
    )


def _internal_text(limits: Limits) -> str:
    return f"internal topics {limits.internal}"


def limit_changes_text(old: Limits, new: Limits) -> str:
    """Describe a change of limits: "P 10 -> 4, rolling -> wave"."""
    counts = [
        f"{letter} {full_limit_figure(old, option)} -> {full_limit_figure(new, option)}"
        for option, letter in LETTERS.items()
        if full_limit_figure(old, option) != full_limit_figure(new, option)
    ]
    ways = [
        f"{before} -> {after}"
        for before, after in (
            (old.shape, new.shape),
            (old.mode, new.mode),
            (f"by {old.order}", f"by {new.order}"),
            (_internal_text(old), _internal_text(new)),
        )
        if before != after
    ]
    return ", ".join([*counts, *ways])


def schedule_text(schedule: Schedule) -> str:
    """Describe when steps may begin: "from 2026-11-25 22:00, in 22:00-05:00, while a.sh"."""
    words = []
    if schedule.start_at is not None:
        words.append(f"from {local_minute(schedule.start_at)}")
    if schedule.window:
        words.append(f"in {schedule.window}")
    if schedule.while_command:
        words.append(f"while {schedule.while_command} succeeds")
    begins = ", ".join(words) or "at any time"
    return begins if schedule.by is None else f"{begins}; done by {local_minute(schedule.by)}"


def chosen_text(chosen: events.RateChosen) -> str:
    """Describe the rate that --by needs, and the end that it leads to."""
    ends = local_minute(chosen.ends_at)
    if chosen.late:
        return f"cannot be done in time: {ends} at the soonest, at any rate"
    if chosen.rate is None:
        return f"needs all that there is, expected to end by {ends}"
    return f"{as_rate(chosen.rate)} into each broker, expected to end by {ends}"


def batch_noun(limits: Limits) -> str:
    """Return the noun for a batch under some limits: wave or decision."""
    return "wave" if limits.mode is Mode.WAVE else "decision"


def scope_text(topics: Sequence[str], partitions: Sequence[TopicPartition]) -> str:
    """Name the topics and partitions of a command's scope; empty for the whole run."""
    named = [f"topic {topic}" for topic in topics] + [str(tp) for tp in partitions]
    return join_some(named, most=5)


def replica_list_text(ids: Iterable[int]) -> str:
    """Write a replica list as Kafka's tools do: "1,2,3"."""
    return ",".join(map(str, ids))


def unexpected_replicas_text(found: Iterable[int], expected: Iterable[int]) -> str:
    """Describe replicas that someone else has given to a partition."""
    return f"its replicas are {replica_list_text(found)} rather than {replica_list_text(expected)}"


def _event_text(event: events.AnyRunEvent) -> str:  # noqa: C901, PLR0911, PLR0912, PLR0915 - a case an event
    match event:
        case events.Started():
            of = f"{as_count(event.partitions, 'partition')} of cluster {event.cluster_id}"
            rates = event.options.throttle
            throttle = f"; throttle {rates.words}" if rates else ""
            return f"run of {event.plan}, {of}; {limits_text(event.limits)}{throttle}"
        case events.PlannedPart():
            return _planned_text(event)
        case events.Owned():
            off = ", and does not ask who owns the cluster" if event.ownership_off else ""
            return f"process {event.pid} of {event.user} on {event.host} runs the engine{off}"
        case events.EngineLeft():
            return f"the engine has exited: {event.reason}"
        case events.Exported():
            where = f"{event.file}: it goes on where that is imported"
            return f"{event.user} on {event.host} exported it to {where}"
        case events.Imported():
            return f"{event.user} on {event.host} imported it: it goes on in this state directory"
        case events.Recovered():
            return f"the journal was damaged and is recovered: {event.lost}"
        case events.Ended():
            return _end_text(event)
        case events.StepBegun():
            return _step_text(event)
        case events.Elect():
            return f"electing leader {event.leader}"
        case events.Cancel():
            return f"step cancelled: {event.reason}"
        case events.Answered():
            return _answer_text(event)
        case events.StepOver():
            leader = "no leader" if event.leader is None else f"leader {event.leader}"
            now = f"{replica_list_text(event.replicas)}, {leader}"
            given_up = f"step given up: {event.reason}; {now}"
            return f"step finished: {now}" if event.reached else given_up
        case events.StateEntered():
            return f"{event.state.words}{_because(event.reason)}"
        case events.UrgencyChanged():
            well = "not urgent any more: it waits as the others do"
            return well if event.why is None else f"{urgent_text(event.why)}: it goes first"
        case events.Replanned():
            now = f"someone else gave it {replica_list_text(event.replicas)}"
            return f"{now} instead of {replica_list_text(event.before)}; it goes on from there"
        case events.LimitsChanged():
            return _limit_changes_text(event)
        case events.Paused() | events.Continued():
            return _pause_text(event)
        case events.StepGate():
            if event.until is not None:
                return f"no step begins: {event.reason}"
            shut = f"the gate is shut{_because(event.reason)}"
            return shut if event.shut else "the gate is open again"
        case events.Outage():
            lost = f"the cluster is lost{_because(event.reason)}"
            return lost if event.lost else "the cluster answers again"
        case events.Recording():
            off = event.reason or "the engine does not record what it observes"
            return "the engine records what it observes" if event.on else off
        case events.ScheduleChanged():
            return f"schedule: {schedule_text(event.new)}{_asked_by(event.who)}"
        case events.BudgetShared():
            shares = (f"{as_rate(each.bytes_s)} into {each.broker}" for each in event.shares)
            return f"the budget is shared: {', '.join(shares) or 'nothing is copied'}"
        case events.RateChosen():
            return chosen_text(event)
        case events.RateHeld():
            return held_text(event)
        case events.ThrottleChanged():
            change = f"{event.old.words} -> {event.new.words}"
            return f"throttle: {change}, at once{_asked_by(event.who)}"
        case events.SettingsFound():
            return (
                f"value{'' if len(event.found) == 1 else 's'} before the run: {_found_text(event)}"
            )
        case events.Configure():
            verb = "restoring" if event.puts_back else "setting"
            return f"{verb}: {join_some(list(_setting_changes(event.changes)), most=4)}"
        case events.Configured():
            return f"{_resource_text(event.resource)}: {_setting_answer_text(event)}"
        case events.SettingsGivenUp():
            left = f"{', '.join(event.keys)} left as it is"
            return f"{_resource_text(event.resource)}: {left}{_because(event.reason)}"
        case events.SettingChanged():
            to = (
                f"has set {event.key} to {event.found}"
                if event.found
                else f"has deleted {event.key}"
            )
            return f"{_resource_text(event.resource)}: someone else {to}"
        case events.CancelAsked():
            kind = KIND_IN_WORDS[event.kind]
            return f"{kind} {scope_text((), event.partitions)}{_asked_by(event.who)}"
        case events.CancelGate():
            by = f" by {event.reason}" if event.reason else ""
            shut = f"the cancel gate is shut{by}: nothing but cancels is submitted"
            return shut if event.shut else "the cancel gate is open again"
        case events.Added():
            of = as_count(event.partitions, "partition")
            conflicts = _CONFLICTS[event.on_conflict]
            return f"plan {event.plan} joins the run, {of}; {conflicts}{_asked_by(event.who)}"
        case events.Joined():
            wait = "waits" if len(event.partitions) == 1 else "wait"
            return f"{scope_text((), event.partitions)} {wait} for the target of an extra plan"
        case events.Noted():
            return f"note: {event.text}{f', by {event.who}' if event.who else ''}"
        case events.EventCommandFailed():
            return event.reason
        case _:
            assert_never(event)


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


def _asked_by(who: str) -> str:
    return f", requested by {who}" if who else ""


def _planned_text(event: events.PlannedPart) -> str:
    if not event.partitions:
        return "no partitions of the plan"
    first, last = event.partitions[0].tp, event.partitions[-1].tp
    return f"{as_count(len(event.partitions), 'partition')} of the plan, {first} to {last}"


def _end_text(event: events.Ended) -> str:
    ended = ", ".join(f"{n:,} {state.words}" for state, n in event.counts.items() if n)
    if not event.open:
        return f"ended: {ended}"
    partitions = [f"{each.topic}-{each.partition}" for each in event.open]
    brokers = sorted({each.node for each in event.open if each.node is not None})
    at = f" (broker {join_some(brokers)})" if brokers else ""
    named = join_some(partitions, most=5)
    return f"ended: {ended}; unanswered requests may still take effect{at}: {named}"


def _step_text(event: events.StepBegun) -> str:
    signs = [f"+{b}" for b in event.adding] + [f"-{b}" for b in event.removing]
    changes = f" ({' '.join(signs)})" if signs else ""
    alters = f"{replica_list_text(event.before)} -> {replica_list_text(event.replicas)}{changes}"
    elects = "" if event.elect is None else f"elect {event.elect}"
    what = ", then ".join(filter(None, (alters if event.alters else "", elects)))
    alone = ", alone, for it can never fit the limits" if event.alone else ""
    return f"batch {event.batch:,}: {what}{alone}"


def _answer_text(event: events.Answered) -> str:
    request = _REQUESTS[event.request]
    match event.verdict:
        case Verdict.ACCEPTED:
            return f"Kafka accepted {request}{_because(event.code or '')}"
        case Verdict.UNKNOWN:
            return f"the answer to {request} was lost: it may have taken effect"
        case Verdict.REFUSED:
            return f"{request} {_refusal_text(event)}"


def _setting_answer_text(event: events.Configured) -> str:
    match event.verdict:
        case Verdict.ACCEPTED:
            return "Kafka has set it"
        case Verdict.UNKNOWN:
            return "the answer was lost: it may have taken effect"
        case Verdict.REFUSED:
            return _refusal_text(event)


def _refusal_text(event: events.Answered | events.Configured) -> str:
    what = "could not be sent" if event.code is None else "was refused"
    return f"{what}{_because(': '.join(filter(None, (event.code, event.message))))}"


def _pause_text(event: events.Paused | events.Continued) -> str:
    scope = scope_text(event.topics, event.partitions)
    who = ", ".join(filter(None, (event.by.words, event.who)))
    if isinstance(event, events.Continued):
        return f"{f'{scope} continues' if scope else 'continued'}: {who}"
    return f"paused{f' {scope}' if scope else ''} by {who}{_because(event.reason)}"


def _limit_changes_text(event: events.LimitsChanged) -> str:
    changes, new = limit_changes_text(event.old, event.new), event.new
    since = f"from {batch_noun(new)} {event.batch + 1:,} on"
    stay = f"; {event.in_flight:,} in flight stay as they are" if event.in_flight else ""
    return f"limits: {changes}; {since}{stay}{_asked_by(event.who)}"


def _found_text(event: events.SettingsFound) -> str:
    settings = [
        f"{_resource_text(each.resource)} {each.key}"
        f"{' unset' if each.before is None or each.before.own is None else '=' + each.before.value}"
        for each in event.found
    ]
    return join_some(settings, most=4)


def _setting_changes(changes: Iterable[ConfigChange]) -> Iterable[str]:
    for change in changes:
        value = "" if change.value is None else f" {change.value}"
        yield f"{_resource_text(change.resource)} {change.key} {_SIGNS[change.op]}{value}"


def _resource_text(resource: ConfigResource) -> str:
    return f"{resource.scope} {resource.name}"
