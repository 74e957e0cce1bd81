"""The dialog with what a broker holds, and what keeps it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ktui.cluster.broker import LogDir
from ktui.cluster.errors import ClusterError
from ktui.execution.broker.status import (
    EMPTY,
    BrokerStatus,
    TopicHoldings,
    advice_lines,
    dir_words,
    held_words,
    state_words,
    why_words,
)
from ktui.execution.errors import RunProblem
from ktui.planning.names import join_some
from ktui.tui.draw import format as figures
from ktui.tui.screens.brokers.manage import way_out
from ktui.tui.screens.brokers.row import CORDON_SIGN
from ktui.tui.screens.dialog import Dialog
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.off_loop import ReportsOwnErrors

MOST_TOPICS = 100
"""The topics that are listed; the shell lists all."""
_FIGURES = 42
"""The cells of a topic's figures."""
_INDENT = "  "


class BrokerStatusScreen(Dialog[None], ReportsOwnErrors):
    """Shows a broker's status as it was read, with the time; it does not change by itself.

    Args:
        broker: the broker.
        read: reads the status, and returns it with the time; raises ClusterError or RunProblem.
    """

    DEFAULT_CSS = "BrokerStatusScreen > .dialog { border: round $rule; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "read", "read again", tooltip="Read what the broker holds again"),
        Binding("pageup", "page(-1)", "scroll up", show=False, tooltip="Scroll up"),
        Binding(
            "pagedown", "page(1)", "scroll", key_display="pgup pgdn", tooltip="Scroll down"
        ),
        Binding("escape,q,s", "close", "back", key_display="esc", tooltip="Go back"),
    ]  # fmt: skip
    give_ids("status", BINDINGS)
    WIDTH = 96

    def __init__(
        self, broker: int, read: Callable[[], Awaitable[tuple[BrokerStatus, datetime]]]
    ) -> None:
        super().__init__(f"broker {broker}")
        self._broker, self._read = broker, read

    def body(self) -> ComposeResult:
        yield Static(Content("Reading what it holds …"), id="broker-status")

    def on_mount(self) -> None:
        super().on_mount()
        self.action_read()

    def action_read(self) -> None:
        self.run_worker(self._show(), group="status", exclusive=True, exit_on_error=False)

    async def _show(self) -> None:
        text = self.query_one("#broker-status", Static)
        try:
            status, at = await self._read()
        except (ClusterError, RunProblem) as problem:
            text.update(Content.styled(f"! {problem}", "$error"))
            return
        self.entitle(f"broker {self._broker}: {state_words(status.facts)}")
        text.update(Content("\n").join(status_lines(status, at, self.line_cells)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "page" or (self.is_mounted and self.box.max_scroll_y > 0)

    def action_close(self) -> None:
        self.dismiss()


def status_lines(status: BrokerStatus, at: datetime, width: int) -> Iterator[Content]:
    """Yield what a broker holds, line by line.

    Args:
        status: the broker.
        at: the time when it was read.
        width: the cells of a line.
    """
    yield from _held(status)
    dirs = sorted(status.facts.log_dirs, key=lambda each: each.path)
    if dirs:
        yield Content("")
        yield Content.styled("log dir", "$header")
        yield from map(_dir, dirs)
    topics = status.holdings.topics()
    if topics:
        yield Content("")
        yield Content.styled(_row("topic", ("replicas", "size", "leads", "preferred"), width),
                             "$header")  # fmt: skip
        for topic in topics[:MOST_TOPICS]:
            yield Content(_row(topic.topic, _topic_figures(topic), width))
            for part in Content(why_words(topic)).wrap(width - len(_INDENT)):
                yield Content.assemble(_INDENT, part).stylize("$dim")
    if more := topics[MOST_TOPICS:]:
        every = f"ktui broker status {status.facts.id} --all"
        yield Content(f"and {figures.as_count(len(more), 'topic')} more. All of them: {every}")
    yield Content("")
    for line in advice_lines(status, topics):
        yield Content.styled(f"! {line}", "$warning")
    current = "proven to be current" if status.fresh else "not proven to be current"
    yield Content.styled(f"read at {figures.as_time(at)}, {current}", "$dim")
    yield Content.styled(way_out(status.facts.id), "$dim")


def _held(status: BrokerStatus) -> Iterator[Content]:
    if status.proven_empty:
        yield Content.styled(f"✓ {EMPTY}", "bold $success")
        return
    yield from map(Content, held_words(status.holdings))
    if not status.holdings.replicas:
        unread = status.facts.unread or ("nothing proves that the metadata is current",)
        yield Content.styled(f"! not known to be empty: {join_some(unread)}", "$warning")


def _dir(log_dir: LogDir) -> Content:
    free, of = figures.as_bytes(log_dir.usable_bytes), figures.as_bytes(log_dir.total_bytes)
    sign, colour = "  ", ""
    if log_dir.error or log_dir.cordoned:
        sign, colour = "! " if log_dir.error else f"{CORDON_SIGN} ", "$warning"
    return Content.assemble(
        (f"{sign}{log_dir.path}  {dir_words(log_dir)}", colour), f"  {free} free of {of}"
    )


def _topic_figures(topic: TopicHoldings) -> tuple[str, ...]:
    held = topic.replicas
    return (
        f"{len(held):,}",
        figures.as_bytes(topic.bytes),
        f"{sum(each.leads for each in held):,}",
        f"{sum(each.preferred for each in held):,}",
    )


def _row(name: str, cells: tuple[str, ...], width: int) -> str:
    room = width - _FIGURES
    shown = name if len(name) <= room else f"{name[: room - 1]}…"
    return shown.ljust(room) + "".join(cell.rjust(n) for cell, n in zip(
        cells, (9, 11, 9, 11), strict=True))  # fmt: skip
