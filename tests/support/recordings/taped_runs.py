"""Recordings of runs in trouble: of engines that are sometimes killed, and of views beside them."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest, Observer
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, Owned
from ktui.execution.run.run import Run
from support.recordings.tapes import Tape
from support.runs.cancelled_troubled import ThrottledAndCalledOff
from support.runs.engine_runs import OWNER

_LONGEST_S = 250.0
"""Seconds after which the engine leaves a run; steps in flight stay open."""


class RecordedRun(ThrottledAndCalledOff):
    """A run of which every engine records a session, and which views may observe, too.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.chosen = random.Random(f"tapes {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=self.chosen.random() < 0.4)
        self.cluster_id = f"run-{seed:05}"
        self.cluster.spec = msgspec.structs.replace(self.cluster.spec, name=self.cluster_id)
        self.tapes: list[Tape] = []
        self._mine: Tape | None = None
        """The tape of the engine."""

    def _options(self) -> dict[str, Any]:
        poll_s = self.chosen.choice((3.0, 5.0, 8.0, 15.0))
        return {**super()._options(), "poll_s": poll_s}

    @property
    def named(self) -> tuple[str, str]:
        """The run's name and id."""
        return "drain", f"{self.cluster_id}-drain"

    def tape(self) -> Tape:
        """Begin a session, on a machine whose clocks differ from the cluster's."""
        dice = self.chosen
        ahead = {"ms": dice.randint(0, 10**9), "at": dice.choice((0, 0, 0, -2_500, 40_000))}
        self.tapes.append(Tape(self.cluster_id, f"{dice.getrandbits(128):032x}", **ahead))
        return self.tapes[-1]

    async def execute(self, owner: Owned = OWNER) -> Run:
        if self.chosen.random() < 0.9 or self._mine is None:
            tape = self._mine = self.tape()
            if (
                self.chosen.random() < 0.9
            ):  # otherwise the journal's beginning is missing, or in another session
                for entry in self.entries():
                    tape.happened(self.clock, self.named, entry)
        return await super().execute(owner)

    def written(self, entries: Sequence[JournalEntry]) -> None:
        super().written(entries)
        if self._mine is not None:
            for entry in entries:
                self._mine.happened(self.clock, self.named, entry)

    def observer(self) -> Observer:
        assert self._mine is not None
        return _Taped(self, self._mine)

    async def _ask(self) -> None:
        """Send the operators' commands, let views poll, and have the engine leave the run last."""
        views = [asyncio.create_task(self._view()) for _ in range(self.chosen.choice((0, 1, 2)))]
        began_s = self.clock.monotonic()
        try:
            for at_s, command in self.commands:
                await self.clock.sleep(began_s + at_s - self.clock.monotonic())
                with Journal.open(self.path, self.clock) as journal:
                    journal.ask(command, "somebody@here (2)")
            await self.clock.sleep(began_s + _LONGEST_S - self.clock.monotonic())
            assert self.engine is not None
            self.reaper.at = frozenset()
            self.engine.leave("that is enough")
        finally:
            for view in views:
                view.cancel()

    async def _view(self) -> None:
        """Poll from another machine for a while."""
        dice, tape = self.chosen, self.tape()
        interest = dice.choice((NO_INTEREST, Interest(topics=frozenset({"orders"}))))
        observer = Observer(self.cluster.reader(), self.clock)
        poll_s = dice.choice((4.0, 9.0, 20.0))
        await self.clock.sleep(dice.uniform(0.0, 60.0))
        try:
            for _ in range(dice.randint(1, 25)):
                await _polled(tape, observer, interest, self.clock)
                await self.clock.sleep(poll_s)
            tape.end()
        finally:
            await observer.aclose()


class _Taped(Observer):
    """Records what an engine sees, and passes it to the run."""

    def __init__(self, run: RecordedRun, tape: Tape) -> None:
        super().__init__(run.reader, run.clock)
        self._run, self._tape = run, tape

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        self._run.looks += 1
        try:
            seen = await super().poll(interest)
        except ClusterError as error:
            self._tape.lost(self._run.clock, str(error))
            raise
        self._tape.look(seen)
        self._run.seen = seen
        return seen

    async def aclose(self) -> None:
        await asyncio.sleep(
            0
        )  # a request made at the instant of a kill begins, and is then cancelled
        await super().aclose()


async def _polled(tape: Tape, observer: Observer, interest: Interest, clock: Any) -> None:
    try:
        tape.look(await observer.poll(interest))
    except ClusterError as error:
        tape.lost(clock, str(error))


def recorded(seed: int, folder: Path) -> list[Tape]:
    """Execute a run to its end, and return what each session recorded."""
    run = RecordedRun(seed, folder)
    asyncio.run(run.to_its_end())
    return [tape for tape in run.tapes if tape.items]


def tapes_of_runs(seeds: Iterable[int]) -> list[Tape]:
    """Return the recordings of some runs."""
    found: list[Tape] = []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            found += recorded(seed, Path(folder))
    return found
