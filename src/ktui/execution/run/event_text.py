"""Each event of a run in one line, for people."""

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
    By,
    Cancel,
    CancelAsked,
    CancelEvent,
    CancelGate,
    Configure,
    Configured,
    Continued,
    Elect,
    Ended,
    Exported,
    Gate,
    Imported,
    Joined,
    Left,
    LimitsChanged,
    NowIn,
    OnConflict,
    Outage,
    Owned,
    Paused,
    PlannedPart,
    Recording,
    Recovered,
    Replanned,
    SettingChanged,
    SettingsFound,
    SettingsLeft,
    Started,
    StepBegun,
    StepOver,
    ThrottleChanged,
    ThrottleEvent,
)
from ktui.pacing.limits import LETTERS, Limits, Mode
from ktui.planning.names import join_some
from ktui.quantities import as_count

DescribedEvent = (
    ThrottleChanged | SettingsFound | Configure | Configured | SettingsLeft | SettingChanged
)  # fmt: skip
_SIGNS = {ConfigOp.APPEND: "+", ConfigOp.SUBTRACT: "-", ConfigOp.SET: "=", ConfigOp.DELETE: "unset"}


def throttle_words(event: DescribedEvent) -> str:  # noqa: PLR0911 - a case an event
    """Say what was done to throttles."""
    match event:
        case ThrottleChanged():
            who = f", asked by {event.who}" if event.who else ""
            return f"throttle: {event.old.words} -> {event.new.words}, at once{who}"
        case SettingsFound():
            return f"found before they are touched: {_found(event)}"
        case Configure():
            verb = "to be put back" if event.puts_back else "to be set"
            return f"{verb}: {join_some(list(_setting_changes(event.changes)), told=4)}"
        case Configured():
            return f"{_of(event.resource)}: {_verdict(event)}"
        case SettingsLeft():
            why = f": {event.reason}" if event.reason else ""
            return f"{_of(event.resource)}: {', '.join(event.keys)} left as it is{why}"
        case SettingChanged():
            if not event.found:
                return f"{_of(event.resource)}: somebody else has deleted {event.key}"
            return f"{_of(event.resource)}: somebody else has set {event.key} to {event.found}"
        case _:
            assert_never(event)


def _found(event: SettingsFound) -> str:
    told = [
        f"{_of(each.resource)} {each.key}"
        f"{' unset' if each.before is None or each.before.own is None else '=' + each.before.value}"
        for each in event.found
    ]
    return join_some(told, told=4)


def _setting_changes(changes: Iterable[ConfigChange]) -> Iterable[str]:
    for change in changes:
        value = "" if change.value is None else f" {change.value}"
        yield f"{_of(change.resource)} {change.key} {_SIGNS[change.op]}{value}"


def _verdict(event: Configured) -> str:
    if event.verdict is Verdict.ACCEPTED:
        return "Kafka has set it"
    if event.verdict is Verdict.UNKNOWN:
        return "the answer was lost: it may have taken effect"
    why = ": ".join(filter(None, (event.code, event.message)))
    return f"{'could not be sent' if event.code is None else 'was refused'}: {why}"


def _of(resource: ConfigResource) -> str:
    return f"{resource.scope} {resource.name}"


KIND_IN_WORDS = {
    CancelKind.STOP: "stop",
    CancelKind.ROLLBACK: "roll back",
    CancelKind.TRIM: "stop and trim",
}


def cancel_words(event: CancelEvent) -> str:
    """Say what was asked for, or that the cancel gate was shut or opened."""
    if isinstance(event, CancelAsked):
        who = f", asked by {event.who}" if event.who else ""
        scope = join_some([str(tp) for tp in event.partitions], told=5)
        return f"{KIND_IN_WORDS[event.kind]} {scope}{who}"
    if event.shut:
        reason = f" by {event.reason}" if event.reason else ""
        return f"the cancel gate is shut{reason}: nothing but cancels is submitted"
    return "the cancel gate is open again"


def add_words(event: AddEvent) -> str:
    """Say which plan has joined, or who of it waits in the queue now."""
    if isinstance(event, Added):
        who = f", asked by {event.who}" if event.who else ""
        of = as_count(event.partitions, "partition")
        return f"plan {event.plan} joins the run, {of}; {_CONFLICTS[event.on_conflict]}{who}"
    scope = join_some([str(tp) for tp in event.partitions], told=5)
    wait = "waits" if len(event.partitions) == 1 else "wait"
    return f"{scope} {wait} for the target of an extra plan"


