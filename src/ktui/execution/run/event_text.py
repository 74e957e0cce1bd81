"""Describe each event of a run in one line, for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import assert_never

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, Verdict
from ktui.cluster.text import clean
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import (
    Added,
    AddEvent,
    Answered,
    AnyRunEvent,
    Cancel,
    CancelAsked,
    CancelEvent,
    CancelGate,
    Configure,
    Configured,
    Continued,
    Elect,
    Ended,
    EngineLeft,
    Exported,
    HealthGate,
    Imported,
    Joined,
    LimitsChanged,
    OnConflict,
    Outage,
    Owned,
    Paused,
    PauseOrigin,
    PlannedPart,
    Recording,
    Recovered,
    Replanned,
    SettingChanged,
    SettingsFound,
    SettingsGivenUp,
    Started,
    StateEntered,
    StepBegun,
    StepOver,
    ThrottleChanged,
    ThrottleEvent,
)
from ktui.pacing.limits import LETTERS, Limits, Mode
from ktui.planning.names import join_some
from ktui.quantities import as_count

DescribedEvent = (
    ThrottleChanged | SettingsFound | Configure | Configured | SettingsGivenUp | SettingChanged
)  # fmt: skip
_SIGNS = {ConfigOp.APPEND: "+", ConfigOp.SUBTRACT: "-", ConfigOp.SET: "=", ConfigOp.DELETE: "unset"}


def throttle_event_text(event: DescribedEvent) -> str:  # noqa: PLR0911 - a case an event
    """Describe a change of throttles."""
    match event:
        case ThrottleChanged():
            who = f", asked by {event.who}" if event.who else ""
            return f"throttle: {event.old.words} -> {event.new.words}, at once{who}"
        case SettingsFound():
            return f"found before they are touched: {_found_text(event)}"
        case Configure():
            verb = "to be put back" if event.puts_back else "to be set"
            return f"{verb}: {join_some(list(_setting_changes(event.changes)), told=4)}"
        case Configured():
            return f"{_target(event.resource)}: {_verdict_text(event)}"
        case SettingsGivenUp():
            why = f": {event.reason}" if event.reason else ""
            return f"{_target(event.resource)}: {', '.join(event.keys)} left as it is{why}"
        case SettingChanged():
            if not event.found:
                return f"{_target(event.resource)}: somebody else has deleted {event.key}"
            return f"{_target(event.resource)}: somebody else has set {event.key} to {event.found}"
        case _:
            assert_never(event)


def _found_text(event: SettingsFound) -> str:
    settings = [
        f"{_target(each.resource)} {each.key}"
        f"{' unset' if each.before is None or each.before.own is None else '=' + each.before.value}"
        for each in event.found
    ]
    return join_some(settings, told=4)


def _setting_changes(changes: Iterable[ConfigChange]) -> Iterable[str]:
    for change in changes:
        value = "" if change.value is None else f" {change.value}"
        yield f"{_target(change.resource)} {change.key} {_SIGNS[change.op]}{value}"


def _verdict_text(event: Configured) -> str:
    if event.verdict is Verdict.ACCEPTED:
        return "Kafka has set it"
    if event.verdict is Verdict.UNKNOWN:
        return "the answer was lost: it may have taken effect"
    why = ": ".join(filter(None, (event.code, event.message)))
    return f"{'could not be sent' if event.code is None else 'was refused'}: {why}"


def _target(resource: ConfigResource) -> str:
    return f"{resource.scope} {resource.name}"


KIND_IN_WORDS = {
    CancelKind.STOP: "stop",
    CancelKind.ROLLBACK: "roll back",
    CancelKind.TRIM: "stop and trim",
}


def cancel_event_text(event: CancelEvent) -> str:
    """Describe a cancel that was asked for, or a change of the cancel gate."""
    if isinstance(event, CancelAsked):
        who = f", asked by {event.who}" if event.who else ""
        scope = join_some([str(tp) for tp in event.partitions], told=5)
        return f"{KIND_IN_WORDS[event.kind]} {scope}{who}"
    if event.shut:
        reason = f" by {event.reason}" if event.reason else ""
        return f"the cancel gate is shut{reason}: nothing but cancels is submitted"
    return "the cancel gate is open again"


def add_event_text(event: AddEvent) -> str:
    """Describe a plan that has joined, or the partitions that wait for its targets."""
    if isinstance(event, Added):
        who = f", asked by {event.who}" if event.who else ""
        of = as_count(event.partitions, "partition")
        return f"plan {event.plan} joins the run, {of}; {_CONFLICTS[event.on_conflict]}{who}"
    scope = join_some([str(tp) for tp in event.partitions], told=5)
    wait = "waits" if len(event.partitions) == 1 else "wait"
    return f"{scope} {wait} for the target of an extra plan"


_CONFLICTS = {
    OnConflict.ROLLBACK: "partitions that the run moves elsewhere are rolled back first",
    OnConflict.KEEP: "partitions that the run moves elsewhere keep their target",
    OnConflict.RETARGET: "partitions that the run moves elsewhere go there from where they are",
}


_WHO = {
    PauseOrigin.OPERATOR: "an operator",
    PauseOrigin.SIGNAL: "an interrupt (Ctrl-C)",
    PauseOrigin.UNTIL: "the time given with --until",
    PauseOrigin.FAILURE: "a failure",
    PauseOrigin.RECOVERY: "the recovery of a damaged journal",
}
_REQUESTS = {"alter": "the alter", "elect": "the election", "cancel": "the cancel"}


def describe_event(event: AnyRunEvent) -> str:
    """Describe an event without naming its partition; control characters are escaped."""
    return clean(_event_text(event))


def event_sentence(event: AnyRunEvent) -> str:
    """Describe an event in one line that stands alone, with its partition."""
    tp = getattr(event, "tp", None)
    return clean(_event_text(event) if tp is None else f"{tp}: {_event_text(event)}")


def limits_text(limits: Limits) -> str:
    """Describe limits: "R 1, P 20, gentle, rolling, by topic".

    Limits that are not set are left out. The letters are those of KIP-435 and of the options' help.
    """
    counts = [
        f"{letter} {_count(limits, o)}" for o, letter in LETTERS.items() if _is_set(limits, o)
    ]
    return ", ".join([*counts, limits.shape, limits.mode, f"by {limits.order}"])


def batch_noun(limits: Limits) -> str:
    """Return the noun for a batch under some limits: wave or decision."""
    return "wave" if limits.mode is Mode.WAVE else "decision"


def scope_text(topics: Sequence[str], partitions: Sequence[TopicPartition]) -> str:
    """Name the topics and partitions of a command's scope; empty for the whole run."""
    named = [f"topic {topic}" for topic in topics] + [str(tp) for tp in partitions]
    return join_some(named, told=5)


