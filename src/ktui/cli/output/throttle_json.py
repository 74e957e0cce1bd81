"""The JSON form of a run's throttle: a contract, the same in every verb that prints one."""

from __future__ import annotations

import msgspec

from ktui.cli.output.json_form import utc
from ktui.cluster.ports import ConfigScope, ConfigSource
from ktui.execution.run.events import RateChosen, RateHeld
from ktui.execution.run.held_rate import RateCause, RateReason
from ktui.execution.run.throttle_status import ThrottleStatus
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates


class RatesJson(msgspec.Struct, frozen=True):
    """Bytes a second into a broker; null means no throttle."""

    every: int | None
    """The rate of each broker that `brokers` does not name."""
    brokers: tuple[BrokerRate, ...]
    budget: int | None
    """The rate of all brokers together."""
    slo: str | None
    """The objective: "p99<150ms"."""


class ChosenJson(msgspec.Struct, frozen=True):
    """The rate into each broker that --by needs; the lower of it and `rates` is in force."""

    rate: int | None
    """Bytes a second; null where all that there is is needed."""
    ends_at: str
    """When the run is expected to have ended at the latest, UTC."""
    late: bool
    """Whether that is after the time promised, at any rate."""


class ReasonJson(msgspec.Struct, frozen=True):
    """Why a rate moved last, or stays, with the facts of the window that decided it."""

    cause: RateCause
    figure: float | None
    of: int | None
    """The broker whose figure it was; null for one of all brokers."""
    used: float | None
    """The share of the rate that was in use."""
    aim: float
    """The part of the objective to stay below."""


class HeldBrokerJson(msgspec.Struct, frozen=True):
    """What the objective allows for one broker."""

    broker: int
    rate: int | None
    """Bytes a second into it; null for one that only sends."""
    figure: float | None
    why: ReasonJson | None


class HeldJson(msgspec.Struct, frozen=True):
    """The rate into each broker at which the objective holds; the lower of it and `rates` binds."""

    rate: int
    """Bytes a second into each broker to which `brokers` gives none."""
    figure: float | None
    """The figure of the last window, in the objective's unit; null for none."""
    reason: str | None
    """Why there is none."""
    windows: int
    kept: int
    """The windows of 10 s in which something was copied, and those in which the objective held."""
    why: ReasonJson | None
    brokers: tuple[HeldBrokerJson, ...]


class BeforeJson(msgspec.Struct, frozen=True):
    """The value of a setting before the run."""

    value: str
    source: ConfigSource


class StandingJson(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a broker or topic that holds, or may hold, a value of the run."""

    scope: ConfigScope
    name: str
    key: str
    ours: tuple[str, ...]
    """Of a list, the run's entries. Of a rate, its value, or each value that may be set."""
    sure: bool
    """Whether Kafka has confirmed the value; false while an answer is pending or was lost."""
    theirs: str | None
    """The rate that somebody else has set in place of the run's; null where nobody has."""
    before: BeforeJson | None
    """null where the broker did not know the setting."""


class ThrottleJson(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle of a run."""

    rates: RatesJson
    """The rates that the run wants."""
    chosen: ChosenJson | None
    """The rate that --by needs; null without --by, or before the first poll."""
    held: HeldJson | None
    """Null without an objective, or before the first rate that follows it."""
    leaders: bool
    """Whether leaders are throttled, too."""
    refusal: str | None
    """Why Kafka refused the last change of a throttle."""
    waits: str | None
    """What keeps a run with nothing left to move from ending."""
    stays: str | None
    """Why the throttles of a run without an engine stay."""
    settings: tuple[StandingJson, ...]


def rates_json(rates: ThrottleRates) -> RatesJson:
    """Return the JSON form of rates."""
    slo = None if rates.objective is None else str(rates.objective)
    return RatesJson(rates.every, rates.brokers, rates.budget, slo)


def chosen_json(chosen: RateChosen | None) -> ChosenJson | None:
    """Return the JSON form of the rate that --by needs."""
    if chosen is None:
        return None
    return ChosenJson(chosen.rate, utc(chosen.ends_at), chosen.late)


def held_json(held: RateHeld | None) -> HeldJson | None:
    """Return the JSON form of the rate at which the objective holds."""
    if held is None:
        return None
    brokers = (
        HeldBrokerJson(each.broker, each.rate, each.figure, _reason_json(each.why))
        for each in held.brokers
    )
    return HeldJson(
        rate=held.rate,
        figure=held.figure,
        reason=held.reason or None,
        windows=held.windows,
        kept=held.kept,
        why=_reason_json(held.why),
        brokers=tuple(brokers),
    )


def _reason_json(why: RateReason | None) -> ReasonJson | None:
    if why is None:
        return None
    return ReasonJson(why.cause, why.figure, why.of, why.used, why.aim)


def throttle_json(throttle: ThrottleStatus, *, owned: bool) -> ThrottleJson:
    """Return the JSON form of a run's throttle.

    Args:
        throttle: the throttle.
        owned: whether the run has an engine.
    """
    settings = (
        StandingJson(
            scope=resource.scope,
            name=resource.name,
            key=name,
            ours=tuple(sorted(ours.values)),
            sure=not ours.unsure,
            theirs=throttle.foreign.get((resource, name)),
            before=None
            if ours.before is None
            else BeforeJson(ours.before.value, ours.before.source),
        )
        for (resource, name), ours in throttle.settings.items()
    )
    return ThrottleJson(
        rates=rates_json(throttle.rates),
        chosen=chosen_json(throttle.chosen),
        held=held_json(throttle.held),
        leaders=throttle.leaders,
        refusal=throttle.refusal or None,
        waits=throttle.waits,
        stays=None if owned else throttle.stays,
        settings=tuple(settings),
    )
