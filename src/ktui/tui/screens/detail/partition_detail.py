"""What is known of one partition, as the title and the lines that screen and pane show."""

from __future__ import annotations

from datetime import datetime

from textual.content import Content

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.detail.body import RunDetail, detail_body
from ktui.tui.screens.detail.steps import run_steps
from ktui.tui.screens.watch.row_context import RowContext, build_row_context
from ktui.tui.screens.watch.state import reason, state_cell
from ktui.tui.screens.watch.words import run_waits
from ktui.tui.widgets.services import Services

_EXPLAINED = {
    Phase.SETTLED: "not being reassigned",
    Phase.SETTLING: "no longer listed; what became of it is not certain yet",
    Phase.DONE: "reached its target",
    Phase.CANCELLED: "ended on its original replicas",
    Phase.CHANGED_ELSEWHERE: "ended on replicas that are neither its target nor its original",
    Phase.TOPIC_GONE: "the topic was deleted",
}
"""The meaning of a phase, in the words beside it."""
_LEAST_WIDTH = 40


class PartitionDetail:
    """One partition and what polls have shown of it; one that has vanished stays as it was."""

    def __init__(self, app: Services, partition: TopicPartition) -> None:
        self._app = app
        self.partition = partition
        self._timeline: Timeline | None = None
        self._observation: Observation | None = None
        """The poll that showed this timeline: an earlier one where the partition has vanished."""

    @property
    def interest(self) -> Interest:
        if self._attached is None:
            return NO_INTEREST
        return Interest(partitions=frozenset({self.partition}))

    @property
    def seen(self) -> tuple[Timeline, RowContext] | None:
        """What a row of the partition is drawn from; None where no poll has shown it yet."""
        if self._timeline is None:
            return None
        rows = None if self._attached is None else self._attached.rows
        context = build_row_context(self._observation, rows, health_first=True)
        return self._timeline, context

    @property
    def _attached(self) -> AttachedRun | None:
        return self._app.attached

    def update(self) -> None:
        """Take over the last poll."""
        progress = self._app.progress
        timeline = progress.timelines.get(self.partition) or self._unpolled()
        if timeline is not None:
            self._timeline, self._observation = timeline, progress.last

    def _unpolled(self) -> Timeline | None:
        return None if self._attached is None else self._attached.rows.unpolled(self.partition)

    def title(self) -> list[Piece]:
        """Return the name, the state in the words of the list, and what that means."""
        name = Piece(str(self.partition), bold=True)
        if self._timeline is None or self._observation is None:
            return [name]
        rows = None if self._attached is None else self._attached.rows
        return [
            name,
            Piece(" · ", "dim"),
            *_state_sentence(self._timeline, self._observation, rows),
        ]

    def body(self, width: int, height: int) -> list[Content]:
        """Return the lines, laid out for a room of so many cells."""
        if self._timeline is None or self._observation is None:
            return [Content.styled(self._absent_text(), "$dim")]
        notice = self._notice(self._observation.at)
        width, height = max(_LEAST_WIDTH, width), height - len(notice)
        of_run = self._of_run(width)
        key = self._cancel_key(of_run)
        lines = detail_body(self._timeline, self._observation, width, height, of_run, key)
        return [*notice, *lines]

    def _cancel_key(self, of_run: RunDetail | None) -> str:
        """Return the key that cancels the partition's reassignment; empty where none does now."""
        if of_run is not None and of_run.track.step is not None:
            return "c" if self._app.works("cancel") else ""
        return "X" if self._app.works("cancel_foreign") else ""

    @property
    def _vanished(self) -> bool:
        polled = self.partition in self._app.progress.timelines
        known = polled or self._unpolled() is not None
        return self._timeline is not None and not known

    def _of_run(self, width: int) -> RunDetail | None:
        attached = self._attached
        track = None if attached is None else attached.run.tracks.get(self.partition)
        if attached is None or track is None:
            return None
        steps_taken, limits = attached.rows.steps_taken(self.partition), attached.run.limits
        steps = run_steps(attached.name, track, steps_taken, limits, width)
        waits = run_waits(track, attached.rows)
        context = build_row_context(self._observation, attached.rows, health_first=True)
        stalled_s, sign = context.stalled_s(track), context.cancel_sign(track)
        return RunDetail(
            track, steps_taken, steps, attached.events_of(self.partition), waits, stalled_s, sign
        )

    def _absent_text(self) -> str:
        if self._app.progress.last is None:
            return "Waiting for the first answer of the cluster."
        return (
            "This partition is not being reassigned, and nothing of it has been seen"
            " since this view was opened."
        )

    def _notice(self, at: datetime) -> list[Content]:
        if not self._vanished:
            return []
        words = f"No longer watched. What follows is as of {figures.as_time(at)}."
        return [Content.styled(words, "$warning"), Content("")]


def as_current(words: Content, *, stale: bool) -> Content:
    """Draw text without colours where it is no longer current."""
    return Content.styled(words.plain, "$dim") if stale else words


def _state_sentence(
    timeline: Timeline, observation: Observation, run: RunRows | None
) -> list[Piece]:
    context = build_row_context(observation, run, health_first=True)
    state = state_cell(timeline, context)._replace(bold=True)
    reported_by_run = context.track(timeline) is not None
    why = ["" if reported_by_run else _EXPLAINED.get(timeline.phase, "")]
    trouble = reason(timeline, context)
    if trouble is not None and (timeline.stall is None or timeline.phase.ended):
        why.append(trouble.text)
    words = "; ".join(filter(None, why))
    return [state, Piece(f" · {words}" if words else "", "dim")]
