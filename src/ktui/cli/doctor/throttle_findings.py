"""Judge the throttles that are set, and name the fix for each. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from ktui.cli.doctor.findings import DoctorFinding, Level, name_some
from ktui.cli.doctor.throttle_scan import FoundThrottle, ThrottleReason, ThrottleScan
from ktui.cluster.left_behind import BoundReplica
from ktui.cluster.ports import ConfigSource, Setting
from ktui.cluster.text import clean
from ktui.cluster.throttle_settings import ALL, REPLICAS
from ktui.execution.run.throttle_status import inherited_value_text, name_resources
from ktui.planning.names import join_all, join_named, join_some
from ktui.quantities import as_count, as_rate

CLEAR = (
    "`ktui doctor --clear-throttles --dry-run` shows each throttle; without --dry-run it removes "
    "them."
)


def judge_throttles(scan: ThrottleScan) -> list[DoctorFinding]:
    """Return the findings, the worst first."""
    found = [throttle for throttle in scan.throttles if not throttle.down]
    findings = [
        *(DoctorFinding(Level.WARNING, f"could not read: {sentence}") for sentence in scan.unread),
        *_down(scan.down),
        *_catching_up(scan),
        *_of_runs([t for t in found if t.reason is ThrottleReason.WAITING_RUN]),
        *_rates(
            [t for t in found if t.reason is ThrottleReason.LEFT_BEHIND and t.key not in REPLICAS]
        ),
        *_lists([t for t in found if t.reason is ThrottleReason.LEFT_BEHIND and t.key in REPLICAS]),
        *_log_dirs([t for t in found if t.reason is ThrottleReason.LOG_DIRS]),
        *_inherited([t for t in found if t.reason is ThrottleReason.INHERITED]),
    ]
    return findings or [DoctorFinding(Level.GOOD, "no replication throttle is left behind")]


def _down(down: Sequence[int]) -> Iterator[DoctorFinding]:
    if down:
        yield DoctorFinding(
            Level.WARNING,
            f"could not read {unread_brokers(down)}",
            "A rate that is set there binds again once the broker is back. "
            "`ktui doctor --clear-throttles` deletes it through a controller, if nobody needs it.",
        )


def unread_brokers(down: Sequence[int]) -> str:
    """Name the brokers that are down, whose throttles nobody can read."""
    verb = "is" if len(down) == 1 else "are"
    return f"the throttles of {join_named('broker', down, most=20)}, which {verb} down"


def _catching_up(scan: ThrottleScan) -> Iterator[DoctorFinding]:
    for sentence in catching_up_sentences(scan):
        fix = (
            "So this throttle is in use. Once the replicas are in sync, `ktui doctor "
            "--clear-throttles` removes it."
        )
        yield DoctorFinding(Level.NOTE, sentence, fix)


def catching_up_sentences(scan: ThrottleScan) -> Iterator[str]:
    """Yield who catches up under throttles that would be left behind otherwise, with the rates."""
    kept = [t for t in scan.throttles if t.reason is ThrottleReason.CATCHING_UP]
    by_broker: defaultdict[int, set[BoundReplica]] = defaultdict(set)
    for throttle in kept:
        for bound in throttle.binds:
            by_broker[bound.replica.broker].add(bound)
    for _, theirs in sorted(by_broker.items()):
        topics = name_some("topic", sorted({each.replica.tp.topic for each in theirs}))
        yield f"{who_catches_up(theirs, scan.down)} of {topics}, {_under(scan, theirs)}"
    if any(not throttle.binds for throttle in kept):
        yield "replicas may be catching up under throttles: not every partition could be read"


def who_catches_up(bound: Collection[BoundReplica], down: Collection[int]) -> str:
    """Name the brokers that have replicas out of sync, each with the number of partitions."""
    partitions: defaultdict[int, set[object]] = defaultdict(set)
    for each in bound:
        partitions[each.replica.broker].add(each.replica.tp)
    words = [
        f"broker {broker} is {'down and behind in' if broker in down else 'catching up on'} "
        f"{as_count(len(tps), 'partition')}"
        for broker, tps in sorted(partitions.items())
    ]
    return join_all(words) if words else "a replica may be catching up; its topic could not be read"


def _under(scan: ThrottleScan, bound: Collection[BoundReplica]) -> str:
    """Return the rates that bind replicas: "throttled to 1.0 MB/s by KEY on broker 3"."""
    binding = {each.rate for each in bound}
    alike: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for throttle in scan.throttles:
        if (throttle.resource, throttle.key) in binding:
            alike[_rate(throttle), throttle.key].append(int(throttle.resource.name))
    words = [
        f"to {rate} by {key} on {join_named('broker', brokers, most=8)}"
        for (rate, key), brokers in alike.items()
    ]
    return f"throttled {join_all(words)}" if words else "in a list of throttled replicas"


def _of_runs(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    for run in sorted({throttle.run for throttle in found}):
        where = name_resources([(t.resource, t.key) for t in found if t.run == run])
        yield DoctorFinding(
            Level.WARNING,
            f"run {run} has no engine, and its throttle is still set on {where}",
            f"`ktui resume {run}` continues the run, and restores the previous settings. An "
            "exported run restores them where it is imported. See each value with "
            f"`ktui throttle {run}`.",
        )


def _rates(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    for key in sorted({throttle.key for throttle in found}):
        rated = [_rated(throttle) for throttle in found if throttle.key == key]
        yield DoctorFinding(
            Level.WARNING,
            f"{key} is set on {join_some(rated, most=5)}, and nothing moves",
            f"An earlier move left it behind, or a run is between two steps. {CLEAR}",
        )


def _rated(throttle: FoundThrottle) -> str:
    return f"{throttle.where} ({_rate(throttle)})"


def _rate(throttle: FoundThrottle) -> str:
    value = clean(throttle.value)
    return as_rate(int(value)) if value.isdecimal() else value


def _lists(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    everything = sorted({t.resource.name for t in found if ALL in t.values})
    listed = sorted({t.resource.name for t in found if ALL not in t.values})
    fix = f"A listed replica that is in sync stalls producers at every leader change. {CLEAR}"
    if everything:
        what = (
            f"every replica of {name_some('topic', everything)} is throttled (*), and nothing moves"
        )
        yield DoctorFinding(Level.WARNING, what, fix)
    if listed:
        named = name_some("topic", listed)
        what = f"throttled replicas that are not being added are listed for {named}"
        yield DoctorFinding(Level.WARNING, what, fix)


def _log_dirs(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    if found:
        yield DoctorFinding(
            Level.NOTE,
            f"{found[0].key} is set on {join_some(map(_rated, found), most=5)}",
            "It limits moves between the log dirs of a broker, which ktui cannot see. If none is "
            "in flight, delete it with kafka-configs --entity-type brokers.",
        )


def _inherited(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    alike: dict[tuple[str, Setting], list[int]] = {}
    for throttle in found:
        alike.setdefault((throttle.key, throttle.setting), []).append(int(throttle.resource.name))
    for (key, setting), brokers in alike.items():
        fix = "delete it with kafka-configs --entity-type brokers --entity-default."
        if setting.source is ConfigSource.FILE:
            fix = "take it out of server.properties, and restart."
        yield DoctorFinding(
            Level.NOTE,
            f"{key} is {clean(inherited_value_text(setting))} on {name_some('broker', brokers)}",
            f"It limits every listed replica, now and later. --clear-throttles keeps it: {fix}",
        )
