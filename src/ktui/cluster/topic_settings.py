"""Settings of the polled topics: read periodically, and sooner after a failure."""

from __future__ import annotations

import math
from collections.abc import Iterable

from ktui.cluster.asking import RequestsByKey, TimedAnswer
from ktui.cluster.broker import TopicConfig
from ktui.cluster.clock import Clock
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.ports import ClusterReader, TopicConfigsAnswer

CONFIGS_EVERY_S = 30.0
FIRST_RETRY_S = 1.0
"""Seconds before the first retry; doubled with each failure in a row up to CONFIGS_EVERY_S."""


class TopicSettings:
    """Reads the settings of many topics in one request, one request at a time.

    Each topic's settings are read every 30 s. Failed reads are retried after 1 s, 2 s, and so on,
    denied ones after 30 s. The last settings stay until they are read again.
    """

    def __init__(self, reader: ClusterReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self.asking: RequestsByKey[None, TopicConfigsAnswer] = RequestsByKey(
            Operation.TOPIC_CONFIGS, clock
        )
        self.configs: dict[str, TopicConfig] = {}
        self._wanted: frozenset[str] = frozenset()
        self._failures: dict[str, Failure] = {}
        self._tries: dict[str, int] = {}
        """How many times in a row each topic has failed."""
        self._due_s: dict[str, float] = {}
        """When to read each topic again; a topic without an entry is due at once."""
        self._asked: frozenset[str] = frozenset()
        """The topics of the open request."""

    def ask(self, topics: frozenset[str]) -> None:
        """Request the settings due of these topics, and forget all other topics."""
        now, self._wanted = self._clock.monotonic(), topics
        due = frozenset(name for name in topics if self._due_s.get(name, -math.inf) <= now)
        if due and self.asking.due(None):
            self._due_s.update(dict.fromkeys(due, now + CONFIGS_EVERY_S))
            self._asked = due
            self.asking.ask(None, self._reader.topic_configs(due))

    def changed(self, topics: Iterable[str]) -> None:
        """Read topics again in the next poll, whatever an open request returns for them."""
        for name in topics:
            self._due_s.pop(name, None)
            self._tries.pop(name, None)

    def take(self) -> None:
        """Collect the answer of the open request, if it has arrived."""
        if self._asked and not self.asking.open(younger_than_s=math.inf):
            answer, asked = self.asking.answers.pop(None, None), self._asked
            self._asked = frozenset()
            if answer is None:
                self._try_again(asked)
            else:
                self._store(answer)
        self._forget_others()

    def _store(self, answer: TimedAnswer[TopicConfigsAnswer]) -> None:
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

    def _forget_others(self) -> None:
        wanted = self._wanted
        self.configs = {n: c for n, c in self.configs.items() if n in wanted}
        self._failures = {n: f for n, f in self._failures.items() if n in wanted}
        self._tries = {n: t for n, t in self._tries.items() if n in wanted}
        self._due_s = {n: s for n, s in self._due_s.items() if n in wanted}
        if not wanted:
            self.asking.forgive(())

    def failures(self) -> tuple[Failure, ...]:
        """List missing and late answers, with reasons."""
        return (*self.asking.failures(), *self._failures.values())
