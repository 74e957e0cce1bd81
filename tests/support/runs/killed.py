"""Engines that are killed at any instant around their writes and their requests."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from ktui.cluster.partition import Brokers, TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigResource, WriteResult
from ktui.execution.journal.commands import Answer
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry
from ktui.execution.run.run import Run
from ktui.simulated.cluster import SimulatedCluster
from support.runs.engine_runs import Replicas
from support.runs.witnessed import WitnessedJournal, WitnessedRun

LONGEST_ON_ITS_WAY_S = 60.0
"""The longest time in seconds that a broker keeps a request, from any sender."""


class Killed(BaseException):
    """SIGKILL: code that catches errors does not see it."""


class Reaper:
    """Counts the instants at which an engine may be killed, and kills it at some of them.

    Args:
        at: the instants, counted from 1 over all engines of a run.
    """

    def __init__(self, at: Collection[int] = ()) -> None:
        self.at = frozenset(at)
        self.count = 0
        self.where: list[str] = []

    def due(self, where: str) -> bool:
        """Count an instant, and return whether the engine dies at it."""
        self.count += 1
        if self.count in self.at:
            self.where.append(f"{self.count} {where}")
            return True
        return False

    def passes(self, where: str) -> None:
        """Count an instant, and die if it is due."""
        if self.due(where):
            raise Killed(where)


class _MortalJournal(WitnessedJournal):
    reaper: Reaper

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        if not events:
            return []
        self.reaper.passes(f"before writing {events[0]}")
        entries = super().append(events)
        self.reaper.passes(f"after writing {events[0]}")
        return entries

    def answer(self, number: int, answer: Answer) -> None:
        self.reaper.passes("before answering a command")
        super().answer(number, answer)
        self.reaper.passes("after answering a command")


class _MortalWriter:
    """Dies before a request leaves, while it is in flight, or once it has taken effect."""

    def __init__(self, run: KilledRun) -> None:
        self._run = run
        self._inner = run.sending

    async def alter_reassignments(
        self,
        targets: Mapping[TopicPartition, Replicas | None],
        *,
        allow_replication_factor_change: bool,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        sending = f"{len(targets)} alters"
        self._run.reaper.passes(f"before sending {sending}")
        self._on_its_way(sending)
        results = await self._inner.alter_reassignments(
            targets,
            allow_replication_factor_change=allow_replication_factor_change,
            leaves_within_s=leaves_within_s,
        )
        self._taken(sending)
        return results

    async def elect_preferred_leaders(
        self, partitions: Collection[TopicPartition], *, leaves_within_s: float | None = None
    ) -> Mapping[TopicPartition, WriteResult]:
        sending = f"{len(partitions)} elections"
        self._run.reaper.passes(f"before sending {sending}")
        self._on_its_way(sending)
        results = await self._inner.elect_preferred_leaders(
            partitions, leaves_within_s=leaves_within_s
        )
        self._taken(sending)
        return results

    async def alter_configs(
        self, changes: Sequence[ConfigChange], *, leaves_within_s: float | None = None
    ) -> Mapping[ConfigResource, WriteResult]:
        sending = f"settings to {'/'.join(sorted({change.op for change in changes}))}"
        self._run.reaper.passes(f"before sending {sending}")
        self._dies = self._run.reaper.due(f"with {sending} on their way")
        if self._dies:
            late_s = self._some_time_s()
            self._inner.settings_late_by_s = {change.op: late_s for change in changes}
        results = await self._inner.alter_configs(changes, leaves_within_s=leaves_within_s)
        self._taken(sending)
        return results

    async def alter_log_dirs(
        self,
        broker: int,
        paths: Mapping[TopicPartition, str],
        *,
        leaves_within_s: float | None = None,
    ) -> Mapping[TopicPartition, WriteResult]:
        sending = f"{len(paths)} log dirs of broker {broker}"
        self._run.reaper.passes(f"before sending {sending}")
        self._on_its_way(sending)
        results = await self._inner.alter_log_dirs(broker, paths, leaves_within_s=leaves_within_s)
        self._taken(sending)
        return results

    async def create_partitions(
        self,
        topic: str,
        count: int,
        assignment: Sequence[Brokers] | None = None,
        *,
        leaves_within_s: float | None = None,
    ) -> WriteResult:
        sending = f"partitions for {topic}"
        self._run.reaper.passes(f"before sending {sending}")
        self._on_its_way(sending)
        result = await self._inner.create_partitions(
            topic, count, assignment, leaves_within_s=leaves_within_s
        )
        self._taken(sending)
        return result

    async def unregister_broker(
        self, broker: int, *, leaves_within_s: float | None = None
    ) -> WriteResult:
        sending = f"the end of broker {broker}'s registration"
        self._run.reaper.passes(f"before sending {sending}")
        self._on_its_way(sending)
        result = await self._inner.unregister_broker(broker, leaves_within_s=leaves_within_s)
        self._taken(sending)
        return result

    async def delete_broker_settings(
        self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
    ) -> WriteResult:
        sending = f"the deletion of settings of broker {broker}"
        self._run.reaper.passes(f"before sending {sending}")
        self._on_its_way(sending)
        result = await self._inner.delete_broker_settings(
            broker, names, leaves_within_s=leaves_within_s
        )
        self._taken(sending)
        return result

    async def aclose(self) -> None:
        await self._inner.aclose()

    def _on_its_way(self, sending: str) -> None:
        """Die in a moment, and let the request take effect after that."""
        self._dies = self._run.reaper.due(f"with {sending} on their way")
        if self._dies:
            self._inner.late_by_s = self._some_time_s()

    def _some_time_s(self) -> float:
        return self._run.chance.uniform(0.0, LONGEST_ON_ITS_WAY_S)

    def _taken(self, sending: str) -> None:
        self._inner.late_by_s = None
        if self._dies:
            raise Killed
        self._run.reaper.passes(f"with {sending} done and not answered")


class KilledRun(WitnessedRun):
    """A run whose engine dies at certain instants, and is started again each time.

    Args:
        cluster: the cluster on which it moves partitions.
        folder: the folder of the journal.
        targets: the plan.
        limits: the limits in force at the start.
        seed: decides how long no engine runs each time, and how long requests are in flight.
        at: the instants at which the engine dies, counted from 1.
        options: the options of the run.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        folder: Path,
        targets: Mapping[TopicPartition, Replicas],
        limits: Any,
        *,
        seed: int = 0,
        at: Collection[int] = (),
        **options: Any,
    ) -> None:
        super().__init__(cluster, folder, targets, limits, **options)
        self.chance = random.Random(seed)  # noqa: S311 - a test's dice
        self.reaper = Reaper(at)
        self.writer = _MortalWriter(self)

    def opened(self) -> Journal:
        journal = _MortalJournal.watched(self.path, self.clock, self.written)
        assert isinstance(journal, _MortalJournal)
        journal.reaper = self.reaper
        return journal

    async def to_its_end(self) -> Run:
        """Start the run, and execute it through all deaths of its engines."""
        await self.start()
        while True:
            try:
                return await self.execute()
            except Killed:
                await self.clock.sleep(self.chance.choice((0.0, 0.3, 2.0, 9.0, 60.0)))
