"""The help screen: every key, generated from the bindings, and every sign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from ktui.execution.run.cancel_kind import CancelKind
from ktui.progress.timeline import Mark
from ktui.tui.draw.cells import CALLED_OFF, SIGNS, Piece
from ktui.tui.draw.paint import content
from ktui.tui.widgets.bindings import HelpGroup

_REPLICA_SIGNS = (
    (Piece("*5", "leader", bold=True), "leads the partition"),
    (Piece(">4", "next-leader"), "first replica of the target: to lead, but does not yet"),
    (Piece("+7", "adding"), "being added"),
    (Piece("+7=", "adding"), "being added, and in the ISR already"),
    (Piece("-3", "retiring"), "retiring: leaves when the move is done"),
    (Piece("2!", "out-of-sync", underline=True), "out of the ISR, or its broker is down"),
)
_TIMELINE_SIGNS = (
    (Piece("▁▃▅█", "adding"), "share caught up of the slowest replica being added"),
    (Piece(*CALLED_OFF[CancelKind.ROLLBACK]), "rolled back from here on"),
    *(
        (Piece(*SIGNS[mark]), words)
        for mark, words in (
            (Mark.IN_SYNC, "nothing to catch up: all in sync"),
            (Mark.LEADER_MOVED, "the leader moved"),
            (Mark.STALLED, "stalled: no headway"),
            (Mark.OUT_OF_SYNC, "a replica was out of the ISR"),
            (Mark.CANCELLED, "cancelled or stopped, or changed by somebody else"),
            (Mark.WAITING, "waiting for its turn"),
            (Mark.GONE, "the topic is gone"),
        )
    ),
)


_LANE_SIGNS = (
    (Piece("▁▃▅█", "adding"), "share that a replica being added has caught up"),
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
        & Horizontal { height: auto; }
        & .title { margin-top: 1; }
        & .title:first-of-type { margin-top: 0; }
        & .sign { width: 14; padding-left: 2; }
        & .words { width: 1fr; }
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


def _table(title: str, rows: Sequence[tuple[Piece, str]]) -> ComposeResult:
    yield Static(content([Piece(title, "header", bold=True)]), classes="title")
    for sign, words in rows:
        with Horizontal():
            yield Static(content([sign]), classes="sign")
            yield Static(Content(words), classes="words")
