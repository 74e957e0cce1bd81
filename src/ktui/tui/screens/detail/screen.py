"""The Detail screen: one partition's move, replica by replica, from its start to now."""

from __future__ import annotations

from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import content
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.rows import RunRows
from ktui.tui.screens.copy import choose_copy
from ktui.tui.screens.detail.body import RunDetail, detail_body
from ktui.tui.screens.detail.steps import run_steps
from ktui.tui.screens.watch.row import reason, state_cell
from ktui.tui.screens.watch.row_context import build_row_context
from ktui.tui.screens.watch.words import run_waits
from ktui.tui.widgets.bindings import COPY_BINDING
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import services

_EXPLAINED = {
    Phase.SETTLED: "not being reassigned",
    Phase.SETTLING: "no longer listed; what became of it is not certain yet",
    Phase.DONE: "reached its target",
    Phase.CANCELLED: "ended on its original replicas",
    Phase.CHANGED_ELSEWHERE: "ended on replicas that are neither its target nor its original",
    Phase.TOPIC_GONE: "the topic was deleted",
}
"""The meaning of a phase, in the words beside it."""


class DetailScreen(Screen[None]):
    """Shows one partition; [ and ] walk through the app's list."""

    CSS = """
    DetailScreen {
        background: $background;
        & > #detail-title { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & > VerticalScroll {
            padding: 0 1;
            margin-top: 1;
            scrollbar-size-vertical: 1;
            scrollbar-gutter: stable;
        }
    }
    """
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "back", "back", key_display="esc", tooltip="Go back to the list"),
        Binding(
            "left_square_bracket", "step(-1)", "previous", key_display="[",
            tooltip="Show the partition above this one in the list",
        ),
        Binding(
            "right_square_bracket", "step(1)", "next", key_display="]",
            tooltip="Show the partition below this one in the list",
        ),
        COPY_BINDING,
    ]  # fmt: skip

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__()
        self.partition = tp
        """The partition that is shown."""
        self._timeline: Timeline | None = None
        self._observation: Observation | None = None
        """The poll that showed this timeline: an earlier one where the partition has vanished."""

    @property
    def interest(self) -> Interest:
        """What polls have to cover: a partition of the run also while nobody reassigns it."""
        return Interest(
            partitions=frozenset({self.partition} if self._attached is not None else ())
        )

    @property
    def _attached(self) -> AttachedRun | None:
        return services(self).attached

    def compose(self) -> ComposeResult:
        """Lay out the header, the scrolling body, and the keys."""
        yield StatusHeader()
        yield Static(id="detail-title", markup=False)
        with VerticalScroll():
            yield Static(id="detail-body", markup=False)
        yield FooterKeys()

    def on_mount(self) -> None:
        """Draw what is known so far."""
        self._draw()

    def show_progress(self) -> None:
        """Show the new progress. A partition that has vanished stays as it was last seen."""
        progress = services(self).progress
        timeline = progress.timelines.get(self.partition) or self._unpolled()
        if timeline is not None:
            self._timeline, self._observation = timeline, progress.last
        if self.is_mounted:
            self._draw()

    def _unpolled(self) -> Timeline | None:
        """Return the run's own timeline of a partition that no poll has covered."""
        return None if self._attached is None else self._attached.rows.unpolled(self.partition)

    def action_back(self) -> None:
        """Go back to where this was opened."""
        self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out [ and ] at the ends of the list."""
        if action != "step":
            return True
        return None if self._neighbour(int(str(parameters[0]))) is None else True

    def action_step(self, step: int) -> None:
        """Show the next partition of the list, or the previous one."""
        tp = self._neighbour(step)
        if tp is None:
            return
        self.partition, self._timeline, self._observation = tp, None, None
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.show_progress()
        self.refresh_bindings()

    async def action_copy(self) -> None:
        """Ask in which form to copy the partition."""
        if self._timeline is None:
            self.notify("Nothing of this partition has been seen yet.", markup=False)
            return
        rows = None if self._attached is None else self._attached.rows
        context = build_row_context(self._observation, rows, health_first=True)
        await choose_copy(self.app, self._timeline, context)

    def _neighbour(self, step: int) -> TopicPartition | None:
        return services(self).neighbour(self.partition, step)

    @on(Resize)
    def _draw(self) -> None:
        self.query_one("#detail-title", Static).update(self._current(self._title()))
        body = self.query_one("#detail-body", Static)
        body.update(self._current(Content("\n").join(self._body())))

    def _current(self, words: Content) -> Content:
        """Draw stale text without colours."""
        return words if services(self).outage is None else Content.styled(words.plain, "$dim")

    @property
    def _vanished(self) -> bool:
        polled = self.partition in services(self).progress.timelines
        known = polled or self._unpolled() is not None
        return self._timeline is not None and not known

    def _title(self) -> Content:
        name = Content.styled(str(self.partition), "bold $foreground")
        if self._timeline is None or self._observation is None:
            return name
        rows = None if self._attached is None else self._attached.rows
        return Content.assemble(
            name, "   ", _state_sentence(self._timeline, self._observation, rows)
        )

    def _body(self) -> list[Content]:
        if self._timeline is None or self._observation is None:
            return [Content.styled(self._absent_text(), "$dim")]
        notice = self._notice(self._observation.at)
        width, height = max(40, self.size.width - 3), self.size.height - 4 - len(notice)
        of_run = self._of_run(width)
        return [*notice, *detail_body(self._timeline, self._observation, width, height, of_run)]

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
        if services(self).progress.last is None:
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


def _state_sentence(timeline: Timeline, observation: Observation, run: RunRows | None) -> Content:
    """Return a partition's state in the words of the list, and what that means."""
    context = build_row_context(observation, run, health_first=True)
    state = state_cell(timeline, context)._replace(bold=True)
    reported_by_run = context.track(timeline) is not None
    why = ["" if reported_by_run else _EXPLAINED.get(timeline.phase, "")]
    trouble = reason(timeline, context)
    if trouble is not None and (timeline.stall is None or timeline.phase.ended):
        why.append(trouble.text)
    words = "; ".join(filter(None, why))
    return content([state, Piece(f"   {words}" if words else "", "dim")])
