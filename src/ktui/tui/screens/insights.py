"""The Insights screen: what earlier runs show about this cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem
from ktui.insights.insights import NOTHING, Insights, Section, insights_in, sections
from ktui.quantities import as_count
from ktui.tui.draw.paint import panel_title, titled_rule
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.off_loop import ReportsOwnErrors


class InsightsScreen(Screen[None], ReportsOwnErrors):
    """Shows the insights of a state directory about a cluster; they are read when it opens."""

    CSS = """
    InsightsScreen {
        background: $background;
        & > #insights-title { height: 1; }
        & > VerticalScroll { padding: 0 1; overflow-x: auto; scrollbar-gutter: stable; }
        & .words { width: 100%; height: auto; }
        & .table { width: auto; height: auto; text-wrap: nowrap; margin-top: 1; }
    }
    """
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", tooltip="Go back"),
        Binding("q", "back", "back", show=False, tooltip="Go back"),
    ]
    give_ids("insights", BINDINGS)

    def __init__(self, state_dir: StateDir, cluster_id: str | None) -> None:
        super().__init__()
        self._state_dir = state_dir
        self._cluster_id = cluster_id
        self._basis = ""

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(id="insights-title", markup=False)
        with VerticalScroll():
            yield Static(id="insights", classes="words", markup=False)
        yield FooterKeys()

    def on_mount(self) -> None:
        self._refresh_title()
        self._load()

    @work(exit_on_error=False)
    async def _load(self) -> None:
        try:
            insights = await asyncio.to_thread(insights_in, self._state_dir.path)
        except FileProblem as problem:
            self._show_text(clean(str(problem)), "$error")
            return
        known = insights.of(self._cluster_id or "")
        if known is None:
            self._show_text(_unknown(insights), "$dim")
            return
        basis = f"{as_count(known.runs, 'run')}, {as_count(known.moves, 'move')}"
        self._basis = f"of {basis}, made {_date(insights)}"
        self._refresh_title()
        first, *others = sections(known)
        self._show_text(clean(first.title), "$foreground")
        tables = [
            Static(Content.assemble(*_pieces(each)), classes="table", markup=False)
            for each in others
        ]
        await self.query_one(VerticalScroll).mount(*tables)

    @on(Resize)
    def _refresh_title(self) -> None:
        facts = [Content.styled(self._basis, "$dim")] if self._basis else []
        title = panel_title("insights", None, *facts)
        self.query_one("#insights-title", Static).update(titled_rule(title, self.size.width))

    def _show_text(self, words: str, style: str) -> None:
        one_line = " ".join(words.split())  # it wraps to the width of the screen
        self.query_one("#insights", Static).update(Content.styled(one_line, style))

    def action_back(self) -> None:
        self.dismiss()


def _unknown(insights: Insights) -> str:
    if not insights.clusters:
        return NOTHING
    return (
        "Nothing is known of this cluster: no run of it was recorded, or none since insights were"
        " made last. `ktui pipeline run` makes new ones."
    )


def _date(insights: Insights) -> str:
    at = insights.made_at
    return "-" if at is None else at.astimezone().isoformat(" ", timespec="minutes")


def _pieces(section: Section) -> Iterator[tuple[str, str]]:
    lines = [clean(line) for line in section.lines()]
    yield clean(section.title), "bold $foreground" if lines else ""
    for place, line in enumerate(lines):
        yield f"\n{line}", "$dim" if place == 0 else ""
    if section.more:
        yield f"\n{section.more}", "$dim"
