"""Stories of runs with throttles, and of others who set throttles, too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktui.cluster.ports import (
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
)
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    REPLICAS,
    throttled_entry,
)
from ktui.execution.run.run import Run
from ktui.planning.throttle_rates import parse_throttle_rates
from support.runs.engine_runs import Replicas
from support.runs.killed import Killed, KilledRun, Reaper
from support.runs.stories import Story
from support.runs.throttle_rules import Others, ThrottleRules, settings_in

RF3 = (1, 2, 3)
ONE: Mapping[str, tuple[Replicas, Replicas]] = {"orders-0": (RF3, (4, 2, 3))}
TWO = {**ONE, "orders-1": (RF3, (5, 2, 3))}
IN_5_S: Mapping[str, Any] = {"messages": 2_500}
IN_10_S: Mapping[str, Any] = {"messages": 5_000}
"""Clusters whose replicas are copied in so many seconds at the rate of a run."""


class _AtWords(Reaper):
    """Kills at the first instant whose description matches."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words = re.compile(words)

    def due(self, where: str) -> bool:
        if self.where or not self._words.search(where):
            return False
        self.where.append(where)
        return True


class ThrottledStory(Story, KilledRun):
    """A story whose run copies at 500 kB/s into a broker: 20 s a replica by default.

    Args:
        folder: the folder of the journal.
        ways: each partition's replicas at first, and its target.
        rate: the throttle as operators write it.
        more: as for `Story`.
    """

    def __init__(
        self,
        folder: Path,
        ways: Mapping[str, tuple[Replicas, Replicas]] = ONE,
        rate: str = "500kB",
        **more: Any,
    ) -> None:
        super().__init__(folder, ways, throttle=parse_throttle_rates(rate), **more)
        self.others = Others(self)
        self.rules = ThrottleRules(self, self.others)

    def killed(self, words: str) -> None:
        """Kill its engine at the first instant that matches the words."""
        self.reaper = _AtWords(words)

    def to_the_end(self, dead_s: float = 2.0, until_s: float = 2_000.0) -> Run:
        """Execute the run to its end, with another engine after each death."""
        execute = self.played
        while True:
            try:
                return execute(until_s)
            except Killed:
                self.clock.pass_time(dead_s)
                execute = self.resumed

    @property
    def lists(self) -> dict[str, str]:
        """The present throttled lists of the topic orders."""
        values = settings_in(self.cluster).get(topic("orders"), {})
        return {key: value for key, value in values.items() if key in REPLICAS}

    @property
    def rates(self) -> dict[int, str]:
        """The dynamic follower rate of each broker that has one."""
        found = settings_in(self.cluster)
        brokers = ((r, v) for r, v in found.items() if r.scope is ConfigScope.BROKER)
        return {int(r.name): v[FOLLOWER_RATE] for r, v in brokers if FOLLOWER_RATE in v}

    def assert_left_as_found(self) -> None:
        """Check that every setting of the cluster is byte for byte as without the run."""
        assert self.run.ended, self.run.left
        assert self.run.throttled.clean
        found, wanted = settings_in(self.cluster), self.others.settings
        for resource, key in self.others.touched:
            if key in REPLICAS:  # an empty list that somebody leaves behind counts as none
                for settings in (found, wanted):
                    if settings.get(resource, {}).get(key) == "":
                        settings[resource].pop(key)
        assert {r: s for r, s in found.items() if s} == {r: s for r, s in wanted.items() if s}


def topic(name: str) -> ConfigResource:
    return ConfigResource(ConfigScope.TOPIC, name)


def broker(number: int) -> ConfigResource:
    return ConfigResource(ConfigScope.BROKER, str(number))


def set_rate(number: int, bytes_s: int | None, key: str = FOLLOWER_RATE) -> ConfigChange:
    """Return somebody else's change of a broker's rate; None deletes it."""
    if bytes_s is None:
        return ConfigChange(broker(number), key, ConfigOp.DELETE)
    return ConfigChange(broker(number), key, ConfigOp.SET, str(bytes_s))


def change_list(
    op: ConfigOp, value: str | None, key: str = FOLLOWER_REPLICAS, name: str = "orders"
) -> ConfigChange:
    """Return somebody else's change of a topic's list."""
    return ConfigChange(topic(name), key, op, value)


def many_entries(length: int) -> str:
    """Return a list of replicas of ``length`` bytes, or a few less."""
    found: list[str] = []
    left = length + 1
    for partition in range(1_000, 9_999):
        each = throttled_entry(partition, 9)
        if (left := left - len(each) - 1) < 0:
            break
        found.append(each)
    return ",".join(found)
