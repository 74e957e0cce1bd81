"""The JSON form of a run's throttle: a contract, the same in every verb that prints one."""

from __future__ import annotations

import msgspec

from ktui.cluster.ports import ConfigScope, ConfigSource
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_standing import standing, stays, still_to_be_taken_off
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates


class RatesJson(msgspec.Struct, frozen=True):
    """Bytes a second into a broker; null is without a throttle."""

    every: int | None
    """For each broker that is not named."""
    brokers: tuple[BrokerRate, ...]


class BeforeJson(msgspec.Struct, frozen=True):
    """A setting before the run."""

    value: str
    source: ConfigSource


class StandingJson(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a broker or topic in which something of the run's stands, or may."""

    scope: ConfigScope
    name: str
    key: str
    ours: tuple[str, ...]
    """Of a list the run's entries; of a rate its value, or each that may be there."""
    sure: bool
    """Whether Kafka has confirmed it; false while an answer is out, or was lost."""
    before: BeforeJson | None
    """null where the broker did not know the setting."""


class ThrottleJson(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle of a run."""

    rates: RatesJson
    """Those wanted."""
    leaders: bool
    """Whether what leaders send is throttled, too."""
    refusal: str | None
    """Why Kafka would not take the last change of a throttle."""
    waits: str | None
    """What keeps a run from its end that has nothing left to move."""
    stays: str | None
    """Why throttles of a run stay that no process carries on."""
    settings: tuple[StandingJson, ...]


def rates_json(rates: ThrottleRates) -> RatesJson:
    """Put rates in their JSON form."""
    return RatesJson(rates.every, rates.brokers)


def throttle_json(run: Run, *, owned: bool) -> ThrottleJson:
    """Put the throttle of a run in its JSON form.

    Args:
        run: the run.
        owned: whether a process carries it on.
    """
    settings = (
        StandingJson(
            scope=resource.scope,
            name=resource.name,
            key=name,
            ours=tuple(sorted(ours.values)),
            sure=not ours.unsure,
            before=None
            if ours.before is None
            else BeforeJson(ours.before.value, ours.before.source),
        )
        for (resource, name), ours in standing(run.throttled).items()
    )
    return ThrottleJson(
        rates=rates_json(run.throttled.rates),
        leaders=run.options.throttle_leaders,
        refusal=run.throttled.refusal or None,
        waits=still_to_be_taken_off(run),
        stays=None if owned else stays(run),
        settings=tuple(settings),
    )
