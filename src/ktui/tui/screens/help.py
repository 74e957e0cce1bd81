"""The help screen: every key, generated from the bindings, and every sign."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Size
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from ktui.execution.run.cancel_kind import CancelKind
from ktui.progress.timeline import Mark
from ktui.tui.draw.cells import CANCEL_SIGNS, SIGNS, Piece
from ktui.tui.draw.paint import content
from ktui.tui.screens.brokers.screen import BrokersScreen, BrokerTable
from ktui.tui.screens.copy import CopyScreen
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.screen import DashboardScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.event_list import EventList
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.forms.limits_form import LimitInput
from ktui.tui.screens.insights import InsightsScreen
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.change_screen import RunChangeScreen
from ktui.tui.screens.run.limits import LimitsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.run.tool_commands import ToolCommandsScreen
from ktui.tui.screens.runs import RunsScreen
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.bindings import HelpGroup, help_group

_INDENT, _SIGN_WIDTH = 2, 12
_REPLICA_SIGNS = (
    (Piece("*5", "leader", bold=True), "leads the partition"),
    (Piece(">4", "next-leader"), "first replica of the target: to lead, but does not yet"),
    (Piece("+7", "moving"), "being added"),
    (Piece("+7=", "moving"), "being added, and in the ISR already"),
    (Piece("-3", "retiring"), "retiring: leaves when the move is done"),
    (Piece("2!", "out-of-sync", underline=True), "out of the ISR, or its broker is down"),
)
_TIMELINE_SIGNS = (
    (Piece("▁▃▅█", "moving"), "share caught up of the slowest replica being added"),
    (Piece(*CANCEL_SIGNS[CancelKind.ROLLBACK]), "rolled back from here on"),
    *(
        (Piece(*SIGNS[mark]), words)
        for mark, words in (
            (Mark.IN_SYNC, "nothing to catch up: all in sync"),
            (Mark.LEADER_MOVED, "the leader moved"),
            (Mark.STALLED, "stalled: no headway"),
            (Mark.OUT_OF_SYNC, "a replica was out of the ISR"),
            (Mark.CANCELLED, "cancelled or stopped, or changed by someone else"),
            (Mark.WAITING, "waiting for its turn"),
            (Mark.GONE, "the topic is gone"),
        )
    ),
)


_LANE_SIGNS = (
    (Piece("▁▃▅█", "moving"), "share that a replica being added has caught up"),
    *(
        (Piece(*SIGNS[mark]), words)
        for mark, words in (
            (Mark.LEADER, "leads"),
            (Mark.IN_SYNC, "in the ISR"),
            (Mark.RETIRING, "retiring"),
            (Mark.OUT_OF_SYNC, "out of the ISR"),
            (Mark.STALLED, "stalled: no headway"),
            (Mark.GONE, "not a replica any more"),
        )
    ),
)


class HelpScreen(ModalScreen[None]):
    """Lists the keys of every screen by group, then the signs of replicas, lanes and timelines."""

    CSS = """
    HelpScreen {
        align: center middle;
        & > VerticalScroll {
            width: 92%; max-width: 96; height: 90%; padding: 1 2;
            border: round $primary; background: $surface;
            border-title-color: $foreground; border-subtitle-color: $dim;
            scrollbar-size-vertical: 1;
        }
        & .title { margin-top: 1; }
        & .title:first-of-type { margin-top: 0; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "close", "close", tooltip="Close the help"),
    ]

    def __init__(self, groups: Sequence[HelpGroup]) -> None:
        super().__init__()
        self._groups = groups

    def compose(self) -> ComposeResult:
        """Lay out the help as one scrolling text."""
        with VerticalScroll() as scroll:
            scroll.border_title = "help"
            scroll.border_subtitle = "esc closes"
            for group in self._groups:
                keys = [(Piece(key.keys, "moving", bold=True), key.words) for key in group.keys]
                yield from _table(group.title, keys)
            yield from _table("replicas", _REPLICA_SIGNS)
            yield from _table("lanes of the detail", _LANE_SIGNS)
            yield from _table("timeline", _TIMELINE_SIGNS)

    def action_close(self) -> None:
        """Close the help."""
        self.dismiss()


class SignTable(Widget):
    """Signs and their meanings, side by side. One widget, so that the help opens at once."""

    DEFAULT_CSS = """
    SignTable { height: auto; }
    """

    def __init__(self, rows: Sequence[tuple[Piece, str]]) -> None:
        super().__init__()
        self._rows = rows

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines in so many columns."""
        del container, viewport
        return sum(1 for _ in self._lines(width))

    def render(self) -> Content:
        """Draw the rows, each in as many lines as it needs."""
        return Content("\n").join(self._lines(self.size.width))

    def _lines(self, width: int) -> Iterator[Content]:
        for piece, words in self._rows:
            signs = content([piece]).wrap(_SIGN_WIDTH)
            meaning = Content(words).wrap(max(1, width - _INDENT - _SIGN_WIDTH))
            for sign, line in zip_longest(signs, meaning, fillvalue=Content("")):
                gap = " " * (_SIGN_WIDTH - sign.cell_length)
                yield Content.assemble(" " * _INDENT, sign, gap, line)


def _table(title: str, rows: Sequence[tuple[Piece, str]]) -> ComposeResult:
    yield Static(content([Piece(title, "header", bold=True)]), classes="title")
    yield SignTable(rows)


def help_groups(everywhere: Iterable[object]) -> list[HelpGroup]:
    """Return all groups; `everywhere` are the app's bindings."""
    return [
        help_group("everywhere", everywhere),
        help_group("list of partitions", [*PartitionList.BINDINGS, *WatchScreen.BINDINGS]),
        help_group("detail of a partition", DetailScreen.BINDINGS),
        help_group("brokers", [*BrokersScreen.BINDINGS, *BrokerTable.BINDINGS]),
        help_group("dashboard", [*DashboardScreen.BINDINGS, *PartitionMap.BINDINGS]),
        help_group("events", [*EventsScreen.BINDINGS, *EventList.BINDINGS]),
        help_group(
            "limits", [*RunChangeScreen.BINDINGS, *LimitsScreen.BINDINGS, *LimitInput.BINDINGS]
        ),
        help_group("cancel", CancelScreen.BINDINGS),
        help_group("throttle", [*RunChangeScreen.BINDINGS, *ThrottleScreen.BINDINGS]),
        help_group("runs", RunsScreen.BINDINGS),
        help_group("insights", InsightsScreen.BINDINGS),
        help_group("Kafka's commands", ToolCommandsScreen.BINDINGS),
        help_group("copy", CopyScreen.BINDINGS),
        help_group("start or add a plan", [*StartScreen.BINDINGS, *PlanScreen.BINDINGS]),
    ]
