"""The detail of one partition, on a screen of its own or beside the list."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, faded, partition_text, pieces_width
from ktui.tui.draw.paint import content, titled_rule
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.screens.copy import choose_copy
from ktui.tui.screens.detail.body import RunDetail, detail_body, run_steps
from ktui.tui.screens.watch.list import PartitionPane
from ktui.tui.screens.watch.state import reason, state_cell
from ktui.tui.screens.watch.words import RowContext, build_row_context, run_waits
from ktui.tui.widgets.bindings import COPY_BINDING, bind, give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.frame import panel_rule
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.lines import Lines, set_text
from ktui.tui.widgets.services import Services, services

_EXPLAINED = {
    Phase.SETTLED: "not being reassigned",
    Phase.SETTLING: "no longer listed; what became of it is not certain yet",
    Phase.DONE: "reached its target",
    Phase.CANCELLED: "ended on its original replicas",
    Phase.CHANGED_ELSEWHERE: "ended on replicas that are neither its target nor its original",
    Phase.TOPIC_GONE: "the topic was deleted",
}
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
        if self._timeline is None:
            return None
        rows = None if self._attached is None else self._attached.rows
        context = build_row_context(self._observation, rows, health_first=True)
        return self._timeline, context

    @property
    def _attached(self) -> AttachedRun | None:
        return self._app.attached

    def update(self) -> None:
        progress = self._app.progress
        timeline = progress.timelines.get(self.partition) or self._unpolled()
        if timeline is not None:
            self._timeline, self._observation = timeline, progress.last

    def _unpolled(self) -> Timeline | None:
        return None if self._attached is None else self._attached.rows.unpolled(self.partition)

    def title(self) -> list[Piece]:
        name = Piece(str(self.partition), bold=True)
        if self._observation is None or (seen := self.seen) is None:
            return [name]
        return [name, Piece(" · ", "dim"), *_state_sentence(*seen)]

    def body(self, width: int, height: int) -> list[Content]:
        if self._timeline is None or self._observation is None:
            return [Content.styled(self._absent_text(), "$dim")]
        notice = self._notice(self._observation.at)
        width, height = max(_LEAST_WIDTH, width), height - len(notice)
        of_run = self._of_run(width)
        key = self._cancel_key(of_run)
        lines = detail_body(self._timeline, self._observation, width, height, of_run, key)
        return [*notice, *lines]

    def _cancel_key(self, of_run: RunDetail | None) -> str:
        if of_run is not None and of_run.track.step is not None:
            return "c" if self._app.abilities.works("cancel") else ""
        return "X" if self._app.abilities.works("cancel_foreign") else ""

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


def _state_sentence(timeline: Timeline, context: RowContext) -> list[Piece]:
    state = state_cell(timeline, context)._replace(bold=True)
    reported_by_run = context.track(timeline) is not None
    why = ["" if reported_by_run else _EXPLAINED.get(timeline.phase, "")]
    trouble = reason(timeline, context)
    if trouble is not None and (timeline.stall is None or timeline.phase.ended):
        why.append(trouble.text)
    words = "; ".join(filter(None, why))
    return [state, Piece(f" · {words}" if words else "", "dim")]


class DetailPane(PartitionPane):
    """Shows the partition that it is given; draws and asks for nothing while it is hidden."""

    DEFAULT_CSS = """
    DetailPane {
        background: $background;
        & > #pane-title { height: 1; }
        & > VerticalScroll {
            padding: 0 1 0 2; scrollbar-size-vertical: 1;
        }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._detail: PartitionDetail | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="pane-title", markup=False)
        with VerticalScroll():
            yield Lines(id="pane-body")

    @property
    def interest(self) -> Interest:
        return NO_INTEREST if self._detail is None or not self.display else self._detail.interest

    def show_partition(self, tp: TopicPartition | None, *, again: bool) -> None:
        shown = None if self._detail is None else self._detail.partition
        if not self.display or (tp == shown and not again):
            return
        if tp is None:
            self._detail = None
        elif tp != shown:
            self._detail = PartitionDetail(services(self), tp)
            self.query_one(VerticalScroll).scroll_home(animate=False)
        self.draw()

    @on(Resize)
    def draw(self) -> None:
        stale = services(self).outage is not None
        title: list[Piece] = []
        lines: list[Content] = []
        if self._detail is not None:
            self._detail.update()
            tp, (name, *state) = self._detail.partition, self._detail.title()
            whole = min(pieces_width([name]), self.size.width // 2)
            title = [name._replace(text=partition_text(tp, whole)), *state]
            room = self.query_one(VerticalScroll).scrollable_content_region
            lines = self._detail.body(room.width, room.height)
        rule = panel_rule(self, 1, (faded(title) if stale else title) or [Piece("partition")])
        set_text(self.query_one("#pane-title", Static), rule)
        self.query_one(Lines).show([as_current(line, stale=stale) for line in lines])


class DetailScreen(Screen[None]):
    """Shows one partition; [ and ] walk through the app's list."""

    CSS = """
    DetailScreen {
        background: $background;
        & > #detail-title { height: 1; }
        & > VerticalScroll {
            padding: 0 1 0 2; scrollbar-size-vertical: 1; scrollbar-gutter: stable;
        }
    }
    """
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "dismiss", "back", "Go back to the list", key_display="esc"),
        bind(
            "left_square_bracket", "step(-1)", "previous",
            "Show the partition above this one in the list", key_display="[",
        ),
        bind(
            "right_square_bracket", "step(1)", "next",
            "Show the partition below this one in the list", key_display="]",
        ),
        COPY_BINDING,
    ]  # fmt: skip
    give_ids("detail", BINDINGS)

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__()
        self.partition = tp
        self.title = str(tp)

    @cached_property
    def _detail(self) -> PartitionDetail:
        return PartitionDetail(services(self), self.partition)

    @property
    def interest(self) -> Interest:
        return self._detail.interest

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(id="detail-title", markup=False)
        with VerticalScroll():
            yield Static(id="detail-body", markup=False)
        yield FooterKeys()

    def on_mount(self) -> None:
        self._draw()

    def show_progress(self) -> None:
        self._detail.update()
        if self.is_mounted:
            self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action != "step":
            return True
        return None if self._neighbour(int(str(parameters[0]))) is None else True

    def action_step(self, step: int) -> None:
        tp = self._neighbour(step)
        if tp is None:
            return
        self.partition, self.title = tp, str(tp)
        self._detail = PartitionDetail(services(self), tp)
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.show_progress()
        self.query_one(StatusHeader).refresh()
        self.refresh_bindings()

    async def action_copy(self) -> None:
        if self._detail.seen is None:
            self.notify("Nothing of this partition has been seen yet.", markup=False)
        else:
            await choose_copy(self.app, *self._detail.seen)

    def _neighbour(self, step: int) -> TopicPartition | None:
        return services(self).neighbour(self.partition, step)

    @on(Resize)
    def _draw(self) -> None:
        stale = services(self).outage is not None
        title = content(self._detail.title())
        lines = self._detail.body(self.size.width - 4, self.size.height - 3)
        rule = titled_rule(as_current(title, stale=stale), self.size.width)
        set_text(self.query_one("#detail-title", Static), rule)
        body = as_current(Content("\n").join(lines), stale=stale)
        set_text(self.query_one("#detail-body", Static), body)
