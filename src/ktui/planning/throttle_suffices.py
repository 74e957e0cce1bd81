"""Whether a throttle lets replicas catch up with what is written meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ktui.cluster.errors import Operation
from ktui.cluster.throttle_settings import FETCH_BYTES
from ktui.planning.disks import warning
from ktui.planning.finding import Finding, Kind, Severity
from ktui.planning.names import among
from ktui.planning.throttled_run import ThrottledRun, adds_of, brokers_named
from ktui.quantities import as_duration, as_rate, as_rate_above

STALLED_AFTER_S = 30.0
"""A replica whose log end has not moved for so long is told as stalled (progress/stalls.py)."""


def does_not_suffice(run: ThrottledRun) -> Iterator[Finding]:
    """Name the brokers on which replicas may never catch up, and what would end it."""
    for rate, brokers in run.by_rate(run.growing.gaining).items():
        yield from _under_one_partition(run, rate, brokers)
        yield from _under_all_at_once(run, rate, brokers)
        yield from _slower_than_a_fetch(rate, brokers)
    if run.leaders and run.growing.wanted:
        yield _leaders(run)
    yield from _unknown(run)


def _under_one_partition(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    """A replica never catches up where as much is written to it as its throttle lets through."""
    low = [b for b in brokers if _most(run, b) >= rate]
    if not low:
        return
    worst = max(low, key=lambda broker: _most(run, broker))
    bytes_s, tp = run.growing.onto[worst][0]
    together = max(run.most_at_once(broker) for broker in low)
    told = (
        f"at {as_rate(rate)} into {brokers_named(low)} the run never ends: "
        f"{as_rate_above(bytes_s)} are written to {tp}; more than {as_rate_above(bytes_s)} would "
        "end it"
    )
    if together > bytes_s:
        told += f" with --per-broker 1, more than {as_rate_above(together)} under these limits"
    tps = {tp for b in low for bytes_s, tp in run.growing.onto[b] if bytes_s >= rate}
    yield Finding(Severity.WARNING, Kind.NEVER_ENDS, tuple(sorted(tps)), told)


def _under_all_at_once(run: ThrottledRun, rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    """Replicas that share a throttle may never catch up, though each by itself would."""
    written = run.played.peak_written
    low = [b for b in brokers if written[b] >= rate and _most(run, b) < rate]
    if not low:
        return
    most = max(written[broker] for broker in low)
    few = min(_fitting(run, broker, rate) for broker in low)
    enough = max(run.most_at_once(broker) for broker in low)
    told = (
        f"at {as_rate(rate)} into {brokers_named(low)} the run may never end: up to "
        f"{as_rate_above(most)} are written to what comes to one broker at once; --per-broker "
        f"{few} would end it, or more than {as_rate_above(enough)}"
    )
    yield warning(Kind.NEVER_ENDS, told)


def _most(run: ThrottledRun, broker: int) -> int:
    """Give the most that is written to one partition that comes to a broker."""
    coming = run.growing.onto.get(broker, ())
    return coming[0][0] if coming else 0


def _fitting(run: ThrottledRun, broker: int, rate: int) -> int:
    """Give how many replicas at once always leave some of the rate: even those with the most."""
    together = 0
    for count, (bytes_s, _) in enumerate(run.growing.onto[broker]):
        together += bytes_s
        if together >= rate:
            return count
    return len(run.growing.onto[broker])


def _slower_than_a_fetch(rate: int, brokers: Sequence[int]) -> Iterator[Finding]:
    if rate * STALLED_AFTER_S >= FETCH_BYTES:
        return
    told = (
        f"at {as_rate(rate)} into {brokers_named(brokers)} one fetch of 1 MiB takes "
        f"{as_duration(FETCH_BYTES / rate)}: copies are told as stalled in between; from "
        f"{as_rate_above(FETCH_BYTES / STALLED_AFTER_S)} on they are not"
    )
    yield warning(Kind.SLOWER_THAN_A_FETCH, told)


def _leaders(run: ThrottledRun) -> Finding:
    """Say what a throttle of leaders counts, and whom it may starve."""
    told = (
        "--throttle-leaders: what in-sync followers fetch of the partitions in flight counts "
        "against the rate of their leaders, too, and goes first"
    )
    sent = run.played.peak_sent
    rates = run.by_rate(run.growing.holding)
    low = sorted(b for rate, those in rates.items() for b in those if sent[b] >= rate)
    if low:
        most = max(sent[broker] for broker in low)
        told += (
            f": on {brokers_named(low)} it is up to {as_rate_above(most)} with the new ones, no "
            f"less than the rate, so that they may never catch up; more than {as_rate_above(most)} "
            "would do, or no --throttle-leaders"
        )
    return warning(Kind.LEADERS_THROTTLED, told)


def _unknown(run: ThrottledRun) -> Iterator[Finding]:
    known = run.growing.snapshot.inbound
    tps = [
        one.tp
        for one in run.growing.wanted
        if one.tp not in known and any(run.throttle.of(b) is not None for b in adds_of(one))
    ]
    if tps:
        failures = run.growing.snapshot.failures
        why = next((f": {f.sentence}" for f in failures if f.operation is Operation.LOG_ENDS), "")
        told = (
            f"how much is written to {among(tps)} is not known, nor whether the throttle lets "
            f"through more{why}"
        )
        yield Finding(Severity.NOTE, Kind.INBOUND_UNKNOWN, tuple(tps), told)
