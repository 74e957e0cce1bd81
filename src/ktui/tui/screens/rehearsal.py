"""The screens of a rehearsal: its report, and a plan's rehearsal before its start."""

from __future__ import annotations

from itertools import pairwise
from typing import ClassVar, NamedTuple

from textual.binding import BindingType
from textual.content import Content

from ktui.cluster.errors import ClusterError
from ktui.execution import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.tui.draw import format as figures
from ktui.tui.draw.paint import panel_title
from ktui.tui.run_view.launchers import PlanRehearser, RehearsalInView, RehearsedPlan
from ktui.tui.widgets.bindings import bind, give_ids
from ktui.tui.widgets.frame import TextScreen
from ktui.tui.widgets.services import services

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
        super().on_mount()
        self.show_text(READING)
        self.action_read()

    def heading(self) -> Content:
        words = "over" if self._rehearsal.outcome else "so far"
        return panel_title(self._rehearsal.name, None, Content.styled(words, "$dim"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "read" or not self._rehearsal.outcome

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
            "escape", "back", "back",
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
    give_ids("rehearsal", BINDINGS)

    def __init__(self, rehearser: PlanRehearser, wanted: NewRun) -> None:
        super().__init__()
        self._rehearser, self._wanted = rehearser, wanted
        self._doing, self._began_s = "", 0.0
        self._rehearsed: RehearsedPlan | None = None

    def on_mount(self) -> None:
        super().on_mount()
        self.set_interval(_TICK_S, self._show_progress)
        self._begin(new_snapshot=False)

    def heading(self) -> Content:
        name = Content.styled(f"{self._wanted.name}, on simulated twins of the cluster", "$dim")
        return panel_title("rehearsal", None, name)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        if action in {"back", "again", "change"}:
            return not self._goes_on
        return action != "stop" or self._goes_on

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
