"""The runs of the state directory, and what they show about the cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import ClassVar

from textual import work
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from ktui.cluster.text import clean
from ktui.columns import Column
from ktui.execution import RunProblem
from ktui.execution.forecast.progress_text import progress_lines
from ktui.execution.forecast.run_progress import RunProgress, all_runs, with_least
from ktui.execution.host.catalog import RunState
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.states import Stage
from ktui.inputfile import FileProblem
from ktui.insights import NOTHING, Insights, InsightsSection, insights_in, sections
from ktui.quantities import as_count
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import RowColumn, panel_title
from ktui.tui.screens.watch.run_banner import GOES_ON_ALONE, stage_bar, state_words
from ktui.tui.widgets.bindings import bind, give_ids, hidden
from ktui.tui.widgets.frame import RowTable, TableScreen, TextScreen
from ktui.tui.widgets.services import services

EVERY_S = 5.0  # seconds between two reads; each reads the journals of all runs
NONE_YET = "There are no runs yet. n starts a plan, and so does: ktui start PLAN"
_NOT_RESUMED = {
    RunState.ENDED: "has ended",
    RunState.EXPORTED: "was exported, and goes on where it is imported",
}


class RunTable(RowTable):
    """One row per run; enter shows it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("enter", "screen.attach", "show it", "Attach the view to it", key_display="↵"),
    ]
    give_ids("runs", BINDINGS)


class RunsScreen(TableScreen):
    """Shows the runs; the app's `attach_to`, `resume_run` and `roll_back_run` act on one."""

    TITLE = "runs"
    TABLE = RunTable
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q", "dismiss", "back", "Go back", key_display="esc"),
        bind("enter", "attach", "show it", "Attach the view to it", key_display="↵"),
        bind("R", "resume", "resume", "Start an engine for it"),
        bind("c", "roll_back", "roll back", "Attach the view to it, and roll it back"),
    ]
    give_ids("runs", BINDINGS)

    def __init__(self, state_dir: StateDir, *, place: str, may_resume: str | None) -> None:
        super().__init__()
        self._state_dir, self._place, self._problem = state_dir, place, may_resume
        self._runs: Mapping[str, RunProgress] = {}
        self._when_empty = "Reading the journals of all runs …"
        self._refused: tuple[str, str] | None = None

    def on_mount(self) -> None:
        super().on_mount()
        # runs are few: what is known of one stands right below them
        self.table.styles.height, self.table.styles.max_height = "auto", "60%"
        self.table.styles.margin = (0, 0, 1, 0)
        self._read_soon()
        self.set_interval(EVERY_S, self._read_soon)

    def _read_soon(self) -> None:
        self.run_worker(self._read_runs(), exclusive=True, exit_on_error=False)

    async def _read_runs(self) -> None:
        try:
            runs = await asyncio.to_thread(all_runs, self._state_dir)
        except RunProblem as problem:
            self._when_empty = str(problem)
        else:
            self._when_empty, attached = NONE_YET, await self._attached()
            self._runs = {run.name: run for run in runs}
            if attached is not None and attached.name in self._runs:
                self._runs[attached.name] = attached
        self.draw()

    async def _attached(self) -> RunProgress | None:
        """The view knows more of the run that it follows than its journal says."""
        attached = services(self).attached
        if attached is None:
            return None
        progress: RunProgress = attached.status
        if progress.time_left is None:
            return progress
        return with_least(progress, await asyncio.to_thread(attached.least_left))

    def heading(self) -> Content:
        return panel_title("runs", len(self._runs), Content.styled(self._place, "$dim"))

    def draw(self) -> None:
        wide = self.size.width >= _WITH_BAR
        columns = [each for each in _COLUMNS if wide or each.heading != _BAR.heading]
        self.show_rows(columns, self._runs, self._when_empty)

    @property
    def selected(self) -> RunProgress | None:
        return self._runs.get(self.table.selected or "")

    def panel(self) -> tuple[Content, Content] | None:
        run = self.selected
        if run is None:
            return None
        word, role = state_words(run.state)
        facts = Content("\n".join(_facts(run)))
        if self._refused is not None and self._refused[0] == run.name:
            refused = Content.styled(f"! {self._refused[1]}", "$warning")
            facts = Content("\n").join([refused, facts])
        return panel_title(f"run {run.name}", None, Content.styled(word, f"${role}")), facts

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
        self.draw_panel()

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


def _count(heading: str, stage: Stage, role: str) -> RowColumn:
    def cell(run: RunProgress) -> list[Piece]:
        count = run.stages.get(stage, 0)
        return [Piece(f"{count:,}", role if count else "dim")]

    return Column(heading=heading, cell=cell)


def _started(run: RunProgress) -> str:
    return "" if run.started_at is None else f"{run.started_at.astimezone():%Y-%m-%d %H:%M}"


_WITH_BAR = 100  # cells from which on there is room for a bar
_BAR: RowColumn = Column(heading="partitions", cell=lambda run: stage_bar(run, 16), width=16)
_COLUMNS: tuple[RowColumn, ...] = (
    Column(heading="run", cell=lambda run: [Piece(run.name)]),
    Column(heading="state", cell=lambda run: [Piece(*state_words(run.state))]),
    Column(heading="done", cell=lambda run: [Piece(f"{run.done:,}/{run.partitions:,}")]),
    _BAR,
    _count("failed", Stage.FAILED, "stalled"),
    _count("called off", Stage.CALLED_OFF, "cancelled"),
    Column(heading="started", cell=lambda run: [Piece(_started(run), "dim")]),
)


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


class InsightsScreen(TextScreen[None]):
    """Shows the insights of a state directory about a cluster; they are read when it opens."""

    TITLE = "insights"
    DEFAULT_CSS = """
    InsightsScreen {
        & > VerticalScroll { padding: 0 1; overflow-x: auto; scrollbar-gutter: stable; }
        & .text { width: 100%; }
        & .table { width: auto; height: auto; text-wrap: nowrap; margin-top: 1; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape", "dismiss", "back", "Go back"),
        hidden("q", "dismiss", "back", "Go back"),
    ]
    give_ids("insights", BINDINGS)

    def __init__(self, state_dir: StateDir, cluster_id: str | None) -> None:
        super().__init__()
        self._state_dir = state_dir
        self._cluster_id = cluster_id
        self._basis = ""

    def on_mount(self) -> None:
        super().on_mount()
        self._load()

    @work(exit_on_error=False)
    async def _load(self) -> None:
        try:
            insights = await asyncio.to_thread(insights_in, self._state_dir.path)
        except FileProblem as problem:
            self._show_words(clean(str(problem)), "$error")
            return
        known = insights.of(self._cluster_id or "")
        if known is None:
            self._show_words(_unknown(insights), "$dim")
            return
        basis = f"{as_count(known.runs, 'run')}, {as_count(known.moves, 'move')}"
        self._basis = f"of {basis}, made {_date(insights)}"
        self.draw_title()
        first, *others = sections(known)
        self._show_words(clean(first.title), "$foreground")
        tables = [
            Static(Content.assemble(*_pieces(each)), classes="table", markup=False)
            for each in others
        ]
        await self.query_one(VerticalScroll).mount(*tables)

    def heading(self) -> Content:
        facts = [Content.styled(self._basis, "$dim")] if self._basis else []
        return panel_title("insights", None, *facts)

    def _show_words(self, words: str, style: str) -> None:
        # as one line, it wraps to the width of the screen
        self.show_text(Content.styled(" ".join(words.split()), style))


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
