"""The effect of a new throttle on the steps in flight, shown while it is typed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cluster.settings import FETCH_BYTES
from ktui.execution.run.throttle_ledger import ThrottleLedger
from ktui.planning.names import join_named
from ktui.planning.throttle_rates import KB, ThrottleRates
from ktui.progress.memory import STALLED_AFTER_S
from ktui.progress.summary import Inflow
from ktui.quantities import as_count, as_duration, as_rate, as_rate_above
from ktui.tui.run_view.throttle import Inflows

_LOWERED = "Lowered: for up to 11 s, until Kafka's average is under it, nothing may flow. No stall."
"""replication.quota.window.num is 11 windows of 1 s, unless the brokers set another number."""

ColouredSentence = tuple[str, str]
"""A sentence, and the role of its colour."""


def throttle_effects(
    now: ThrottleLedger, new: ThrottleRates, into: Inflows
) -> list[ColouredSentence]:
    """Return the effects of a new throttle, the worst first.

    Args:
        now: the throttles of the run.
        new: the rates typed.
        into: the traffic into each broker by the steps in flight.
    """
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
    """Name the copies that cannot or may not catch up on the worst broker, and a rate for all."""
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
    """Return whether less may come into any of these brokers than before."""
    pairs = [(old.of(broker), new.of(broker)) for broker in brokers]
    return any(after is not None and (was is None or after < was) for was, after in pairs)


def _lost_rates(old: ThrottleRates, new: ThrottleRates) -> Iterator[str]:
    """Name the brokers that lose a rate of their own because it was not typed again."""
    kept = {each.broker for each in new.brokers}
    lost = [e.broker for e in old.brokers if e.broker not in kept and e.bytes_s != new.every]
    if lost:
        rate = "no throttle" if new.every is None else as_rate(new.every)
        yield f"{_brokers(lost).capitalize()} would get {rate} too; to keep a rate, type it again."


def _brokers(ids: list[int]) -> str:
    return join_named("broker", sorted(ids), most=4)
