"""Settings of the topics that are looked at: read now and then, sooner again after a failure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ktui.cluster.asking import Asking, TimedAnswer
from ktui.cluster.broker import TopicConfig
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.ports import ClusterReader, TopicConfigsAnswer

CONFIGS_EVERY_S = 30.0
FIRST_RETRY_S = 1.0
"""Doubled with each failure in a row, up to CONFIGS_EVERY_S."""


class TopicSettings:
    """Asks for the settings of many topics at once, one question at a time.

    Each topic's are read every 30 s; what failed is asked again after 1 s, 2 s, and so on, what
    was denied after 30 s. What was read last stands until it is read again.
    """

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self.asking: Asking[None, TopicConfigsAnswer] = Asking(Operation.TOPIC_CONFIGS, clock)
        self.configs: dict[str, TopicConfig] = {}
        self._wanted: frozenset[str] = frozenset()
        self._failures: dict[str, Failure] = {}
        self._tries: dict[str, int] = {}
        """How often in a row each has failed."""
        self._due_s: dict[str, float] = {}
        """When each is to be read again; one that is not in here, at once."""
        self._asked: frozenset[str] = frozenset()
        """Those of the open question."""

    def ask(self, topics: frozenset[str]) -> None:
        """Ask for what is due of these topics, and forget all others."""
        now, self._wanted = self._clock.monotonic(), topics
        due = frozenset(name for name in topics if self._due_s.get(name, -math.inf) <= now)
        if due and self.asking.due(None):
            self._due_s.update(dict.fromkeys(due, now + CONFIGS_EVERY_S))
            self._asked = due
            self.asking.ask(None, self._reader.topic_configs(due))

    def changed(self, topics: Iterable[str]) -> None:
        """Have topics read again in the next poll, whatever an open question may say of them."""
        for name in topics:
            self._due_s.pop(name, None)
            self._tries.pop(name, None)

    def take(self) -> None:
        """Take in what the open question has come to, if it has."""
        if self._asked and not self.asking.open(younger_than_s=math.inf):
            answer, asked = self.asking.answers.pop(None, None), self._asked
            self._asked = frozenset()
            if answer is None:
                self._try_again(asked)
            else:
                self._take(answer)
        self._forget()

    def _take(self, answer: TimedAnswer[TopicConfigsAnswer]) -> None:
        failed = {f.topic: f for f in answer.value.failures if f.topic is not None}
        self.configs = {**self.configs, **answer.value.configs}
        for name in (*answer.value.configs, *failed):
            self._failures.pop(name, None)
        for name in answer.value.configs:
            self._tries.pop(name, None)
        self._failures |= failed
        self._try_again(name for name, failure in failed.items() if not failure.denied)

    def _try_again(self, topics: Iterable[str]) -> None:
        now = self._clock.monotonic()
        for name in topics:
            tries = self._tries.get(name, 0)
            self._tries[name] = tries + 1
            wait_s = min(CONFIGS_EVERY_S, FIRST_RETRY_S * 2.0 ** min(tries, 8))
            self._due_s[name] = min(self._due_s.get(name, math.inf), now + wait_s)

    def _forget(self) -> None:
        wanted = self._wanted
        self.configs = {n: c for n, c in self.configs.items() if n in wanted}
        self._failures = {n: f for n, f in self._failures.items() if n in wanted}
        self._tries = {n: t for n, t in self._tries.items() if n in wanted}
        self._due_s = {n: s for n, s in self._due_s.items() if n in wanted}
        if not wanted:
            self.asking.forgive(())

    def failures(self) -> tuple[Failure, ...]:
        """Name what is missing or late, and why."""
        return (*self.asking.failures(), *self._failures.values())