_CONFLICTS = {
    OnConflict.ROLLBACK: "what the run moves elsewhere is rolled back first",
    OnConflict.KEEP: "what the run moves elsewhere keeps its target",
    OnConflict.RETARGET: "what the run moves elsewhere goes there from where it is",
}


_WHO = {
    By.OPERATOR: "an operator",
    By.SIGNAL: "an interrupt (Ctrl-C)",
    By.UNTIL: "the time given with --until",
    By.FAILURE: "a failure",
    By.RECOVERY: "the recovery of a damaged journal",
}
_REQUESTS = {"alter": "the alter", "elect": "the election", "cancel": "the cancel"}


def words(event: AnyRunEvent) -> str:
    """Say what happened, fit to be shown; the partition it is about is not named."""
    return clean(_words(event))


def sentence(event: AnyRunEvent) -> str:
    """Say what happened, in one line that stands for itself."""
    tp = getattr(event, "tp", None)
    return clean(_words(event) if tp is None else f"{tp}: {_words(event)}")


def limits_in_words(limits: Limits) -> str:
    """Name the limits in force: "R 1, P 20, gentle, rolling, by topic"; those not set are left out.

    The letters are those of KIP-435 and of the options' help.
    """
    counts = [
        f"{letter} {_count(limits, o)}" for o, letter in LETTERS.items() if _is_set(limits, o)
    ]
    return ", ".join([*counts, limits.shape, limits.mode, f"by {limits.order}"])


def counted(limits: Limits) -> str:
    """Name what the batches of a run are under some limits."""
    return "wave" if limits.mode is Mode.WAVE else "decision"


def scope_in_words(topics: Sequence[str], partitions: Sequence[TopicPartition]) -> str:
    """Name the topics and partitions that something is about; nothing where it is about all."""
    named = [f"topic {topic}" for topic in topics] + [str(tp) for tp in partitions]
    return join_some(named, told=5)


def who_paused(by: By) -> str:
    """Name who paused a run, or let it go on."""
    return _WHO[by]


def _words(event: AnyRunEvent) -> str:
    match event:
        case StepBegun() | Elect() | Cancel() | Answered():
            return _of_request(event)
        case StepOver() | NowIn() | Replanned():
            return _of_outcome(event)
        case (
            Started()
            | PlannedPart()
            | Recovered()
            | Ended()
            | Owned()
            | Left()
            | Exported()
            | Imported()
        ):
            return _of_life(event)
        case LimitsChanged() | Paused() | Continued() | Gate() | Outage() | Recording():
            return _of_will(event)
        case ThrottleEvent():
            return throttle_words(event)
        case CancelAsked() | CancelGate() | Added() | Joined():
            return cancel_words(event) if isinstance(event, CancelEvent) else add_words(event)
        case _:
            assert_never(event)


def _of_request(event: StepBegun | Elect | Cancel | Answered) -> str:
    match event:
        case StepBegun():
            return _step(event)
        case Elect():
            return f"{event.leader} is to be elected as its leader"
        case Cancel():
            return f"its step is cancelled: {event.reason}"
        case Answered():
            return _answer(event)


def _of_outcome(event: StepOver | NowIn | Replanned) -> str:
    match event:
        case StepOver():
            leader = "without a leader" if event.leader is None else f"led by {event.leader}"
            what = "step over" if event.reached else f"step given up: {event.reason}"
            return f"{what}; {brokers(event.replicas)}, {leader}"
        case NowIn():
            state = event.state.words
            return f"{state}: {event.reason}" if event.reason else state
        case Replanned():
            now = f"someone else gave it {brokers(event.replicas)}"
            return f"{now} instead of {brokers(event.before)}; it goes on from there"


def _of_will(event: LimitsChanged | Paused | Continued | Gate | Outage | Recording) -> str:
    match event:
        case LimitsChanged():
            stay = f"; {event.in_flight:,} in flight stay as they are" if event.in_flight else ""
            who = f", asked by {event.who}" if event.who else ""
            since = f"from {counted(event.new)} {event.batch + 1:,} on"
            return f"limits: {_changes(event)}; {since}{stay}{who}"
        case Gate():
            reason = f": {event.reason}" if event.reason else ""
            return f"the gate is shut{reason}" if event.shut else "the gate is open again"
        case Outage():
            reason = f": {event.reason}" if event.reason else ""
            return f"the cluster is lost{reason}" if event.lost else "the cluster answers again"
        case Recording():
            if event.on:
                return "what its process sees is recorded"
            return event.reason or "what its process sees is not recorded"
        case Paused() | Continued():
            return _of_pause(event)