def pause_origin_text(by: PauseOrigin) -> str:
    """Name the origin of a pause, or of its end."""
    return _WHO[by]


def _event_text(event: AnyRunEvent) -> str:
    match event:
        case StepBegun() | Elect() | Cancel() | Answered():
            return _request_text(event)
        case StepOver() | StateEntered() | Replanned():
            return _outcome_text(event)
        case (
            Started()
            | PlannedPart()
            | Recovered()
            | Ended()
            | Owned()
            | EngineLeft()
            | Exported()
            | Imported()
        ):
            return _lifecycle_text(event)
        case LimitsChanged() | Paused() | Continued() | HealthGate() | Outage() | Recording():
            return _control_text(event)
        case ThrottleEvent():
            return throttle_event_text(event)
        case CancelAsked() | CancelGate() | Added() | Joined():
            return (
                cancel_event_text(event)
                if isinstance(event, CancelEvent)
                else add_event_text(event)
            )
        case _:
            assert_never(event)


def _request_text(event: StepBegun | Elect | Cancel | Answered) -> str:
    match event:
        case StepBegun():
            return _step_text(event)
        case Elect():
            return f"{event.leader} is to be elected as its leader"
        case Cancel():
            return f"its step is cancelled: {event.reason}"
        case Answered():
            return _answer_text(event)


def _outcome_text(event: StepOver | StateEntered | Replanned) -> str:
    match event:
        case StepOver():
            leader = "without a leader" if event.leader is None else f"led by {event.leader}"
            what = "step over" if event.reached else f"step given up: {event.reason}"
            return f"{what}; {replica_list_text(event.replicas)}, {leader}"
        case StateEntered():
            state = event.state.words
            return f"{state}: {event.reason}" if event.reason else state
        case Replanned():
            now = f"someone else gave it {replica_list_text(event.replicas)}"
            return f"{now} instead of {replica_list_text(event.before)}; it goes on from there"


def _control_text(
    event: LimitsChanged | Paused | Continued | HealthGate | Outage | Recording,
) -> str:
    match event:
        case LimitsChanged():
            stay = f"; {event.in_flight:,} in flight stay as they are" if event.in_flight else ""
            who = f", asked by {event.who}" if event.who else ""
            since = f"from {batch_noun(event.new)} {event.batch + 1:,} on"
            return f"limits: {_limit_changes(event)}; {since}{stay}{who}"
        case HealthGate():
            reason = f": {event.reason}" if event.reason else ""
            return f"the gate is shut{reason}" if event.shut else "the gate is open again"
        case Outage():
            reason = f": {event.reason}" if event.reason else ""
            return f"the cluster is lost{reason}" if event.lost else "the cluster answers again"
        case Recording():
            if event.on:
                return "its engine records what it observes"
            return event.reason or "its engine does not record what it observes"
        case Paused() | Continued():
            return _pause_text(event)


