"""The Detail screen: one partition's move, replica by replica, from its start to now."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.observer import Interest
from ktui.cluster.partition import TopicPartition
from ktui.tui.draw.paint import content
from ktui.tui.draw.titled_rule import titled_rule
from ktui.tui.screens.copy import choose_copy
from ktui.tui.screens.detail.partition_detail import PartitionDetail, as_current
from ktui.tui.widgets.bindings import COPY_BINDING, give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import services
from ktui.tui.widgets.static_text import set_text


class DetailScreen(Screen[None]):
    """Shows one partition; [ and ] walk through the app's list."""

    CSS = """
    DetailScreen {
        background: $background;
        & > #detail-title { height: 1; }
        & > VerticalScroll {
            padding: 0 1 0 2;
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
    give_ids("detail", BINDINGS)

    def __init__(self, tp: TopicPartition) -> None:
        super().__init__()
        self.partition = tp
        """The partition that is shown."""

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

    def action_back(self) -> None:
        self.dismiss()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action != "step":
            return True
        return None if self._neighbour(int(str(parameters[0]))) is None else True

    def action_step(self, step: int) -> None:
        tp = self._neighbour(step)
        if tp is None:
            return
        self.partition = tp
        self._detail = PartitionDetail(services(self), tp)
        self.query_one(VerticalScroll).scroll_home(animate=False)
        self.show_progress()
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
