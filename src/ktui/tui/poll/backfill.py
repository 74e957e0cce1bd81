"""What the process of a run has seen before a view came: the view's own history begins with it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import dropwhile

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.run import Run
from ktui.progress.fold import fold
from ktui.progress.memory import MoveMemory
from ktui.progress.slots import recent_grid, start_slots
from ktui.progress.timeline import Mark, Progress, Timeline
from ktui.recording.milliseconds import to_ms, wall_ms
from ktui.recording.reading import find_sessions
from ktui.recording.replay_tape import Axis, Tape
from ktui.tui.poll.requested_replicas import informed

MOST_LOOKS = 100_000
"""Looks at one partition that are folded, the newest: some seconds of work."""


def history(folder: RunDir, clock: Clock, most: int = MOST_LOOKS) -> Progress | None:
    """Fold what was recorded of a run, up to now; None where nothing was.

    Moves that have ended are in it however long ago that was, and are kept as if they ended now.

    Args:
        folder: the run's.
        clock: the view's, to whose seconds those of the recording are brought.
        most: how many looks at one partition are folded.

    Raises:
        FileProblem: the recording cannot be read.
        JournalProblem: the journal cannot be read.
    """
    if not folder.recording.is_dir():
        return None
    now = Axis(wall_ms(clock.now()), to_ms(clock.monotonic()))
    tape = Tape(find_sessions(folder.recording), now)
    with Journal.open(folder.journal, clock, read_only=True) as journal:
        entries = list(journal.entries())
    run, progress = Run(folder.name), Progress()
    over: dict[TopicPartition, Timeline] = {}
    coming = iter(entries)
    following = next(coming, None)
    for passing in tape.play(tape.last_looks(most)):
        if isinstance(passing.what, Observation):
            while following is not None and following.at <= passing.what.at:
                run.apply(following)
                following = next(coming, None)
            before = informed(progress, run)
            progress = fold(before, passing.what)
            over |= _let_go(before, progress, clock.monotonic())
    if progress.last is None:
        return None
    timelines = {**over, **progress.timelines}
    kept = {tp: _kept(timeline, clock.monotonic()) for tp, timeline in timelines.items()}
    return msgspec.structs.replace(progress, timelines=kept)


def _let_go(
    before: Progress, after: Progress, now_s: float
) -> Iterator[tuple[TopicPartition, Timeline]]:
    """Give the moves that a fold has let go of, for they ended long before: nothing is recent."""
    nothing = start_slots(recent_grid(now_s), Mark.NOTHING)
    for tp in before.timelines.keys() - after.timelines.keys():
        if (timeline := before.timelines[tp]).phase.ended:
            yield tp, msgspec.structs.replace(timeline, recent=nothing)


def _kept(timeline: Timeline, now_s: float) -> Timeline:
    """Have the next folds keep a move that has ended: for as long as one that ends now."""
    if not timeline.phase.ended:
        return timeline
    memory = msgspec.structs.replace(timeline.memory or MoveMemory(), ended_s=now_s)
    return msgspec.structs.replace(timeline, memory=memory)


def joined(past: Progress, own: Progress, first: Observation | None) -> Progress:
    """Give what is known with what was known before.

    Args:
        past: what was seen before, perhaps also since.
        own: what the view has seen itself.
        first: the view's first look, which told as new what was there already.
    """
    if own.last is None or first is None or past.last is None:
        return past if own.last is None else own
    if own.last.monotonic_s > past.last.monotonic_s:
        past = fold(past, own.last)
    older = {
        tp: timeline
        for tp, timeline in past.timelines.items()
        if tp not in own.timelines or timeline.began_s < own.timelines[tp].began_s
    }
    since = dropwhile(lambda event: event.at <= first.at, own.events)
    events = (*(event for event in past.events if event.at <= first.at), *since)
    return msgspec.structs.replace(own, timelines={**own.timelines, **older}, events=events)