def _step_text(event: StepBegun) -> str:
    signs = [f"+{b}" for b in event.adding] + [f"-{b}" for b in event.removing]
    changes = f" ({' '.join(signs)})" if signs else ""
    alters = f"{replica_list_text(event.before)} -> {replica_list_text(event.replicas)}{changes}"
    elects = "" if event.elect is None else f"elect {event.elect}"
    what = ", then ".join(filter(None, (alters if event.alters else "", elects)))
    alone = ", alone, for it can never fit the limits" if event.alone else ""
    return f"batch {event.batch:,}: {what}{alone}"


def _answer_text(event: Answered) -> str:
    request = _REQUESTS[event.request]
    if event.verdict is Verdict.ACCEPTED:
        return f"Kafka accepted {request}{f': {event.code}' if event.code else ''}"
    if event.verdict is Verdict.UNKNOWN:
        return f"the answer to {request} was lost: it may have taken effect"
    why = ": ".join(filter(None, (event.code, event.message)))
    what = "could not be sent" if event.code is None else "was refused"
    return f"{request} {what}{f': {why}' if why else ''}"


def _lifecycle_text(
    event: Started | PlannedPart | Recovered | Ended | Owned | EngineLeft | Exported | Imported,
) -> str:
    match event:
        case Started():
            of = f"{as_count(event.partitions, 'partition')} of cluster {event.cluster_id}"
            rates = event.options.throttle
            throttle = f"; throttle {rates.words}" if rates else ""
            return f"run of {event.plan}, {of}; {limits_text(event.limits)}{throttle}"
        case PlannedPart():
            return _planned_text(event)
        case Recovered():
            return f"the journal was damaged and is recovered: {event.lost}"
        case Ended():
            counts = (f"{n:,} {s.words}" for s, n in event.counts.items() if n)
            return f"ended: {', '.join(counts)}{_still_open(event)}"
        case _:
            return _owner_text(event)


def _owner_text(event: Owned | EngineLeft | Exported | Imported) -> str:
    match event:
        case Owned():
            off = ", and does not ask who owns the cluster" if event.ownership_off else ""
            return f"process {event.pid} of {event.user} on {event.host} is its engine{off}"
        case EngineLeft():
            return f"its engine has exited: {event.reason}"
        case Exported():
            where = f"{event.file}: it goes on where that is imported"
            return f"{event.user} on {event.host} exported it to {where}"
        case Imported():
            return f"{event.user} on {event.host} imported it: it goes on in this state directory"


def _still_open(event: Ended) -> str:
    """Name the requests that may still take effect after the end."""
    if not event.open:
        return ""
    named = [f"{each.topic}-{each.partition}" for each in event.open]
    replica_list_text = sorted({each.node for each in event.open if each.node is not None})
    at = f" (broker {join_some(replica_list_text)})" if replica_list_text else ""
    return f"; unanswered requests may still take effect{at}: {join_some(named, told=5)}"


def _planned_text(event: PlannedPart) -> str:
    if not event.partitions:
        return "no partitions of the plan"
    first, last = event.partitions[0].tp, event.partitions[-1].tp
    return f"{as_count(len(event.partitions), 'partition')} of the plan, {first} to {last}"


def _pause_text(event: Paused | Continued) -> str:
    scope = scope_text(event.topics, event.partitions)
    of = f" {scope}" if scope else ""
    who = ", ".join(filter(None, (pause_origin_text(event.by), event.who)))
    if isinstance(event, Continued):
        return f"{scope or 'it'} goes on: {who}"
    return f"paused{of} by {who}{f': {event.reason}' if event.reason else ''}"


def _limit_changes(event: LimitsChanged) -> str:
    counts = [
        f"{letter} {_count(event.old, o)} -> {_count(event.new, o)}"
        for o, letter in LETTERS.items()
        if _count(event.old, o) != _count(event.new, o)
    ]
    describe_event = [
        f"{before} -> {after}"
        for before, after in (
            (event.old.shape, event.new.shape),
            (event.old.mode, event.new.mode),
            (f"by {event.old.order}", f"by {event.new.order}"),
        )
        if before != after
    ]
    return ", ".join([*counts, *describe_event])


def _is_set(limits: Limits, option: str) -> bool:
    return getattr(limits, option.replace("-", "_")) is not None


def _count(limits: Limits, option: str) -> str:
    value = getattr(limits, option.replace("-", "_"))
    return "none" if value is None else f"{value:,}"


def replica_list_text(ids: Iterable[int]) -> str:
    """Write a replica list as Kafka's tools do: "1,2,3"."""
    return ",".join(map(str, ids))
