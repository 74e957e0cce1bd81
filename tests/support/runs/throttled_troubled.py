"""Runs with throttles on clusters with much trouble: all of it decided by a seed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
)
from ktui.execution.journal.commands import Command, SetThrottle
from ktui.execution.run.run import Run
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from ktui.simulated.layout import ScheduledEvent
from support.runs.throttle_rules import Others, Settings, ThrottleRules, settings_in
from support.runs.troubled import BROKERS, OURS, TROUBLED_S, TroubledRun

WANTED = ("300kB", "500kB", "900kB,3=200kB", "400kB,2=none", "5=300kB")
LATER = (*WANTED, "none", "2MB", "150kB")
_SETTING = ("alter_configs", "broker_config")


class ThrottledTrouble(TroubledRun):
    """A run with throttles, where others set throttles and lists, too, and change them.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
        killed: whether its engine is killed now and then, too.
    """

    def __init__(self, seed: int, folder: Path, *, killed: bool = False) -> None:
        self.more = random.Random(f"throttles {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=killed)
        self.cluster.configure([self._theirs() for _ in range(self.more.randint(0, 4))])
        self.others = Others(self)
        self.throttle_rules = ThrottleRules(self, self.others)

    def _options(self) -> dict[str, Any]:
        chosen = super()._options()
        leaders = self.more.random() < 0.3
        return {**chosen, "throttle": parse_throttle_rates(self.more.choice(WANTED)),
                "throttle_leaders": leaders}  # fmt: skip

    def _acts(self, topics: dict[str, Any]) -> list[ScheduledEvent]:
        dice = self.more
        theirs = [layout.AlterConfigs((self._theirs(),)) for _ in range(dice.randint(0, 5))]
        faults = dice.choices(
            (layout.LoseAnswer(), layout.LoseRequest(),
             layout.DelayRequest(dice.uniform(0.1, 55.0)),
             layout.Deny(dice.choice(_SETTING)), layout.ChangeController()),
            k=dice.randint(0, 6),
        )  # fmt: skip
        timed = [
            ScheduledEvent(round(dice.uniform(0.1, 0.9 * TROUBLED_S), 1), a)
            for a in (*theirs, *faults)
        ]
        return [
            *super()._acts(topics),
            *timed,
            *(ScheduledEvent(TROUBLED_S, layout.Allow(call)) for call in _SETTING),
        ]

    def _commands(self) -> list[tuple[float, Command]]:
        dice = self.more
        rates = [
            (dice.uniform(0.0, TROUBLED_S), SetThrottle(parse_throttle_rates(dice.choice(LATER))))
            for _ in range(dice.choice((0, 0, 1, 3)))
        ]
        return [*super()._commands(), *rates]

    def _theirs(self) -> ConfigChange:
        """Return somebody else's change of a rate or a list; no value of theirs is one of ours."""
        dice, op = self.more, ConfigOp
        if dice.random() < 0.5:
            broker = ConfigResource(ConfigScope.BROKER, str(dice.choice(BROKERS)))
            key = dice.choice((FOLLOWER_RATE, FOLLOWER_RATE, LEADER_RATE))
            if dice.random() < 0.3:
                return ConfigChange(broker, key, op.DELETE)
            return ConfigChange(broker, key, op.SET, str(dice.randint(1_000_000, 9_000_000)))
        topic = ConfigResource(ConfigScope.TOPIC, dice.choice(OURS))
        key = dice.choice((FOLLOWER_REPLICAS, FOLLOWER_REPLICAS, LEADER_REPLICAS))
        kind = dice.choice((op.SET, op.SET, op.APPEND, op.SUBTRACT, op.DELETE))
        value = dice.choice(("*", "77:1")) if kind is op.SET else "77:1,77:2"
        return ConfigChange(topic, key, kind, None if kind is op.DELETE else value)

    def check_settings(self, outcome: Run) -> None:
        """Check the settings against those without the run, apart from entries in flight."""
        if outcome.ended:
            assert outcome.throttled.clean
            assert self._untouched(settings_in(self.cluster)) == self._untouched(
                self.others.settings
            )
            self._check_touched()
        for tp, listed in self._listed():
            track = outcome.tracks_in_flight.get(tp)
            assert track is not None, f"{tp} is listed on {listed}, and not in flight"

    def _listed(self) -> list[tuple[TopicPartition, str]]:
        """Return each present entry of ours."""
        found = settings_in(self.cluster)
        return [
            (TopicPartition(name, int(each.partition(":")[0])), each)
            for (name, key), mine in self.throttle_rules.listed.items()
            for each in mine & {*_list(found, name, key).split(",")}
        ]

    def _check_touched(self) -> None:
        """Check that no value of ours is left where somebody else changed a rate or a list."""
        found = settings_in(self.cluster)
        sent = {f"{each}" for each in self.throttle_rules.rates_sent}
        for resource, key in self.others.touched:
            value = found.get(resource, {}).get(key, "")
            assert value not in sent, f"{resource} {key}={value} is ours"
        assert not self._listed()

    def _untouched(self, settings: Settings) -> Settings:
        """Leave out the throttle settings that somebody else has changed midway."""
        kept = {
            resource: {
                key: value
                for key, value in values.items()
                if key not in (*RATES, *REPLICAS) or (resource, key) not in self.others.touched
            }
            for resource, values in settings.items()
        }
        return {resource: values for resource, values in kept.items() if values}


def _list(settings: Settings, topic: str, key: str) -> str:
    return settings.get(ConfigResource(ConfigScope.TOPIC, topic), {}).get(key, "")
