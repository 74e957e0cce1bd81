"""The throttle of a run: what it wants, what it has set, and why that still stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

import msgspec

from ktui.cluster.ports import ConfigResource, ConfigScope, ConfigSource, Setting
from ktui.cluster.settings import SettingKey
from ktui.execution.run.events import RateChosen, RateHeld
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import SetByRun
from ktui.planning.plan import join_named
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.quantities import as_count, as_rate


class StandingSetting(msgspec.Struct, frozen=True, kw_only=True):
    """One setting of a broker or topic that holds, or may hold, a value of the run."""

    scope: ConfigScope
    name: str  # the broker or topic
    key: str
    ours: tuple[str, ...]  # of a list, the run's entries; of a rate, each value that may be set
    sure: bool  # confirmed by Kafka, and no answer is pending or lost
    theirs: str | None = None  # somebody else's rate in place of the run's, in Kafka's text
    before: Setting | None = None  # before the run; None where the broker did not know it

    @property
    def setting(self) -> SettingKey:
        return ConfigResource(self.scope, self.name), self.key


class ThrottleStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The throttle of a run: the desired rates, and the settings that it has changed."""

    rates: ThrottleRates = NO_THROTTLE
    chosen: RateChosen | None = None  # the rate for --by; None without
    held: RateHeld | None = None  # for the objective; None without one, or before the first
    bounded: ThrottleRates = NO_THROTTLE  # the lowest of the desired, chosen and held ones
    in_force: ThrottleRates = NO_THROTTLE  # the same with the budget shared out, as brokers are set
    leaders: bool = False  # the sending side of leaders, too
    refusal: str | None = None  # of the last change; None if Kafka accepted them all
    settings: tuple[StandingSetting, ...] = ()  # of the run, or perhaps; brokers before topics
    waits: str | None = None  # why a run with nothing left to move has not ended
    stays: str | None = None  # what a run without an engine leaves, and why

    @property
    def words(self) -> str:
        return self.bounded.with_leaders(throttled=self.leaders)

    @property
    def stands_on(self) -> str:
        """The brokers and topics whose settings the run has changed; empty for none."""
        return name_resources([each.setting for each in self.settings])

    @property
    def remains(self) -> str | None:
        """Which settings remain although nothing moves, and why; None for none."""
        return self.waits or self.stays


def throttle_status(run: Run, *, owned: bool = False) -> ThrottleStatus:
    """Return the throttle of a run as its journal has it; `owned`: it has an engine."""
    throttled, changed = run.throttled, run.throttled.changed
    return ThrottleStatus(
        rates=throttled.rates,
        chosen=throttled.chosen,
        held=throttled.held_at,
        bounded=throttled.bounded,
        in_force=throttled.in_force,
        leaders=run.options.throttle_leaders,
        refusal=throttled.refusal or None,
        settings=tuple(
            StandingSetting(
                scope=resource.scope,
                name=resource.name,
                key=key,
                ours=tuple(sorted(ours.values)),
                sure=not ours.unsure,
                theirs=throttled.foreign.get((resource, key)),
                before=ours.before,
            )
            for (resource, key), ours in changed.items()
        ),
        waits=_why_waiting(run, changed) if changed else None,
        stays=_why_left(run, changed) if changed and not owned else None,
    )


def _why_waiting(run: Run, changed: Collection[SettingKey]) -> str | None:
    if not run.tracks or run.over < len(run.tracks) or run.ended:
        return None
    why = "is down or refuses" if len({r for r, _ in changed}) == 1 else "are down or refuse"
    return (
        f"all partitions have ended; its throttle is still set on {name_resources(changed)}, "
        f"which {why} the change"
    )


def _why_left(run: Run, changed: Collection[SettingKey]) -> str | None:
    if run.ended or run.exported is not None:
        return None
    until = "`ktui reassign --verify` finds it complete" if run.submitted else "it is resumed"
    where = f"its throttle stays on {name_resources(changed)} until {until}"
    if run.left is None:  # an engine whose disk is full removes throttles, and cannot note that
        may = where.replace("stays", "may stay", 1)
        return f"{may}: its engine noted no removal"
    if run.in_flight:
        in_flight = as_count(run.in_flight, "step")
        return f"{where}: {in_flight} in flight {'needs' if run.in_flight == 1 else 'need'} it"
    return f"{where}: it could not be removed"


def name_resources(keys: Collection[SettingKey]) -> str:
    """Name the brokers and topics of settings: "brokers 4 and 5 and topic orders"."""
    brokers = {int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER}
    topics = {r.name for r, _ in keys if r.scope is ConfigScope.TOPIC}
    named = [
        join_named(noun, names, most=8)
        for noun, names in (("broker", sorted(brokers)), ("topic", sorted(topics)))
        if names
    ]
    return " and ".join(named)


def setting_text(key: SettingKey, ours: SetByRun) -> str:
    """Describe one setting: the run's values in it, and the value before the run."""
    resource, name = key
    value = ",".join(sorted(ours.values)) or "nothing of the run's for certain"
    return (
        f"{resource.scope} {resource.name} {name}={value} (before: {prior_value_text(ours.before)})"
    )


def foreign_rates_text(foreign: Mapping[SettingKey, str]) -> str:
    """Name where somebody else has set a rate in place of the run's."""
    rates = {key: value for key, value in foreign.items() if key[0].scope is ConfigScope.BROKER}
    return f"someone else has set another rate on {name_resources(rates or foreign)}"


def taken_over_text(foreign: Mapping[SettingKey, str], rates: ThrottleRates) -> str:
    """Name others' rates (in Kafka's text) that new ones of the run replace, if any."""
    theirs: defaultdict[str, list[int]] = defaultdict(list)
    for (resource, _), value in sorted(foreign.items()):
        if rates.of(broker := int(resource.name)) is not None:
            theirs[as_rate(int(value)) if value.isdecimal() else value].append(broker)
    named = [
        f"{rate} of somebody else on {join_named('broker', brokers)}"
        for rate, brokers in theirs.items()
    ]
    return f"replaces {' and '.join(named)}, put back at the end" if named else ""


def lifted_text(old: ThrottleRates, new: ThrottleRates) -> str:
    """Name the budget and the objective of old rates that new ones leave out; empty for neither."""
    lifted = ThrottleRates(
        budget=old.budget if new.budget is None else None,
        objective=old.objective if new.objective is None else None,
    )
    return f"no longer in force: {lifted.words}" if lifted else ""


def prior_value_text(setting: Setting | None) -> str:
    """Describe the value of a setting before the run."""
    if setting is None:  # a broker does not report a rate that is not set
        return "unset"
    if setting.own is not None:
        return setting.own or "empty"
    return (
        "unset"
        if setting.source is ConfigSource.DEFAULT
        else f"unset, {inherited_value_text(setting)}"
    )


def inherited_value_text(setting: Setting) -> str:
    """Describe the value in force where nothing is set on the broker itself."""
    where = "its file" if setting.source is ConfigSource.FILE else "the setting of every broker"
    return f"{setting.value} from {where}"
