"""Backfill a view's history with what the run's engine recorded before the view was opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from ktui.cluster.clock import Clock
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.kept import replay_recording
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.run import Run
from ktui.progress.flows import RESTART_S, merge_flows
from ktui.progress.fold import fold
from ktui.progress.memory import MoveMemory
from ktui.progress.row import recent_grid, start_slots
from ktui.progress.timeline import Mark, Progress, Timeline, in_time_order

MOST_LOOKS = 100_000
"""The most partition states to fold, the newest: some seconds of work.

A poll of ten partitions counts as ten.
"""


def load_history(folder: RunDir, clock: Clock, most: int = MOST_LOOKS) -> Progress | None:
    """Return the progress folded from a run's recording up to now; None where there is none.

    Moves that have ended are included, however long ago. They are kept as if they ended now.

    Args:
        folder: the run's folder.
        clock: the view's clock, to whose seconds those of the recording are converted.
        most: the most partition states to fold, counting each partition of each poll.

    Raises:
        FileProblem: the recording cannot be read.
        JournalProblem: the journal cannot be read.
    """
    if not folder.recording.is_dir():
        return None
    with Journal.open(folder.journal, clock, read_only=True) as journal:
        entries = list(journal.entries())
    progress, ended = Progress(), dict[TopicPartition, Timeline]()
    for seen in replay_recording(folder, Run(folder.name), entries, clock, most):
        progress = seen.progress
        ended |= _dropped(seen.before, progress, clock.monotonic())
    if progress.last is None:
        return None
    timelines = {**ended, **progress.timelines}
    kept = {tp: _keep_longer(timeline, clock.monotonic()) for tp, timeline in timelines.items()}
    return msgspec.structs.replace(progress, timelines=kept)


def _dropped(
    before: Progress, after: Progress, now_s: float
) -> Iterator[tuple[TopicPartition, Timeline]]:
    """Yield the moves that a fold has dropped because they ended long ago, without recent marks."""
    no_marks = start_slots(recent_grid(now_s), Mark.NOTHING)
    for tp in before.timelines.keys() - after.timelines.keys():
        if (timeline := before.timelines[tp]).phase.ended:
            yield tp, msgspec.structs.replace(timeline, recent=no_marks)


def _keep_longer(timeline: Timeline, now_s: float) -> Timeline:
    """Make the next folds keep a move that has ended as long as one that ends now."""
    if not timeline.phase.ended:
        return timeline
    memory = msgspec.structs.replace(timeline.memory or MoveMemory(), ended_s=now_s)
    return msgspec.structs.replace(timeline, memory=memory)


def merge_history(
    past: Progress,
    own: Progress,
    first: Observation | None,
    polls: Iterable[Observation] = (),
    complete: Callable[[Progress], Progress] = lambda progress: progress,
) -> Progress:
    """Merge what was seen before the view was opened into what the view has seen.

    Args:
        past: the progress from before the view was opened, perhaps also since then.
        own: the progress that the view has seen itself.
        first: the view's first poll, which reported as new what was there already.
        polls: the polls by which the view's progress came to be while the past was read.
        complete: completes a progress before each fold with what only a run knows.
    """
    if own.last is None or first is None or past.last is None:
        return past if own.last is None else own
    read_s = past.last.monotonic_s
    since = [poll for poll in (*polls, own.last) if poll.monotonic_s > read_s]
    goes_on = not since or since[0].monotonic_s - read_s <= RESTART_S
    for poll in since:
        if past.last is not poll:
            past = fold(complete(past), poll)
    older = {
        tp: timeline
        for tp, timeline in past.timelines.items()
        if tp not in own.timelines or timeline.began_s < own.timelines[tp].began_s
    }
    own_news = (e for e in own.events if e.at > first.at and e.tp not in older)
    past_news = (e for e in past.events if e.at <= first.at or e.tp in older or e.at > own.last.at)
    return msgspec.structs.replace(
        own,
        timelines={**own.timelines, **older},
        events=tuple(in_time_order(past_news, own_news)),
        flows=merge_flows(past.flows, own.flows, goes_on=goes_on),
    )
