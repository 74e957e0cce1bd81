"""The rates of brokers that runs' events tell, for polls with settings from before the events."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from ktui.cluster.broker import BrokerConfig
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ConfigChange, ConfigResource, ConfigScope, Verdict
from ktui.cluster.settings import FOLLOWER_RATE, LEADER_RATE, SettingKey, group_by_resource
from ktui.execution.run.events import Configure, Configured, JournalEntry, SettingChanged

_TOLD_FOR = timedelta(minutes=1)
"""Settings are read every 30 s: after this time, those of a poll were read after the event."""
_FIELDS = {FOLLOWER_RATE: "follower_throttle_rate", LEADER_RATE: "leader_throttle_rate"}


class _Told(msgspec.Struct, frozen=True):
    at: datetime
    value: str | None  # None: it was removed


class ToldRates:
    """The rates told by the events of all runs on one cluster, up to a poll."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, ConfigResource], list[ConfigChange]] = {}
        self._told: dict[SettingKey, _Told] = {}

    def take(self, run: str, entries: Iterable[JournalEntry]) -> None:
        """Take the next events of a run."""
        for entry in entries:
            match entry.event:
                case Configure(changes=changes):
                    for resource, own in group_by_resource(changes).items():
                        self._asked[run, resource] = own
                        for change in own:  # a poll shows what came of it if no answer comes
                            self._told.pop((resource, change.key), None)
                case Configured(resource=resource, verdict=Verdict.ACCEPTED):
                    for change in self._asked.pop((run, resource), ()):
                        self._tell(resource, change.key, _Told(entry.at, change.value))
                case SettingChanged(resource=resource, key=key, found=found):
                    self._tell(resource, key, _Told(entry.at, found))

    def _tell(self, resource: ConfigResource, key: str, told: _Told) -> None:
        if resource.scope is ConfigScope.BROKER and key in _FIELDS:
            self._told[resource, key] = told

    def on(self, observation: Observation) -> Observation:
        """Return a poll with the rates told in place of those read before that."""
        configs = dict(observation.broker_configs)
        for (resource, key), told in self._told.items():
            if observation.at - told.at <= _TOLD_FOR:
                rate = None if told.value is None else int(told.value)
                config = configs.get(int(resource.name), BrokerConfig())
                configs[int(resource.name)] = msgspec.structs.replace(
                    config, **{_FIELDS[key]: rate}
                )
        return msgspec.structs.replace(observation, broker_configs=configs)
