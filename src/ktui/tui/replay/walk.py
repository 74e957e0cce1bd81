"""Walk along a recording, and fold everything on it as if it were polled now."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import reduce
from operator import attrgetter
from pathlib import Path

import msgspec

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.observation import Observation
from ktui.cluster.text import clean
from ktui.execution.host.ownership import Holder, Ownership, own_run
from ktui.execution.host.state_dir import RunDir, StateDir, run_name_problem
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.progress.fold import fold
from ktui.progress.news import EventSeverity
from ktui.progress.timeline import Event, Progress
from ktui.recording.reading import Damage
from ktui.recording.replay_tape import Tape, TapeItem, TapePosition
from ktui.recording.segments import LostPollLine, RunLine, from_wall_ms
from ktui.rehearsal.compare import Happening, RecordedEntries, ShownRates
from ktui.tui.poll import ClusterOutage, Outages
from ktui.tui.run_view.attached import shown_events


class RecordedRun:
    """One run, as far as its events have been played, from its first event on or not at all."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.run = Run(name)
        self.entries: list[JournalEntry] = []
        self.problem = run_name_problem(name)
        """Why the run is not followed any further; None while it is."""

    @property
    def begun(self) -> bool:
        return self.run.started is not None

    @property
    def owned(self) -> bool:
        """Whether an engine owned it, or was being started for it."""
        return self.run.left is None and not self.run.ended

    def apply_line(self, line: RunLine) -> JournalEntry | None:
        """Apply an event, and return it; None if it is not new, or earlier ones are missing."""
        if self.problem is not None or line.entry <= self.run.seq:
            return None
        if line.entry > self.run.seq + 1:
            missing = f"events {self.run.seq + 1} to {line.entry - 1}"
            self.problem = f"{missing} of run {self.name} are not in the recording"
            return None
        try:
            entry = JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event)))
            self.run.apply(entry)
        except (msgspec.MsgspecError, LookupError) as error:
            what = f"event {line.entry} of run {self.name}"
            self.problem = f"this ktui cannot follow {what}: {error}"
            return None
        self.entries.append(entry)
        return entry


class _Staged(msgspec.Struct):
    folder: RunDir
    journal: Journal
    written: list[JournalEntry]
    ownership: Ownership | None = None


