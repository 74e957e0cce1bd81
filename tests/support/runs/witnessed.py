"""Every request of an engine as a simulated controller receives it, and kills at any instant."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, Verdict, WriteResult
from ktui.execution.engine.command_handler import DEFECT
from ktui.execution.journal.commands import Answer
from ktui.execution.journal.file import connect
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    AnyRunEvent,
    Cancel,
    Elect,
    JournalEntry,
    Owned,
    StepBegun,
    decode,
    encode,
)
from ktui.execution.run.run import Run
from ktui.simulated.cluster import SimulatedCluster
from support.passing import Ask, PassingWriter, T
from support.runs.engine_runs import OWNER, PlannedRun, Replicas
from support.simulated.witness import Witness


class WitnessedJournal(Journal):
    """A journal that reports its entries once they are on the disk."""

    on_entries: Callable[[Sequence[JournalEntry]], None]

    @classmethod
    def watched(
        cls, path: Path, clock: Clock, on_entries: Callable[[Sequence[JournalEntry]], None]
    ) -> WitnessedJournal:
        journal = cls(connect(path, read_only=False), path, clock)
        journal.on_entries = on_entries
        return journal

    def append(self, events: Sequence[AnyRunEvent]) -> list[JournalEntry]:
        entries = super().append(events)
        self.on_entries(entries)
        return entries

    def answer(self, number: int, answer: Answer) -> None:
        super().answer(number, answer)
        assert not answer.words.startswith(DEFECT), answer.words


class _Watched(Observer):
    """Keeps the engine's last poll in the run."""

    def __init__(self, run: WitnessedRun) -> None:
        super().__init__(run.reader, run.clock)
        self._run = run

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        self._run.looks += 1
        seen = await super().poll(interest)
        self._run.saw(seen)
        return seen

    async def aclose(self) -> None:
        await asyncio.sleep(0)  # a request made in the instant of a death begins, and is cancelled
        await super().aclose()


def facts(run: Run) -> dict[str, Any]:
    """Return everything that a run knows, for comparison."""
    return msgspec.structs.asdict(run)


def cordoned_after(before: frozenset[int], seen: Observation) -> frozenset[int]:
    """Return the brokers read as cordoned, and not as uncordoned since, after one more poll."""
    return (before - (seen.log_dirs.keys() - seen.cordoned)) | seen.cordoned


class WitnessedRun(PlannedRun):
    """A run whose requests and journal are watched; a violation of the rules fails at once.

    It may be killed and resumed: the known facts of the run outlive its engines.
    """

    def __init__(self, cluster: SimulatedCluster, folder: Path, *args: Any, **more: Any) -> None:
        super().__init__(cluster, folder, *args, **more)
        self.witness = Witness(cluster)
        self.sending = self.witness.writer()
        self.writer = self.sending
        self.witnessed: list[JournalEntry] = []
        self.folded = Run("run")  # the fold of all entries that were written
        self.checks: list[Callable[[Sequence[JournalEntry]], None]] = []
        """Called with new entries before they are folded into the run."""
        self.engines = 0  # the number of engines that have executed the run
        self.looks = 0
        self.seen: Observation | None = None  # the last poll of an engine
        self.read_cordoned = frozenset[int]()
        """The brokers that the engine has read as cordoned, and not as uncordoned since."""
        self.intents: set[tuple[TopicPartition, Replicas | None]] = set()
        self._broken: AssertionError | None = None
        """The first rule that was violated; the engine may take the error for a command's fault."""

    def saw(self, seen: Observation) -> None:
        """Keep a poll of the engine."""
        self.seen = seen
        self.read_cordoned = cordoned_after(self.read_cordoned, seen)

    def observer(self) -> Observer:
        return _Watched(self)

    async def execute(self, owner: Owned = OWNER) -> Run:
        self.engines += 1
        self.read_cordoned = frozenset()
        run = await super().execute(owner)
        self._check_rules()
        return run

    def _check_rules(self) -> None:
        for broken in (self._broken, self.witness.broken):
            if broken is not None:
                raise broken

    def opened(self) -> Journal:
        return WitnessedJournal.watched(self.path, self.clock, self._watched)

    def _watched(self, entries: Sequence[JournalEntry]) -> None:
        try:
            self.written(entries)
        except AssertionError as error:
            self._broken = self._broken or error
            raise

    def written(self, entries: Sequence[JournalEntry]) -> None:
        """Fold the entries now on disk, which the live run has not received yet."""
        self._check_rules()
        assert facts(self.folded) == facts(self.run), "the journal's fold is not the live run"
        for check in self.checks:
            check(entries)
        for entry in entries:
            self.folded.apply(JournalEntry(entry.seq, entry.at, decode(encode(entry.event))))
        self.witnessed += entries
        for entry in entries:
            match entry.event:
                case StepBegun(alters=True) as begun:
                    self.intents.add((begun.tp, begun.replicas))
                case Cancel() as cancel:
                    self.intents.add((cancel.tp, None))
                case Elect() as elect:
                    self.intents.add((elect.tp, (elect.leader,)))

    async def start(self) -> None:
        await super().start()
        self.folded.fold(self.entries())

    def check_requests(self, meddled: Collection[TopicPartition] = ()) -> None:
        """Check every request that arrived against the requests that must never be sent.

        Args:
            meddled: partitions that others alter: a late request may meet their change in between.
        """
        self._check_rules()
        for each in self.witness.alters:
            assert (each.tp, each.target) in self.intents, f"no intent for {each}"
            if each.tp in meddled and each.late:
                continue
            if each.target is not None and each.before is not None:
                assert not each.before.reassigning, f"altered while it moves: {each}"
            if each.result.verdict is Verdict.ACCEPTED:
                assert each.took_effect, f"a request that changes nothing: {each}"


