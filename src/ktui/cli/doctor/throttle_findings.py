"""Judge the throttles that are set, and name the fix for each. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktui.cli.doctor.findings import DoctorFinding, Level, name_some
from ktui.cli.doctor.throttle_scan import FoundThrottle, ThrottleReason, ThrottleScan
from ktui.cluster.ports import ConfigSource, Setting
from ktui.cluster.text import clean
from ktui.cluster.throttle_settings import ALL, REPLICAS
from ktui.execution.run.throttle_standing import inherited_value_text, name_resources
from ktui.planning.names import join_some
from ktui.quantities import as_rate

CLEAR = (
    "`ktui doctor --clear-throttles --dry-run` shows each throttle; without --dry-run it removes "
    "them."
)


def judge_throttles(scan: ThrottleScan) -> list[DoctorFinding]:
    """Return the findings, the worst first."""
    found = scan.throttles
    findings = [
        *(DoctorFinding(Level.WARNING, f"could not read: {sentence}") for sentence in scan.unread),
        *_of_runs([t for t in found if t.stands is ThrottleReason.WAITING_RUN]),
        *_rates(
            [t for t in found if t.stands is ThrottleReason.LEFT_BEHIND and t.key not in REPLICAS]
        ),
        *_lists([t for t in found if t.stands is ThrottleReason.LEFT_BEHIND and t.key in REPLICAS]),
        *_log_dirs([t for t in found if t.stands is ThrottleReason.LOG_DIRS]),
        *_inherited([t for t in found if t.stands is ThrottleReason.INHERITED]),
    ]
    return findings or [DoctorFinding(Level.GOOD, "no replication throttle is left behind")]


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
            f"{key} is set on {join_some(rated, told=5)}, and nothing moves",
            f"An earlier move left it behind, or a run is between two steps. {CLEAR}",
        )


def _rated(throttle: FoundThrottle) -> str:
    value = clean(throttle.value)
    rate = as_rate(int(value)) if value.isdecimal() else value
    return f"{throttle.where} ({rate})"


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
            f"{found[0].key} is set on {join_some(map(_rated, found), told=5)}",
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