class RunStage:
    """Writes runs into an empty folder as state directory, and owns those that were owned."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = StateDir(folder)
        self._clock: Clock = SystemClock()
        self._runs: dict[str, _Staged] = {}

    def show(self, runs: Iterable[RecordedRun]) -> RunDir | None:
        begun = {each.name: each for each in runs if each.begun}
        for name in self._runs.keys() - begun.keys():
            self._remove(name)
        for name, each in begun.items():
            self._put(self._runs.get(name), each)
        last = max(begun.values(), key=lambda each: each.entries[0].at, default=None)
        return None if last is None else self._runs[last.name].folder

    def close(self) -> None:
        for staged in self._runs.values():
            _release(staged)
        self._runs.clear()

    def _put(self, staged: _Staged | None, run: RecordedRun) -> None:
        if staged is None:
            folder = self.state_dir.create_run(run.name)
            staged = _Staged(folder, Journal.create(folder.journal, self._clock), [])
            self._runs[run.name] = staged
        elif not _continues(staged.written, run.entries):
            staged.journal.close()
            staged.journal = Journal.create_replacement(staged.folder.journal, self._clock)
            staged.written = []
        new = run.entries[len(staged.written) :]
        staged.journal.copy(new)
        staged.written.extend(new)
        _own(staged, run)

    def _remove(self, name: str) -> None:
        staged = self._runs.pop(name)
        _release(staged)
        for file in staged.folder.path.iterdir():
            file.unlink()
        staged.folder.path.rmdir()


def _continues(written: list[JournalEntry], entries: list[JournalEntry]) -> bool:
    """Whether the entries continue those that are written; entries are never changed."""
    count = len(written)
    return count <= len(entries) and (not count or written[-1] == entries[count - 1])


def _own(staged: _Staged, run: RecordedRun) -> None:
    if run.owned and staged.ownership is None:
        staged.ownership = own_run(staged.folder, _owner(run.run))
    elif not run.owned and staged.ownership is not None:
        staged.ownership.release()
        staged.ownership = None


def _owner(run: Run) -> Holder | None:
    owner = run.owner
    return None if owner is None else Holder(owner.pid, owner.host, owner.user, owner.since)


def _release(staged: _Staged) -> None:
    staged.journal.close()
    if staged.ownership is not None:
        staged.ownership.release()


class Checkpoint(msgspec.Struct, frozen=True):
    """The place of a walk, with all that is needed to go on from there."""

    place: TapePosition | None
    at_s: float
    at: datetime
    progress: Progress
    outages: Outages  # never changed after this
    run_lines: tuple[RunLine, ...] | list[RunLine]
    """Lines of runs, of which only the first `passed` were passed at this place."""
    passed: int


class Walk:
    """Walks along a tape from a place on; `note` gets the second of each event, and the event."""

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

    def _continue_from(self, checkpoint: Checkpoint) -> None:
        self.place, self.at_s, self.at = checkpoint.place, checkpoint.at_s, checkpoint.at
        self.progress, self.outages = checkpoint.progress, checkpoint.outages
        self.run_lines = list(checkpoint.run_lines[: checkpoint.passed])
        for line in self.run_lines:
            self._run(line).apply_line(line)

    @property
    def checkpoint(self) -> Checkpoint:
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
        """Go on until a second, for at most `most_s` real ones; return whether it has got there."""
        until = time.monotonic() + most_s
        while self.following is not None and self.following.at_s <= at_s:
            self.step()
            if time.monotonic() >= until:
                return self.following is None or self.following.at_s > at_s
        return True

    def step(self) -> None:
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
        entry = run.apply_line(line)
        if entry is not None:
            for event in shown_events(run.name, [entry]):
                self._note(self.at_s, event)
        elif followed and run.problem is not None:
            self._report(f"{run.problem}: the run is not shown any further")

    def _run(self, line: RunLine) -> RecordedRun:
        return self.runs.setdefault(line.run_id, RecordedRun(line.run))

    def _report(self, words: str) -> None:
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


AT_ONCE_S = 0.1  # real seconds after which the survey can be stopped
SPACING = 30  # lines between two checkpoints at first; the spacing grows with the recording
MOST_CHECKPOINTS = 400
MOST_TIMELINES = 20_000  # the most timelines kept in all checkpoints together


class SurveyMark(msgspec.Struct, frozen=True):
    """A second of the recording with an event worth going to."""

    at_s: float
    severity: int
    words: str


class Survey:
    """Folds a whole recording as fast as possible, and keeps what a replay needs of it."""

    def __init__(self, tape: Tape) -> None:
        self._walk = Walk(tape, note=self._note)
        self._spacing, self._since = SPACING, 0
        self.checkpoints = [self._walk.checkpoint]
        self.marks: list[SurveyMark] = []
        self.happened: list[Happening] = []
        """What has happened to brokers so far, whatever the cause; missing figures are left out."""
        self.rates = ShownRates()

    @property
    def over(self) -> bool:
        return self._walk.following is None

    @property
    def at_s(self) -> float:
        return self._walk.at_s

    @property
    def runs(self) -> Sequence[RecordedEntries]:
        runs = self._walk.runs.values()
        return [RecordedEntries(run.name, tuple(run.entries)) for run in runs if run.begun]

    def go_on(self, most_s: float = AT_ONCE_S) -> None:
        began = time.monotonic()
        while not self.over and time.monotonic() - began < most_s:
            self._walk.step()
            self.rates.note(self._walk.progress)
            self._since += 1
            if self._since >= self._spacing:
                self._keep()

    def before(self, at_s: float) -> Checkpoint:
        number = bisect_right(self.checkpoints, at_s, key=attrgetter("at_s"))
        return self.checkpoints[max(0, number - 1)]

    def mark_after(self, at_s: float) -> SurveyMark | None:
        number = bisect_right(self.marks, at_s, key=attrgetter("at_s"))
        return self.marks[number] if number < len(self.marks) else None

    def mark_before(self, at_s: float) -> SurveyMark | None:
        number = bisect_left(self.marks, at_s, key=attrgetter("at_s"))
        return self.marks[number - 1] if number else None

    def _keep(self) -> None:
        self._since = 0
        self.checkpoints.append(self._walk.checkpoint)
        timelines = sum(len(checkpoint.progress.timelines) for checkpoint in self.checkpoints)
        if len(self.checkpoints) > MOST_CHECKPOINTS or timelines > MOST_TIMELINES:
            self.checkpoints = self.checkpoints[::2]
            self._spacing *= 2

    def _note(self, at_s: float, event: Event) -> None:
        """Mark trouble and warnings, and events that are not about one partition alone."""
        missing = event.severity == EventSeverity.WARNING
        if event.broker is not None and event.tp is None and not missing:
            self.happened.append(Happening(event.at, event.what))
        if event.severity == 0 and event.tp is not None:
            return
        words = event.what if event.tp is None else f"{event.tp}: {event.what}"
        mark = SurveyMark(at_s, event.severity, words)
        if not self.marks or self.marks[-1].at_s < at_s:
            self.marks.append(mark)
        elif self.marks[-1].severity < mark.severity:
            self.marks[-1] = mark
