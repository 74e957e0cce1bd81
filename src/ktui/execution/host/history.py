"""Replay what the engine of a run has recorded of it, poll by poll."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.execution.host.state_dir import RunDir
from ktui.execution.run.events import JournalEntry
from ktui.execution.run.requested_replicas import with_requested_replicas
from ktui.execution.run.run import Run
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress
from ktui.recording.milliseconds import to_ms, wall_ms
from ktui.recording.reading import find_sessions
from ktui.recording.replay_tape import Axis, Tape


class SeenPoll(msgspec.Struct, frozen=True):
    """One recorded poll, folded."""

    entries: Sequence[JournalEntry]
    """The journal's entries since the poll before; the run has applied them."""
    before: Progress
    """The progress just before the poll."""
    progress: Progress
    observation: Observation


def replay_recording(
    folder: RunDir, run: Run, entries: Iterable[JournalEntry], clock: Clock, most: int
) -> Iterator[SeenPoll]:
    """Yield the newest recorded polls of a run, oldest first; none where nothing is recorded.

    Args:
        folder: the run's folder.
        run: the run, with nothing applied; it is in the state of the poll that was yielded last.
        entries: its journal.
        clock: the clock to whose seconds those of the recording are converted.
        most: the most partition states to fold: a poll of ten partitions counts as ten.

    Raises:
        FileProblem: the recording cannot be read.
    """
    if not folder.recording.is_dir():
        return
    now = Axis(wall_ms(clock.now()), to_ms(clock.monotonic()))
    tape = Tape(find_sessions(folder.recording), now)
    remaining, progress = iter(entries), Progress()
    next_entry = next(remaining, None)
    for item in tape.play(tape.last_polls(most)):
        if not isinstance(item.what, Observation):
            continue
        applied = []
        while next_entry is not None and next_entry.at <= item.what.at:
            run.apply(next_entry)
            applied.append(next_entry)
            next_entry = next(remaining, None)
        before = with_requested_replicas(progress, run)
        progress = fold(before, item.what)
        yield SeenPoll(applied, before, progress, item.what)
