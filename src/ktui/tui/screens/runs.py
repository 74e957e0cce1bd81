"""The runs of the state directory, and what they show about the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar

from rich.cells import cell_len
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import DataTable, Static

from ktui.cluster.text import clean
from ktui.execution.errors import RunProblem
from ktui.execution.forecast.progress_text import progress_lines
from ktui.execution.forecast.run_progress import RunProgress, all_runs, with_least
from ktui.execution.host.catalog import RunState
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.states import Stage
from ktui.inputfile import FileProblem
from ktui.insights.insights import NOTHING, Insights, InsightsSection, insights_in, sections
from ktui.quantities import as_count
from ktui.tui.draw.paint import border_title, panel_title, role_style, titled_rule
from ktui.tui.screens.watch.run_banner import GOES_ON_ALONE, state_words
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.services import ReportsOwnErrors, services

EVERY_S = 5.0  # seconds between two reads; each reads the journals of all runs
NONE_YET = "There are no runs yet. n starts a plan, and so does: ktui start PLAN"
_NOT_RESUMED = {
    RunState.ENDED: "has ended",
    RunState.EXPORTED: "was exported, and goes on where it is imported",
}
_HEADINGS = ("run", "state", "done", "failed", "called off", "started")
_AROUND = 2  # cells of padding that the table adds to each cell
_LEAST_NAME = 12


class RunTable(DataTable[Text]):
    """One row per run; enter shows it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "screen.attach", "show it", key_display="↵", tooltip="Attach the view to it"
        ),
    ]
    give_ids("runs", BINDINGS)


class RunsScreen(Screen[None], ReportsOwnErrors):
    """Shows the runs; the app's `attach_to`, `resume_run` and `roll_back_run` act on one."""

    CSS = """
    RunsScreen {
        background: $background;
        & > #runs-title { height: 1; }
        & > #runs-empty { padding: 1 2; color: $dim; }
        & > RunTable {
            height: 1fr; background: $background; scrollbar-size: 1 1;
            background-tint: $background 0%;
            &:focus { background-tint: $background 0%; }
            & > .datatable--header { background: $background; color: $header; text-style: none; }
            & > .datatable--cursor { background: $cursor; text-style: none; }
            & > .datatable--hover { background: $background; }
        }
        & > VerticalScroll {
            height: auto; max-height: 40%; border-top: solid $rule; padding: 0 1 0 2;
            border-title-color: $foreground;
        }
        & .-away { display: none; }
    }
    """
    AUTO_FOCUS = "RunTable"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "back", key_display="esc", tooltip="Go back"),
        Binding("enter", "attach", "show it", key_display="↵", tooltip="Attach the view to it"),
        Binding("R", "resume", "resume", tooltip="Start an engine for it"),
        Binding("c", "roll_back", "roll back", tooltip="Attach the view to it, and roll it back"),
    ]
    give_ids("runs", BINDINGS)

    def __init__(self, state_dir: StateDir, *, place: str, may_resume: str | None) -> None:
        super().__init__()
        self._state_dir, self._place, self._problem = state_dir, place, may_resume
        self._runs: Mapping[str, RunProgress] = {}
        self._read = False
        self._refused: tuple[str, str] | None = None

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(id="runs-title", markup=False)
        yield Static("Reading the journals of all runs …", id="runs-empty", markup=False)
        table = RunTable(cursor_type="row", header_height=1)
        table.cursor_foreground_priority = "renderable"
        yield table
        with VerticalScroll():
            yield Static(id="run-panel", markup=False)
        yield FooterKeys()

    def on_mount(self) -> None:
        self._draw()
        self._read_soon()
        self.set_interval(EVERY_S, self._read_soon)

    def _read_soon(self) -> None:
        self.run_worker(self._read_runs(), exclusive=True, exit_on_error=False)

    async def _read_runs(self) -> None:
        try:
            runs = await asyncio.to_thread(all_runs, self._state_dir)
        except RunProblem as problem:
            self.query_one("#runs-empty", Static).update(Content(str(problem)))
            return
        attached = await self._attached()
        self._runs = {run.name: run for run in runs}
        if attached is not None and attached.name in self._runs:
            self._runs[attached.name] = attached
        self._read = True
        self._draw()

    async def _attached(self) -> RunProgress | None:
        """The view knows more of the run that it follows than its journal says."""
        attached = services(self).attached
        if attached is None:
            return None
        progress: RunProgress = attached.status
        if progress.time_left is None:
            return progress
        return with_least(progress, await asyncio.to_thread(attached.least_left))

    @on(Resize)
    def _draw(self) -> None:
        table, chosen = self.query_one(RunTable), self.selected
        rows = {run.name: _row(run) for run in self._runs.values()}
        table.clear(columns=True)
        for heading, width in zip(_HEADINGS, _widths(rows.values(), self.size.width), strict=True):
            table.add_column(heading, width=width, key=heading)
        for name, row in rows.items():
            table.add_row(*map(self._cell, row), key=name)
        if chosen is not None and chosen.name in self._runs:
            table.move_cursor(row=table.get_row_index(chosen.name))
        table.set_class(not self._runs, "-away")
        empty = self.query_one("#runs-empty", Static)
        empty.set_class(bool(self._runs), "-away")
        if self._read:
            empty.update(NONE_YET)
        title = panel_title("runs", len(self._runs), Content.styled(self._place, "$dim"))
        self.query_one("#runs-title", Static).update(titled_rule(title, self.size.width))
        self._draw_panel()

    def _cell(self, part: tuple[str, str]) -> Text:
        words, role = part
        return Text(words, style=role_style(self.app.theme_variables, role), no_wrap=True)

    @property
    def selected(self) -> RunProgress | None:
        table = self.query_one(RunTable)
        if not table.row_count:
            return None
        return self._runs.get(str(table.ordered_rows[table.cursor_row].key.value))

    @on(DataTable.RowHighlighted)
    def _draw_panel(self) -> None:
        run = self.selected
        panel = self.query_one(VerticalScroll)
        panel.set_class(run is None, "-away")
        if run is None:
            return
        word, role = state_words(run.state)
        title = panel_title(f"run {run.name}", None, Content.styled(word, f"${role}"))
        panel.border_title = border_title(title)
        lines = _facts(run)
        facts = Content("\n".join(lines))
        if self._refused is not None and self._refused[0] == run.name:
            refused = Content.styled(f"! {self._refused[1]}", "$warning")
            facts = Content("\n").join([refused, facts])
        self.query_one("#run-panel", Static).update(facts)

    def action_attach(self) -> None:
        run = self._readable()
        if run is None:
            return
        if run.state is RunState.EXPORTED:
            self._refuse(run, f"Run {run.name} {_NOT_RESUMED[run.state]}.")
            return
        app = services(self)
        self.dismiss()
        app.attach_to(self._state_dir.run(run.name))

    def _readable(self) -> RunProgress | None:
        run = self.selected
        if run is None or run.state is not RunState.UNREADABLE:
            return run
        self.notify(run.problem or "It cannot be read.", severity="error", markup=False)
        return None

    def _refuse(self, run: RunProgress, why: str) -> None:
        self._refused = (run.name, why)
        self._draw_panel()

    def action_resume(self) -> None:
        run = self.selected
        if run is None:
            return
        problem = self._problem
        if problem is None and run.state not in {RunState.RESUMABLE, RunState.SUBMITTED}:
            problem = f"Run {run.name} {_NOT_RESUMED.get(run.state, 'is carried on already')}."
        if problem is not None:
            self._refuse(run, problem)
            return
        app = services(self)
        self.dismiss()
        app.resume_run(self._state_dir.run(run.name))

    def action_roll_back(self) -> None:
        run = self._readable()
        if run is None:
            return
        app = services(self)
        self.dismiss()
        app.roll_back_run(self._state_dir.run(run.name))


