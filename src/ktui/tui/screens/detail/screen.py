"""The Detail screen: one partition's move, replica by replica, from its start to now."""

from __future__ import annotations

from collections.abc import Callable
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
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Progress, Timeline
from ktui.tui.draw import format as figures
from ktui.tui.poll.outages import ClusterOutage
from ktui.tui.run_view.attached import AttachedRun
from ktui.tui.screens.detail.body import RunDetail, detail_body
from ktui.tui.screens.detail.steps import run_steps
from ktui.tui.screens.watch.partition_words import state_sentence
from ktui.tui.screens.watch.row_context import build_row_context
from ktui.tui.screens.watch.words import run_waits
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import services

Neighbour = Callable[[TopicPartition, int], TopicPartition | None]


class DetailScreen(Screen[None]):
    """Shows one partition; the app passes each new progress to `show`.

    If the app has a `neighbour(tp, step)`, [ and ] walk through the app's list.
    """

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
    ]  # fmt: skip

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__()
        self.tp = tp
        self._progress = Progress()
        self._timeline: Timeline | None = None
        self._observation: Observation | None = None
        self._outage: ClusterOutage | None = None
        self._attached: AttachedRun | None = None

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

    def show(self, progress: Progress, outage: ClusterOutage | None = None) -> None:
        """Show a new progress. A partition that has vanished from it stays as it was last seen."""
        self._progress, self._outage = progress, outage
        timeline = progress.timelines.get(self.tp) or self._unseen()
        if timeline is not None:
            self._timeline, self._observation = timeline, progress.last
        if self.is_mounted:
            self._draw()

    def show_run(self, attached: AttachedRun | None, touched: set[TopicPartition]) -> None:
        """Keep the present state of the run; the next `show` draws it."""
        del touched
        self._attached = attached

    def _unseen(self) -> Timeline | None:
        """Return the run's own timeline of a partition that no poll has covered."""
        return None if self._attached is None else self._attached.rows.unseen(self.tp)

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
        self.tp, self._timeline, self._observation = tp, None, None
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.show(self._progress, self._outage)
        self.refresh_bindings()

    def _neighbour(self, step: int) -> TopicPartition | None:
        return services(self).neighbour(self.tp, step)

    @on(Resize)
    def _draw(self) -> None:
        self.query_one("#detail-title", Static).update(self._current(self._title()))
        body = self.query_one("#detail-body", Static)
        body.update(self._current(Content("\n").join(self._body())))

    def _current(self, words: Content) -> Content:
        """Draw stale text without colours."""
        return words if self._outage is None else Content.styled(words.plain, "$dim")

    @property
    def _vanished(self) -> bool:
        known = self.tp in self._progress.timelines or self._unseen() is not None
        return self._timeline is not None and not known

    def _title(self) -> Content:
        name = Content.styled(str(self.tp), "bold $foreground")
        if self._timeline is None or self._observation is None:
            return name
        rows = None if self._attached is None else self._attached.rows
        return Content.assemble(
            name, "   ", state_sentence(self._timeline, self._observation, rows)
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
        track = None if attached is None else attached.run.tracks.get(self.tp)
        if attached is None or track is None:
            return None
        taken, limits = attached.rows.taken(self.tp), attached.run.limits
        steps = run_steps(attached.name, track, taken, limits, width)
        waits = run_waits(track, attached.rows)
        moment = build_row_context(self._observation, attached.rows, health_first=True)
        stalled_s, sign = moment.stalled_s(track), moment.called_off(track)
        return RunDetail(track, taken, steps, attached.events_of(self.tp), waits, stalled_s, sign)

    def _absent_text(self) -> str:
        if self._progress.last is None:
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
