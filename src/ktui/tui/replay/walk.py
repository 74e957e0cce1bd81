"""Walk along a recording, and fold everything on it as if it were polled now."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import reduce

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.text import clean
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.progress.fold import fold
from ktui.progress.news import EventSeverity
from ktui.progress.timeline import Event, Progress
from ktui.recording.lines import LostPollLine, RunLine
from ktui.recording.playing import Damage
from ktui.recording.replay_tape import Tape, TapeItem, TapePosition
from ktui.tui.poll.overview import ClusterOutage, Outages
from ktui.tui.replay.run_stage import RecordedRun
from ktui.tui.run_view.run_events import shown_events


class Checkpoint(msgspec.Struct, frozen=True):
    """The place of a walk, with all that is needed to go on from there."""

    place: TapePosition | None
    at_s: float
    at: datetime
    progress: Progress
    outages: Outages
    """Never changed after this."""
    run_lines: tuple[RunLine, ...] | list[RunLine]
    """Lines of runs, of which only the first `passed` were passed at this place."""
    passed: int


class Walk:
    """Walks along a tape, from its beginning or from the place of another walk.

    Args:
        tape: the recording.
        checkpoint: the place to begin at; None for the beginning.
        note: receives the second of each event as it is passed, and the event.
    """

    def __init__(
        self,
        tape: Tape,
        checkpoint: Checkpoint | None = None,
        note: Callable[[float, Event], None] = lambda _at_s, _event: None,
    ) -> None:
        self._note = note
        self.place: TapePosition | None = None
        self.at_s, self.at = tape.from_s, tape.wall(tape.from_s)
        self.progress, self.outages = Progress(), Outages()
        self.runs: dict[str, RecordedRun] = {}
        self.run_lines: list[RunLine] = []
        self.damages: list[Damage] = []
        if checkpoint is not None:
            self._continue_from(checkpoint)
        self._items = tape.play(self.place)
        self.following: TapeItem | None = next(self._items, None)
        """The item that is passed next; None at the end."""

    def _continue_from(self, checkpoint: Checkpoint) -> None:
        self.place, self.at_s, self.at = checkpoint.place, checkpoint.at_s, checkpoint.at
        self.progress, self.outages = checkpoint.progress, checkpoint.outages
        self.run_lines = list(checkpoint.run_lines[: checkpoint.passed])
        for line in self.run_lines:
            self._run(line).take(line)

    @property
    def checkpoint(self) -> Checkpoint:
        """The current place, to go on from later."""
        return Checkpoint(
            self.place,
            self.at_s,
            self.at,
            self.progress,
            self.outages,
            self.run_lines,
            len(self.run_lines),
        )

    def to(self, at_s: float, most_s: float = math.inf) -> bool:
        """Go on until a second, which is included, or for at most `most_s` real seconds.

        Returns:
            Whether it has got there.
        """
        until = time.monotonic() + most_s
        while self.following is not None and self.following.at_s <= at_s:
            self.step()
            if time.monotonic() >= until:
                return self.following is None or self.following.at_s > at_s
        return True

    def step(self) -> None:
        """Pass the next item."""
        item = self.following
        if item is None:
            return
        self.place, self.at_s, self.at = item.place, item.at_s, item.at
        match item.what:
            case Observation() as seen:
                self._fold_poll(seen)
            case LostPollLine(reason=reason):
                self._lost(reason)
            case RunLine() as line:
                self._run_event(line)
            case Damage() as damage:
                self.damages.append(damage)
                self._report(f"the recording is damaged: {damage}")
        self.following = next(self._items, None)

    def _fold_poll(self, seen: Observation) -> None:
        runs = (each.run for each in self.runs.values())
        before: Progress = reduce(with_requested_replicas, runs, self.progress)
        self.progress = fold(before, seen)
        if self.outages.current is not None:
            self.outages = self.outages.copy()
            self.outages.answered(seen.at, seen.monotonic_s)
            self._note(self.at_s, Event(seen.at, "cluster answers again"))
        for event in _new_events(before, self.progress):
            self._note(self.at_s, event)

    def _lost(self, reason: str) -> None:
        last = self.progress.last
        if self.outages.current is None:
            self._note(self.at_s, Event(self.at, f"cluster lost: {reason}", severity=2))
        self.outages = self.outages.copy()
        since_s = None if last is None else last.monotonic_s
        words = clean(" ".join(reason.split()))
        self.outages.lost(ClusterOutage(words, words), self.at, since_s, self.at_s)

    def _run_event(self, line: RunLine) -> None:
        self.run_lines.append(line)
        run = self._run(line)
        followed = run.problem is None
        entry = run.take(line)
        if entry is not None:
            for event in shown_events(run.name, [entry]):
                self._note(self.at_s, event)
        elif followed and run.problem is not None:
            self._report(f"{run.problem}: the run is not shown any further")

    def _run(self, line: RunLine) -> RecordedRun:
        return self.runs.setdefault(line.run_id, RecordedRun(line.run))

    def _report(self, words: str) -> None:
        """Add a problem of the recording to the events."""
        event = Event(self.at, clean(words), severity=EventSeverity.TROUBLE)
        self.outages = self.outages.copy()
        self.outages.note(event)
        self._note(self.at_s, event)


def _new_events(before: Progress, after: Progress) -> Iterable[Event]:
    if after.events is before.events:
        return ()
    last = before.events[-1] if before.events else None
    new: list[Event] = []
    for event in reversed(after.events):
        if event is last:
            break
        new.append(event)
    return reversed(new)