def _step(event: StepBegun) -> str:
    signs = [f"+{b}" for b in event.adding] + [f"-{b}" for b in event.removing]
    changes = f" ({' '.join(signs)})" if signs else ""
    alters = f"{brokers(event.before)} -> {brokers(event.replicas)}{changes}"
    elects = "" if event.elect is None else f"elect {event.elect}"
    what = ", then ".join(filter(None, (alters if event.alters else "", elects)))
    alone = ", alone, for it can never fit the limits" if event.alone else ""
    return f"batch {event.batch:,}: {what}{alone}"


def _answer(event: Answered) -> str:
    request = _REQUESTS[event.request]
    if event.verdict is Verdict.ACCEPTED:
        return f"Kafka accepted {request}{f': {event.code}' if event.code else ''}"
    if event.verdict is Verdict.UNKNOWN:
        return f"the answer to {request} was lost: it may have taken effect"
    why = ": ".join(filter(None, (event.code, event.message)))
    what = "could not be sent" if event.code is None else "was refused"
    return f"{request} {what}{f': {why}' if why else ''}"


def _of_life(
    event: Started | PlannedPart | Recovered | Ended | Owned | Left | Exported | Imported,
) -> str:
    match event:
        case Started():
            of = f"{as_count(event.partitions, 'partition')} of cluster {event.cluster_id}"
            rates = event.options.throttle
            throttle = f"; throttle {rates.words}" if rates else ""
            return f"run of {event.plan}, {of}; {limits_in_words(event.limits)}{throttle}"
        case PlannedPart():
            return _planned(event)
        case Recovered():
            return f"the journal was damaged and is recovered: {event.lost}"
        case Ended():
            counts = (f"{n:,} {s.words}" for s, n in event.counts.items() if n)
            return f"ended: {', '.join(counts)}{_still_open(event)}"
        case _:
            return _of_owner(event)


def _of_owner(event: Owned | Left | Exported | Imported) -> str:
    match event:
        case Owned():
            off = ", and does not ask who owns the cluster" if event.ownership_off else ""
            return f"process {event.pid} of {event.user} on {event.host} carries it on{off}"
        case Left():
            return f"its process has left it: {event.reason}"
        case Exported():
            where = f"{event.file}: it goes on where that is imported"
            return f"{event.user} on {event.host} exported it to {where}"
        case Imported():
            return f"{event.user} on {event.host} imported it: it goes on in this state directory"


def _still_open(event: Ended) -> str:
    """Name the requests that may take effect after the end."""
    if not event.open:
        return ""
    named = [f"{each.topic}-{each.partition}" for each in event.open]
    brokers = sorted({each.node for each in event.open if each.node is not None})
    at = f" (broker {join_some(brokers)})" if brokers else ""
    return f"; requests may take effect yet that were not answered{at}: {join_some(named, told=5)}"


def _planned(event: PlannedPart) -> str:
    if not event.partitions:
        return "no partitions of the plan"
    first, last = event.partitions[0].tp, event.partitions[-1].tp
    return f"{as_count(len(event.partitions), 'partition')} of the plan, {first} to {last}"


def _of_pause(event: Paused | Continued) -> str:
    scope = scope_in_words(event.topics, event.partitions)
    of = f" {scope}" if scope else ""
    who = ", ".join(filter(None, (who_paused(event.by), event.who)))
    if isinstance(event, Continued):
        return f"{scope or 'it'} goes on: {who}"
    return f"paused{of} by {who}{f': {event.reason}' if event.reason else ''}"


def _changes(event: LimitsChanged) -> str:
    counts = [
        f"{letter} {_count(event.old, o)} -> {_count(event.new, o)}"
        for o, letter in LETTERS.items()
        if _count(event.old, o) != _count(event.new, o)
    ]
    words = [
        f"{before} -> {after}"
        for before, after in (
            (event.old.shape, event.new.shape),
            (event.old.mode, event.new.mode),
            (f"by {event.old.order}", f"by {event.new.order}"),
        )
        if before != after
    ]
    return ", ".join([*counts, *words])


def _is_set(limits: Limits, option: str) -> bool:
    return getattr(limits, option.replace("-", "_")) is not None


def _count(limits: Limits, option: str) -> str:
    value = getattr(limits, option.replace("-", "_"))
    return "none" if value is None else f"{value:,}"


def brokers(ids: Iterable[int]) -> str:
    """Write a replica list as Kafka's tools do: "1,2,3"."""
    return ",".join(map(str, ids))