def _widths(rows: Iterable[Sequence[tuple[str, str]]], room: int) -> list[int]:
    cells = [_HEADINGS, *([words for words, _ in row] for row in rows)]
    name, *others = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    left = room - 1 - sum(others) - _AROUND * len(_HEADINGS)  # 1 for the scroll bar
    return [max(_LEAST_NAME, min(name, left)), *others]


def _row(run: RunProgress) -> list[tuple[str, str]]:
    word, role = state_words(run.state)
    failed, called_off = (run.stages.get(s, 0) for s in (Stage.FAILED, Stage.CALLED_OFF))
    started = "" if run.started_at is None else f"{run.started_at.astimezone():%Y-%m-%d %H:%M}"
    return [
        (run.name, "foreground"),
        (word, role),
        (f"{run.done:,}/{run.partitions:,}", "foreground"),
        (f"{failed:,}", "stalled" if failed else "dim"),
        (f"{called_off:,}", "cancelled" if called_off else "dim"),
        (started, "dim"),
    ]


def _facts(run: RunProgress) -> list[str]:
    lines = [f"plan {run.plan or '-'}   cluster {run.cluster_id or '-'}"]
    if run.state is not RunState.UNREADABLE:
        lines += progress_lines(run)
    if run.owner is not None:
        lines.append(f"engine: {run.owner}")
    elif run.state is RunState.RESUMABLE:
        lines.append(f"no engine; R, or: ktui resume {run.name}")
    elif run.state is RunState.SUBMITTED:
        lines.append(f"no engine: {GOES_ON_ALONE}")
    elif run.state is RunState.EXPORTED:
        lines.append("exported: it goes on where it is imported")
    if run.ended_at is not None:
        lines.append(f"ended at {run.ended_at.astimezone():%Y-%m-%d %H:%M:%S}")
    return [*lines, *([f"! {run.problem}"] if run.problem else ())]


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
        Binding("escape", "dismiss", "back", tooltip="Go back"),
        Binding("q", "dismiss", "back", show=False, tooltip="Go back"),
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


def _pieces(section: InsightsSection) -> Iterator[tuple[str, str]]:
    lines = [clean(line) for line in section.lines()]
    yield clean(section.title), "bold $foreground" if lines else ""
    for place, line in enumerate(lines):
        yield f"\n{line}", "$dim" if place == 0 else ""
    if section.more:
        yield f"\n{section.more}", "$dim"
