"""Broker throttle rates from runs' events, in place of settings that a poll read before them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, Verdict
from ktui.cluster.settings import RATE_FIELDS, UNLIMITED, group_by_resource
from ktui.execution.run.events import Configure, Configured, JournalEntry, SettingChanged

_TOLD_FOR = timedelta(minutes=1)
"""Settings are read every 30 s: after this time, those of a poll were read after the event."""


class _Told(msgspec.Struct, frozen=True):
    at: datetime
    rate: int | None  # bytes a second; None without a throttle


class ToldRates:
    """Follows the events of a cluster's runs: what each broker's rates were last set to."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, ConfigResource], list[ConfigChange]] = {}
        self._told: dict[tuple[int, str], _Told] = {}  # by broker and setting

    def take(self, run: str, entries: Iterable[JournalEntry]) -> None:
        """Follow a run through its next events."""
        for entry in entries:
            match entry.event:
                case Configure(changes=changes):
                    for resource, own in group_by_resource(changes).items():
                        self._asked[run, resource] = own
                        for change in own:  # a poll shows what came of it if no answer comes
                            self._forget(resource, change.key)
                case Configured(resource=resource, verdict=Verdict.ACCEPTED):
                    for change in self._asked.pop((run, resource), ()):
                        self._tell(entry.at, resource, change.key, change.value)
                case SettingChanged(resource=resource, key=key, found=found):
                    self._tell(entry.at, resource, key, found)

    def _forget(self, resource: ConfigResource, key: str) -> None:
        if _is_rate(resource, key):
            self._told.pop((int(resource.name), key), None)

    def _tell(self, at: datetime, resource: ConfigResource, key: str, value: str | None) -> None:
        if _is_rate(resource, key) and (value is None or _is_number(value)):
            rate = UNLIMITED if value is None else int(value)
            self._told[int(resource.name), key] = _Told(at, rate if rate < UNLIMITED else None)

    def on(self, observation: Observation) -> Observation:
        """Return a poll whose throttle rates are those of the events, where these are newer."""
        configs = dict(observation.broker_configs)
        for (broker, key), told in self._told.items():
            if observation.at - told.at <= _TOLD_FOR:
                config = configs.get(broker, BrokerConfig())
                configs[broker] = msgspec.structs.replace(config, **{RATE_FIELDS[key]: told.rate})
        return msgspec.structs.replace(observation, broker_configs=configs)


def _is_rate(resource: ConfigResource, key: str) -> bool:
    return resource.scope is ConfigScope.BROKER and key in RATE_FIELDS and _is_number(resource.name)


def _is_number(text: str) -> bool:
    return text.isdecimal() and len(text) <= len(str(UNLIMITED))
