"""The runs of the state directory, what they show about the cluster, and rehearsals of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import ClassVar, NamedTuple

from textual import on, work
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import DataTable, Static

from ktui.cluster.errors import ClusterError
from ktui.cluster.text import clean
from ktui.columns import Column
from ktui.execution import RunProblem
from ktui.execution.forecast.progress_text import progress_lines
from ktui.execution.forecast.run_progress import RunProgress, all_runs, with_least
from ktui.execution.host.catalog import RunState
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.states import Stage
from ktui.inputfile import FileProblem
from ktui.insights import NOTHING, Insights, InsightsSection, insights_in, sections
from ktui.planning.check.findings import Severity
from ktui.quantities import as_count
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece
from ktui.tui.draw.paint import RowColumn, panel_title
from ktui.tui.run_view.launchers import PlanRehearser, RehearsalInView, RehearsedPlan
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
        hidden("R", "refuse", "why not", "Say why no engine can be started for it"),
        bind("c", "roll_back", "cancel run", "Attach the view to it, and stop it or roll it back"),
    ]
    give_ids("runs", BINDINGS)

    def __init__(self, state_dir: StateDir, *, place: str, may_resume: str | None) -> None:
        super().__init__()
        self._state_dir, self._place, self._problem = state_dir, place, may_resume
        self._runs: Mapping[str, RunProgress] = {}
        self._when_empty = "Reading the journals of all runs …"
        self._refused: tuple[str, str] | None = None

    def on_mount(self) -> None:
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

    @on(DataTable.RowHighlighted)
    def _chosen(self) -> None:
        self.refresh_bindings()

    def heading(self) -> Content:
        return panel_title("runs", len(self._runs), Content.styled(self._place, "$dim"))

    def draw(self) -> None:
        wide = self.size.width >= _WITH_BAR
        columns = [each for each in _COLUMNS if wide or each.heading != _BAR.heading]
        self.show_rows(columns, self._runs, self._when_empty)
        self.refresh_bindings()

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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        run = self.selected if self.is_mounted else None
        waits = run is not None and run.state in {RunState.RESUMABLE, RunState.SUBMITTED}
        return waits is (action == "resume") if action in {"resume", "refuse"} else True

    def action_refuse(self) -> None:
        run = self.selected
        if run is not None:
            why = f"Run {run.name} {_NOT_RESUMED.get(run.state, 'is carried on already')}."
            self._refuse(run, self._problem or why)

    def action_resume(self) -> None:
        run = self.selected
        if run is None:
            return
        if self._problem is not None:
            self._refuse(run, self._problem)
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
        lines.append(f"engine: {run.owner.short}")
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


_OF_FAULTS = ("  ktui", "  to do", "  a rollback then")  # the beginnings of the lines below a fault
_GOOD = ("the plan would be carried out on ", " holds on ")
_BAD = ("the plan would not end on ", " does not hold on ")
READING = "Working out what it has done so far …"


class ReportScreen(TextScreen[None]):
    """Shows what a rehearsal has done so far, or up to its end, as it was when it was read."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind("escape,q,i", "dismiss", "back", "Go back", key_display="esc"),
        bind("r", "read", "read again", "Work out what it has done by now"),
    ]
    give_ids("report", BINDINGS)

    def __init__(self, rehearsal: RehearsalInView) -> None:
        super().__init__()
        self._rehearsal = rehearsal

    def on_mount(self) -> None:
        self.show_text(READING)
        self.action_read()

    def heading(self) -> Content:
        words = "over" if self._rehearsal.outcome else "so far"
        return panel_title(self._rehearsal.name, None, Content.styled(words, "$dim"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "read":
            return not self._rehearsal.outcome
        return super().check_action(action, parameters)

    def action_read(self) -> None:
        self.run_worker(self._show(), group="report", exclusive=True, exit_on_error=False)

    async def _show(self) -> None:
        self.show_text(report_content(await self._rehearsal.report()))
        self.draw_title()
        self.refresh_bindings()


def report_content(report: str) -> Content:
    """Return a report with its verdict first, which is set off, as are headings of tables."""
    lines = report.splitlines()
    verdict = [line for line in lines if any(words in line for words in (*_GOOD, *_BAD))]
    if verdict:
        rest = [line for line in lines if line not in verdict]
        pairs = pairwise([*verdict, "", *rest, "end"])
        lines = [line for line, following in pairs if line or following]  # no two empty ones
    return Content("\n").join(map(_line, lines))


def _line(line: str) -> Content:
    if line.isupper():
        return Content.styled(line, "$header")
    subject, _, _ = line.partition(":")
    if any(words in line for words in _BAD):
        return Content.styled(line, "bold $error")
    if any(words in line for words in _GOOD):
        return Content.assemble((subject, "bold $success"), line.removeprefix(subject))
    if subject == Severity.WARNING:
        return Content.styled(line, "$warning")
    if subject in _OF_FAULTS:
        return Content.assemble((subject, "$dim"), line.removeprefix(subject))
    return Content(line)


_REHEARSES = "rehearse"
_TICK_S = 1.0  # real seconds between two drawings of how long it has taken so far
_GOES_ON = (
    "The view goes on meanwhile, and all its screens open. Nothing is sent to the cluster, which is"
    " read only."
)


class RehearsalEnd(NamedTuple):
    """How a rehearsal was left."""

    shown: RehearsedPlan | None
    changes: bool = False


class RehearsalScreen(TextScreen[RehearsalEnd]):
    """Returns what the rehearsal has shown, and whether to change the limits."""

    BINDINGS: ClassVar[list[BindingType]] = [
        bind(
            "escape", "back", "back to plan",
            "Go back to the plan, with what the rehearsal has shown", key_display="esc",
        ),
        bind(
            "escape", "stop", "cancel",
            "End the rehearsal, and go back to the plan", key_display="esc",
        ),
        bind(
            "enter", "change", "other limits",
            "Go to the limits as they were rehearsed, to change them and rehearse again",
            key_display="↵",
        ),
        bind("r", "again", "new snapshot", "Rehearse it on the cluster as it is now"),
    ]  # fmt: skip
    give_ids("rehearsal", BINDINGS, {"back": "back"})

    def __init__(self, rehearser: PlanRehearser, wanted: NewRun) -> None:
        super().__init__()
        self._rehearser, self._wanted = rehearser, wanted
        self._doing, self._began_s = "", 0.0
        self._rehearsed: RehearsedPlan | None = None

    def on_mount(self) -> None:
        self.set_interval(_TICK_S, self._show_progress)
        self._begin(new_snapshot=False)

    def heading(self) -> Content:
        name = Content.styled(f"{self._wanted.name}, on simulated twins of the cluster", "$dim")
        return panel_title("rehearsal", None, name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in {"back", "again", "change", "stop"}:
            return self._goes_on is (action == "stop")
        return super().check_action(action, parameters)

    @property
    def _goes_on(self) -> bool:
        return bool(self._doing)

    def _begin(self, *, new_snapshot: bool) -> None:
        work = self._rehearse(new_snapshot=new_snapshot)
        self.run_worker(work, group=_REHEARSES, exclusive=True, exit_on_error=False)

    async def _rehearse(self, *, new_snapshot: bool) -> None:
        self._rehearsed = None
        self._progress("beginning")
        shown: Content
        try:
            self._rehearsed = await self._rehearser.rehearse(
                self._wanted, self._progress, new_snapshot=new_snapshot
            )
            shown = report_content(self._rehearsed.report)
        except (RunProblem, ClusterError) as problem:
            shown = Content.styled(str(problem), "$error")
        finally:
            self._doing = ""
        self.show_text(shown)
        self.refresh_bindings()

    def _progress(self, words: str) -> None:
        self._doing, self._began_s = words, self._now_s
        self._show_progress()
        self.refresh_bindings()

    @property
    def _now_s(self) -> float:
        status = services(self).cluster_status()
        return 0.0 if status is None else status.now_s

    def _show_progress(self) -> None:
        if self._goes_on:
            took = figures.as_duration(max(0.0, self._now_s - self._began_s))
            doing = Content(f"{self._doing} … {took}\n\n")
            self.show_text(Content.assemble(doing, (_GOES_ON, "$dim")))

    def action_again(self) -> None:
        self._begin(new_snapshot=True)

    def action_back(self) -> None:
        self.dismiss(RehearsalEnd(self._rehearsed))

    def action_change(self) -> None:
        self.dismiss(RehearsalEnd(self._rehearsed, changes=True))

    def action_stop(self) -> None:
        self.workers.cancel_group(self, _REHEARSES)
        self.dismiss(RehearsalEnd(None))
