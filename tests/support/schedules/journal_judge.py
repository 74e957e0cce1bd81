"""A check of a real run's journal against the rules of pacing and of cancels.

It judges each decision by what the run's engines had seen."""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from ktui.cluster.clock import SystemClock
from ktui.cluster.observation import Observation
from ktui.execution.run.events import JournalEntry, Owned, Started, StepBegun
from ktui.execution.run.run import Run
from ktui.inputfile import FileProblem
from ktui.recording.reading import PlayedPoll as Poll
from ktui.recording.reading import find_sessions, play_session
from support.runs.cancel_rules import CancelRules
from support.runs.held_to_rules import Rules
from support.runs.witnessed import cordoned_after

Seen = tuple[datetime, Observation]

_OLD = timedelta(seconds=35)
"""A decision rests on a poll of the last 30 s; without one the recording was cut off."""


class Replayed:
    """A past run, replayed entry by entry in place of the live run that the rules expect.

    Args:
        entries: the run's journal.
        looks: the observations of the run's engines, each with the time when its poll was over.
        brokers: the brokers of the cluster.
        least: the least min.insync.replicas of all topics.
    """

    def __init__(
        self,
        entries: Sequence[JournalEntry],
        looks: Sequence[Seen],
        brokers: Sequence[int],
        least: int,
    ) -> None:
        self._entries = entries
        self._looks = looks
        self._times = [at for at, _ in self._looks]
        self.folded = Run("replayed")
        self.seen: Observation | None = None
        self.engines = 0
        self.read_cordoned = frozenset[int]()
        """The brokers that the engine has read as cordoned, and not as uncordoned since."""
        self._read = 0
        """The number of looks that `read_cordoned` is from."""
        self.gate_shut: str | None = None
        self.checks: list[Callable[[Sequence[JournalEntry]], None]] = []
        self.clock = SystemClock()
        self.witness = SimpleNamespace(departures=[])
        self.cluster = SimpleNamespace(
            spec=SimpleNamespace(
                brokers=[SimpleNamespace(id=broker, rack=None) for broker in brokers]
            )
        )
        self.targets: dict[Any, Any] = {}
        self.unseen = 0
        """Decisions whose poll was lost with the engine that made it."""
        watched: Any = self
        self.rules = Rules(watched, least)
        self._cancels = CancelRules(watched)

    def problems(self) -> Iterator[str]:
        """Replay the run, and yield each decision that breaks a rule."""
        for _, group in itertools.groupby(self._entries, key=lambda entry: entry.at):
            written = list(group)
            yield from self._held(written)
            for entry in written:
                self.folded.apply(entry)
                if isinstance(entry.event, Owned):
                    self.engines += 1
                    self.read_cordoned = frozenset()
            self.targets = {tp: track.target for tp, track in self.folded.tracks.items()}

    def _held(self, written: Sequence[JournalEntry]) -> Iterator[str]:
        self.seen = self._look_before(written[0].at)
        decides = any(isinstance(entry.event, StepBegun) for entry in written)
        if isinstance(written[0].event, Started):
            return
        if self.seen is None and decides:
            self.unseen += 1
            return
        for check in self.checks:
            try:
                check(written)
            except AssertionError as error:
                events = [entry.event for entry in written]
                yield f"against a rule at {written[0].at:%T.%f}: {error!r} {error} in {events}"

    def _look_before(self, at: datetime) -> Observation | None:
        index = bisect_right(self._times, at)
        for _, seen in self._looks[self._read : index]:
            self.read_cordoned = cordoned_after(self.read_cordoned, seen)
        self._read = index
        if not index or at - self._times[index - 1] > _OLD:
            return None
        return self._looks[index - 1][1]


def recorded_looks(folder: Path) -> list[Seen]:
    """Return the observations that a run's engines have recorded."""
    try:
        sessions = find_sessions(folder)
    except FileProblem:
        return []
    found = [each for session in sessions for each in play_session(session)]
    looks = [(each.observation.at, each.observation) for each in found if isinstance(each, Poll)]
    return sorted(looks, key=lambda look: look[0])
