"""The throttle settings of brokers and topics that a run has changed, or may have changed."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    ConfigSource,
    Setting,
    Verdict,
)
from ktui.cluster.settings import (
    RATES,
    REPLICAS,
    SettingKey,
    group_by_resource,
    parse_throttled_list,
)
from ktui.execution.run import events
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates

FLOOR = 1_000_000  # the least bytes a second with an objective, also while there is no figure

ListEntries = Mapping[SettingKey, frozenset[str]]


class SetByRun(msgspec.Struct, frozen=True):
    """The run's part of one setting."""

    before: Setting | None  # by everybody else: read before the run changed it, or found since
    values: frozenset[str] = frozenset()  # the run's entries in a list, or perhaps; its rates
    touched: bool = False  # whether the run ever asked to change it
    unsure: bool = False  # some values may not be set: an answer is pending, or was lost


class _Asked(msgspec.Struct, frozen=True):
    intent: events.Configure
    before: Mapping[str, SetByRun]  # by key, before the intent: a refusal restores that


class ThrottleLedger(msgspec.Struct):
    """The throttles of a run: the fold of its events."""

    rates: ThrottleRates = NO_THROTTLE
    shares: Mapping[int, int] = {}  # of the budget, by receiving broker, in bytes a second
    chosen: events.RateChosen | None = None  # the rate for --by; None without
    held_at: events.RateHeld | None = None  # for the objective; None before the first ones
    in_force: ThrottleRates = NO_THROTTLE  # lowest of desired, chosen, held; budget as shares
    ours: dict[SettingKey, SetByRun] = {}  # settings that the run owns, until restored
    foreign: dict[SettingKey, str] = {}  # rates of others in place of the run's
    refusals: dict[ConfigResource, str] = {}  # of the last change
    asked: dict[ConfigResource, _Asked] = {}  # the last intents without answers
    lost: set[ConfigResource] = set()  # changed again: the first change may still come
    open_nodes: dict[ConfigResource, tuple[int, ...]] = {}  # got changes, did not answer
    late: dict[SettingKey, frozenset[str]] = {}  # appends without an answer, may come late

    def set_rates(self, rates: ThrottleRates) -> None:
        if rates.objective != self.rates.objective:
            self.held_at = None
        self.rates = rates
        self._share({})

    def choose(self, chosen: events.RateChosen | None) -> None:
        self.chosen = chosen
        self._share(self.shares)

    @property
    def bounded(self) -> ThrottleRates:
        return self._kept.at_most(None if self.chosen is None else self.chosen.rate)

    @property
    def _kept(self) -> ThrottleRates:
        if self.rates.objective is None:
            return self.rates
        if self.held_at is None:
            return self.rates.at_most(FLOOR)
        return self.rates.at_most(self.held_at.rate, self.held_at.rates)

    def with_chosen(self, rate: int | None) -> ThrottleRates:
        return self._kept.at_most(rate).shared(self.shares)

    def _share(self, shares: Mapping[int, int]) -> None:
        self.shares, self.in_force = shares, self.bounded.shared(shares)

    @property
    def clean(self) -> bool:
        return not self.ours

    @property
    def changed(self) -> dict[SettingKey, SetByRun]:
        return {key: self.ours[key] for key in sorted(self.ours) if self.ours[key].touched}

    @property
    def partitions(self) -> set[TopicPartition]:
        return {
            TopicPartition(resource.name, int(listed.partition(":")[0]))
            for (resource, _), ours in self.ours.items()
            if resource.scope is ConfigScope.TOPIC
            for listed in ours.values
        }

    @property
    def brokers(self) -> list[int]:
        rates = (r for (r, _), o in self.ours.items() if r.scope is ConfigScope.BROKER and o.values)
        return sorted({int(resource.name) for resource in rates})

    @property
    def refusal(self) -> str:
        return next(iter(self.refusals.values()), "")

    def is_kept(self, rates: ThrottleRates) -> bool:
        """Whether they are the desired ones, with no refusal and no others' rate against it."""
        return rates == self.rates and not self.foreign and not self.refusals

    def held(self, key: SettingKey) -> frozenset[str]:
        ours = self.ours.get(key)
        return frozenset() if ours is None else ours.values

    def apply(self, event: events.ThrottleEvent) -> None:  # noqa: C901 - a case an event
        match event:
            case events.ThrottleChanged():
                self.set_rates(event.new)
                self.refusals.clear()
                self._override_foreign()
                self.forget_unchanged()
            case events.BudgetShared():
                self._share({each.broker: each.bytes_s or 0 for each in event.shares})
            case events.RateChosen():
                self.choose(event)
            case events.RateHeld():
                self.held_at = event
                self._share(self.shares)
            case events.SettingsFound():
                self._found(event)
            case events.SettingChanged():
                self._changed_by_others(event)
            case events.Configure():
                self._intend(event)
            case events.Configured():
                self._answered(event)
            case events.SettingsGivenUp():
                self.asked.pop(event.resource, None)
                self.refusals.pop(event.resource, None)
                for key in event.keys:
                    self._forget((event.resource, key))

    def _override_foreign(self) -> None:
        """The run's rates are set again, and those of others are restored later."""
        for key in self.foreign.keys() & self.ours.keys():
            self.ours[key] = msgspec.structs.replace(self.ours[key], unsure=True)
        self.foreign.clear()

    def _found(self, event: events.SettingsFound) -> None:
        for found in event.found:
            ours = self.ours.get((found.resource, found.key))
            if ours is None or not ours.touched:
                self.ours[found.resource, found.key] = SetByRun(found.before)

    def changed_by_others(self, key: SettingKey, found: str | None) -> bool:
        """A value from before the run is back if the run's has certainly been in its place."""
        ours = self.ours[key]
        if found in ours.values:
            return False
        before = None if ours.before is None else ours.before.own
        return found != before or bool(ours.values and not ours.unsure)

    def _changed_by_others(self, event: events.SettingChanged) -> None:
        key, found = (event.resource, event.key), event.found
        ours, theirs = self.ours.get(key), self.foreign.pop(key, None)
        if ours is None:
            return
        is_rate = event.resource.scope is ConfigScope.BROKER
        if is_rate and (found == theirs or self.changed_by_others(key, found)):
            before = None if found is None else Setting(found, ConfigSource.OWN)
            ours = msgspec.structs.replace(ours, before=before)
            if found is not None:
                self.foreign[key] = found
        if key not in self.foreign and not ours.unsure:
            present = {found} if is_rate else parse_throttled_list(found or "")
            kept = frozenset(value for value in ours.values if value in present)
            ours = msgspec.structs.replace(ours, values=kept)
        self.ours[key] = ours

    def forget_unchanged(self) -> None:
        """Forget settings that were read and not changed: others may have changed them since."""
        self.ours = {key: ours for key, ours in self.ours.items() if ours.touched}

    def _intend(self, intent: events.Configure) -> None:
        """Assume that the values asked for may be set from now on."""
        for resource, changes in group_by_resource(intent.changes).items():
            before = {c.key: self.ours.get((resource, c.key), SetByRun(None)) for c in changes}
            own = msgspec.structs.replace(intent, changes=tuple(changes))
            if resource in self.asked:
                self.lost.add(resource)
            self.asked[resource] = _Asked(own, before)
            for change in changes:
                ours = before[change.key]
                adds = change.op in (ConfigOp.SET, ConfigOp.APPEND) and not intent.puts_back
                key = resource, change.key
                if change.op is ConfigOp.APPEND:
                    self.late[key] = self.late.get(key, frozenset()) | _values(change)
                self.ours[key] = SetByRun(
                    ours.before,
                    ours.values | (_values(change) if adds else frozenset()),
                    touched=True,
                    unsure=True,
                )

    def _answered(self, event: events.Configured) -> None:
        """A lost answer settles nothing: each value may still be set."""
        if event.verdict is Verdict.UNKNOWN:
            if event.node is not None:
                nodes = self.open_nodes.get(event.resource, ())
                self.open_nodes[event.resource] = tuple(dict.fromkeys((*nodes, event.node)))
            return
        asked = self.asked.pop(event.resource, None)
        if asked is None:
            return
        refused = event.verdict is Verdict.REFUSED
        if not asked.intent.puts_back:
            self.refusals.pop(event.resource, None)
            if refused:
                self.refusals[event.resource] = event.message or event.code or ""
        for change in asked.intent.changes:
            key = event.resource, change.key
            if change.op is ConfigOp.APPEND:
                self._no_longer_late(key, _values(change))
            if refused:
                before = asked.before[change.key]
                self.ours[key] = msgspec.structs.replace(before, touched=True)
            elif asked.intent.puts_back:
                self._forget(key)
            else:
                self._accepted(key, change, asked.before[change.key])

    def _no_longer_late(self, key: SettingKey, values: frozenset[str]) -> None:
        if left := self.late.pop(key, frozenset()) - values:
            self.late[key] = left

    def _forget(self, key: SettingKey) -> None:
        self.ours.pop(key, None)
        self.late.pop(key, None)
        self.foreign.pop(key, None)
        if not any((key[0], name) in self.ours for name in (*RATES, *REPLICAS)):
            self.lost.discard(key[0])
            self.open_nodes.pop(key[0], None)

    def _accepted(self, key: SettingKey, change: ConfigChange, before: SetByRun) -> None:
        ours, values = self.ours[key], _values(change)
        match change.op:
            case ConfigOp.SUBTRACT:
                values, unsure = ours.values - values, before.unsure
            case ConfigOp.APPEND:
                values, unsure = ours.values, before.unsure and not before.values <= values
            case _:
                unsure = False
        self.ours[key] = msgspec.structs.replace(ours, values=values, unsure=unsure)


def _values(change: ConfigChange) -> frozenset[str]:
    if change.op is ConfigOp.SET:
        return frozenset((change.value or "",))
    return parse_throttled_list(change.value or "")