LONGEST_ON_ITS_WAY_S = 60.0
"""The longest time in seconds that a broker keeps a request, from any sender."""


DEAD_S = (0.0, 0.3, 2.0, 9.0, 60.0)  # how many seconds pass until the next engine


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


class _MortalWriter(PassingWriter):
    """Dies before a request leaves, while it is in flight, or once it has taken effect."""

    def __init__(self, run: KilledRun) -> None:
        super().__init__(run.sending)
        self._run = run

    async def passes(
        self,
        sending: str,
        parts: Collection[Any],
        within_s: float | None,
        send: Ask[Mapping[T, WriteResult]],
    ) -> Mapping[T, WriteResult]:
        reaper, inner = self._run.reaper, self._run.sending
        reaper.passes(f"before sending {sending}")
        dies = reaper.due(f"with {sending} on their way")
        if dies:  # in a moment, and the request takes effect after that
            late_s = self._run.chance.uniform(0.0, LONGEST_ON_ITS_WAY_S)
            kinds = {part.op for part in parts if isinstance(part, ConfigChange)}
            if kinds:
                inner.settings_late_by_s = dict.fromkeys(kinds, late_s)
            else:
                inner.late_by_s = late_s
        result = await super().passes(sending, parts, within_s, send)
        inner.late_by_s = None
        if dies:
            raise Killed
        reaper.passes(f"with {sending} done and not answered")
        return result


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
                await self.clock.sleep(self.chance.choice(DEAD_S))


Play = Callable[[Path, Collection[int]], Reaper]
"""Plays a story in a folder, killed at some instants, and checks its end."""


def killed_at_seeded_instants(seed: int, folder: Path, play: Play) -> None:
    """Play a story whole, and again killed at some of its instants."""
    count = play(folder / "whole", ()).count
    dice = random.Random(f"instants {seed}")  # noqa: S311 - a test's dice
    at = {dice.randint(1, count) for _ in range(dice.choice((1, 1, 2, 3, 6)))}
    play(folder / "killed", at)


def killed_at_any_instant(
    folder: Path, play: Play, *, first: int = 1, each: int = 1, again: int = 0
) -> None:
    """Play a story whole, and again killed at each of its instants, or at some of them.

    Args:
        folder: the parent of the stories' folders.
        play: plays the story.
        first: the first instant.
        each: how many instants lie between two plays.
        again: how many instants after that the next engine is killed, too; 0: it is not.
    """
    for instant in range(first, play(folder / "whole", ()).count + 1, each):
        play(folder / str(instant), {instant, instant + again})
