"""The detail of one partition, on a screen of its own or beside the list."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from functools import cached_property
from typing import ClassVar

import msgspec
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Click, Resize
from textual.widgets import Static

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.execution.run.track import find_goal
from ktui.progress.timeline import Phase, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece, faded, partition_text, pieces_width
from ktui.tui.draw.paint import content
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.run_view.rows import steps_to_come
from ktui.tui.screens.detail.axis import RunDetail, Subject, what_a_step_does
from ktui.tui.screens.detail.body import Keys, compact_body, full_body
from ktui.tui.screens.detail.lanes import Drawing
from ktui.tui.screens.questions import choose_copy
from ktui.tui.screens.watch.list import ZOOMS
from ktui.tui.screens.watch.state import state_cell
from ktui.tui.screens.watch.words import RowContext, build_row_context, run_waits
from ktui.tui.widgets.bindings import COPY_BINDING, bind, give_ids, hidden
from ktui.tui.widgets.frame import BodyScreen, Panel
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
        self._memory = app.open_partitions.memory(partition)
        self._timeline: Timeline | None = None
        self._observation: Observation | None = None
        """The poll that showed this timeline: an earlier one where the partition has vanished."""
        self.subject: Subject | None = None
        self.cursor_s: float | None = None
        """The moment under the cursor, which the lanes describe; None for now."""
        self.drawing: Drawing | None = None

    @property
    def interest(self) -> Interest:
        if self._attached is None:
            return NO_INTEREST
        return Interest(partitions=frozenset({self.partition}))

    @property
    def seen(self) -> tuple[Timeline, RowContext] | None:
        return None if self._timeline is None else (self._timeline, self._context)

    @property
    def _context(self) -> RowContext:
        rows = None if self._attached is None else self._attached.rows
        return build_row_context(self._observation, rows, health_first=True)

    @property
    def _attached(self) -> AttachedRun | None:
        return self._app.attached

    def update(self) -> None:
        progress = self._app.progress
        timeline = progress.timelines.get(self.partition) or self._unpolled()
        if timeline is not None:
            self._timeline, self._observation = timeline, progress.last
            if progress.last is not None:
                self._memory.note(timeline, progress.last.monotonic_s)
        self.subject = self._find_subject()

    def _unpolled(self) -> Timeline | None:
        return None if self._attached is None else self._attached.rows.unpolled(self.partition)

    def _find_subject(self) -> Subject | None:
        timeline, seen = self._timeline, self._observation
        if timeline is None or seen is None:
            return None
        context = self._context
        of_run = self._of_run(context)
        if of_run is not None:
            track, state = of_run.track, timeline.state
            timeline = msgspec.structs.replace(
                timeline,
                original=track.original,
                original_ordered=True,
                target=find_goal(track, state.replicas, state.isr, state.leader).replicas,
            )
        stale = self._app.outage is not None or self._vanished
        return Subject(timeline, seen, context, of_run, stale)

    def title(self, *, compact: bool = False) -> list[Piece]:
        name = Piece(str(self.partition), bold=True)
        subject = self.subject
        if subject is None:
            return [name]
        state = state_cell(subject.timeline, subject.context)._replace(bold=True)
        facts = [*_about_step(subject), *([_target(subject)] if compact else [])]
        dot = Piece(" · ", "dim")
        return [name, dot, state, *(x for fact in facts if fact for x in (dot, Piece(fact, "dim")))]

    def body(self, width: int, height: int, *, compact: bool = False) -> list[Content]:
        subject = self.subject
        if subject is None:
            return [Content.styled(self._absent_text(), "$dim")]
        notice = self._notice(subject.observation.at)
        width, height = max(_LEAST_WIDTH, width), height - len(notice)
        self.drawing = Drawing(
            subject, self._memory, width, zoom=self._app.zoom_s, cursor_s=self.cursor_s
        )
        keys = self._keys(subject.of_run)
        if compact:
            return [*notice, *compact_body(subject, self.drawing, width, height, keys)]
        limits = None if self._attached is None else self._attached.run.limits
        return [*notice, *full_body(subject, self.drawing, width, height, keys, limits)]

    def move_cursor(self, cells: int) -> bool:
        """Move the cursor; it goes at the last cell. Return whether anything changed."""
        if self.drawing is None:
            return False
        axis, before = self.drawing.axis, self.drawing.cursor
        now = axis.past - 1
        cell = max(0, (now if before is None else before) + cells)
        self.cursor_s = axis.second(cell) if cell < now else None
        return (before is None) is not (self.cursor_s is None) or cell != before

    def point_at(self, column: int) -> None:
        """Put the cursor at a column of the body, which may be of none of the lanes."""
        if self.drawing is None:
            return
        cell = column - self.drawing.left
        if 0 <= cell < self.drawing.axis.past:
            self.cursor_s = self.drawing.axis.second(cell)

    def _keys(self, of_run: RunDetail | None) -> Keys:
        works = self._app.abilities.works
        if of_run is None or of_run.track.state.ended:
            return Keys("X" if works("cancel_foreign") else "")
        return Keys("c", writes=True) if works("cancel") else Keys()

    @property
    def _vanished(self) -> bool:
        polled = self.partition in self._app.progress.timelines
        known = polled or self._unpolled() is not None
        return self._timeline is not None and not known

    def _of_run(self, context: RowContext) -> RunDetail | None:
        attached = self._attached
        track = None if attached is None else attached.run.tracks.get(self.partition)
        if attached is None or track is None:
            return None
        rows = attached.rows
        return RunDetail(
            name=attached.name,
            track=track,
            steps_taken=rows.steps_taken(self.partition),
            steps_to_come=steps_to_come(track, attached.run.limits),
            events=attached.events_of(self.partition),
            waits=run_waits(track, rows),
            stalled_s=context.stalled_s(track),
            sign=context.cancel_sign(track),
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


def _about_step(subject: Subject) -> Iterator[str]:
    """Yield what the step under way does, what follows it, and how long it takes."""
    timeline, of_run = subject.timeline, subject.of_run
    if of_run is None or subject.context.track(timeline) is None:
        yield _EXPLAINED.get(timeline.phase, "")
    elif of_run.track.step is not None:
        begun = of_run.track.step.begun
        what = what_a_step_does(begun.adding, begun.removing, begun.elect)
        yield f"{what}, batch {begun.batch:,}"
    for step in () if of_run is None else of_run.steps_to_come[:1]:
        what = what_a_step_does(step.adds, step.drops, step.elects)
        yield f"{'then' if of_run is not None and of_run.steps_taken else 'first'} {what}"
    if subject.expected_s is not None and timeline.left_s is not None:
        yield f"left {figures.as_duration_range(timeline.left_s)}"


def _target(subject: Subject) -> str:
    if subject.timeline.phase is Phase.SETTLED and subject.of_run is None:
        return ""
    return f"target {' '.join(map(str, subject.timeline.target))}"


class DetailPane(Panel):
    """Shows the partition that it is given; draws and asks for nothing while it is hidden."""

    DEFAULT_CSS = """
    DetailPane {
        background: $background;
        & > VerticalScroll {
            padding: 0 1 0 2; scrollbar-size-vertical: 1;
        }
    }
    """
    DIGIT, TITLE = 1, "partition"

    def __init__(self) -> None:
        super().__init__()
        self._detail: PartitionDetail | None = None

    def body(self) -> ComposeResult:
        with VerticalScroll():
            yield Lines()

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
            tp, (name, *state) = self._detail.partition, self._detail.title(compact=True)
            whole = min(pieces_width([name]), self.size.width // 2)
            title = [name._replace(text=partition_text(tp, whole)), *state]
            room = self.query_one(VerticalScroll).scrollable_content_region
            lines = self._detail.body(room.width, room.height, compact=True)
        self.draw_rule((faded(title) if stale else title) or [Piece(self.TITLE)])
        grey = [Content.styled(line.plain, "$dim") for line in lines] if stale else lines
        self.query_one(Lines).show(grey)


class DetailScreen(BodyScreen[None]):
    """Shows one partition; [ and ] walk through the app's list."""

    CSS = "DetailScreen > VerticalScroll { padding: 0 1 0 2; scrollbar-gutter: stable; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "back", "back", "Go back to now, then to the list", key_display="esc"),
        bind(
            "left_square_bracket", "step(-1)", "previous",
            "Show the partition above this one in the list", key_display="[",
        ),
        bind(
            "right_square_bracket", "step(1)", "next",
            "Show the partition below this one in the list", key_display="]",
        ),
        bind(
            "less_than_sign", "cursor(-1)", "look back",
            "Move the cursor in time back: every lane shows what was at its moment",
            key_display="<>",
        ),
        hidden(
            "greater_than_sign", "cursor(1)", "look on",
            "Move the cursor in time on, at last to now", key_display=">",
        ),
        hidden("left", "cursor(-1)", "earlier", "As <, but in a replay the arrows seek"),
        hidden("right", "cursor(1)", "later", "As >, but in a replay the arrows seek"),
        hidden("shift+left", "cursor(-10)", "far back", "Move the cursor back by ten cells"),
        hidden("shift+right", "cursor(10)", "far on", "Move the cursor on by ten cells"),
        hidden("end", "now", "now", "Take the cursor away: the lanes show now", priority=True),
        bind(
            "z", "zoom", "zoom",
            "Show the last 10 minutes, the last minute, or all since the first step",
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

    def heading(self) -> Content:
        return self.current(content(self._detail.title()))

    def on_mount(self) -> None:
        self._draw()

    def show_progress(self) -> None:
        self._detail.update()
        if self.is_mounted:
            self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "now":
            return self._detail.cursor_s is not None
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
        self.query_one(StatusHeader).redraw()
        self.refresh_bindings()

    def action_back(self) -> None:
        if self._detail.cursor_s is None:
            self.dismiss()
        else:
            self.action_now()

    def action_now(self) -> None:
        self._detail.cursor_s = None
        self._draw()

    def action_cursor(self, cells: int) -> None:
        if self._detail.move_cursor(cells):
            self._draw()

    def action_zoom(self) -> None:
        app = services(self)
        app.zoom_s = ZOOMS[(ZOOMS.index(app.zoom_s) + 1) % len(ZOOMS)]
        self._draw()

    def on_click(self, event: Click) -> None:
        body = self.query_one(".text").region
        if body.contains(event.screen_x, event.screen_y):
            self._detail.point_at(event.screen_x - body.x)
            self._draw()

    async def action_copy(self) -> None:
        if self._detail.seen is None:
            self.notify("Nothing of this partition has been seen yet.", markup=False)
        else:
            await choose_copy(self.app, *self._detail.seen)

    def _neighbour(self, step: int) -> TopicPartition | None:
        return services(self).neighbour(self.partition, step)

    @on(Resize)
    def _draw(self) -> None:
        self.draw_title()
        lines = self._detail.body(self.size.width - 4, self.size.height - 3)
        set_text(self.query_one(".text", Static), self.current(Content("\n").join(lines)))
