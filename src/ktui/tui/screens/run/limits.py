"""The Limits dialog: the limits in force, and those that bind the run from the next step on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static

from ktui.execution.host.undo import Undo, undo_limits
from ktui.execution.journal.commands import SetLimits
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.pacing.decision import Place, demand_of
from ktui.pacing.limits import COUNTED, LETTERS, OF_ONE_BROKER, Limit, Limits, limit_figure
from ktui.pacing.usage import Usage
from ktui.tui.draw import format as figures
from ktui.tui.run_view.attached import AttachedRun, RunStatus
from ktui.tui.screens.forms.limits_form import LimitsForm, as_typed, leaps
from ktui.tui.screens.run.change_screen import RunChangeScreen
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.services import services


class LimitsScreen(RunChangeScreen):
    """Shows the limits of the attached run, and requests new ones."""

    DEFAULT_CSS = """
    LimitsScreen {
        & #own, #said { padding: 0 1; }
        &.-tall > .dialog { margin-top: 3; }
    }
    """
    WIDTH = 78
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter", "apply", "apply", show=False,
            tooltip="Put the limits that are typed in force at the next step",
        ),
        Binding("pageup", "page(-1)", "scroll up", show=False),
        Binding("pagedown", "page(1)", "scroll down", show=False),
    ]  # fmt: skip
    give_ids("limits", BINDINGS)
    READ_ONLY = (
        "This view is read-only; limits are changed in one that is opened with"
        " ktui watch --write, or with ktui limits."
    )
    ENDED = "The run has ended: its limits bind nothing any more."
    ASKED = "Requested; it takes effect at the next decision."

    def __init__(self, *, write: bool) -> None:
        super().__init__("limits", write=write)
        self._warned_of: dict[str, str] = {}
        """What was typed when the operator was warned of a leap."""

    def body(self) -> ComposeResult:
        """Lay out the limits, and the answer to a request."""
        attached = services(self).attached
        limits = attached.run.limits if attached is not None else None
        if limits is not None:
            yield LimitsForm(limits, disabled=not self.write)
        own = Static(id="own", markup=False)
        own.display = False
        yield own
        yield Static(id="said", markup=False)

    def draw(self, attached: AttachedRun) -> None:
        """Show what is in force, what is requested, and what is in flight."""
        status = attached.status
        form = self.query_one(LimitsForm)
        form.show(status.limits, status.coming, usage_by_limit(attached.run, attached.now))
        own = self.query_one("#own", Static)
        own.update(_of_single_brokers(status.limits, status.name))
        own.display = bool(status.limits.brokers)
        self.entitle(f"limits of run {status.name}")

    def accepted(self) -> None:
        """Empty the fields."""
        self._warned_of = {}
        self.query_one(LimitsForm).clear()

    def standing(self, status: RunStatus) -> str:
        """Return when a change takes effect."""
        in_flight_steps = figures.as_count(status.steps_in_flight, "step")
        return (
            f"Binds at the next step: {in_flight_steps} in flight stay as they are."
            " A field that is empty stays as it is."
        )

    def changed(self, run: Run) -> bool:
        """Return whether the limits were changed since the start of the run."""
        return run.limits_change is not None

    def undo_of(self, run: Run) -> Undo:
        """Return the undo of the last change of the limits."""
        return undo_limits(run)

    def type_undo(self, undo: Undo) -> None:
        """Type the limits from before a change."""
        if isinstance(undo.command, SetLimits):
            self.query_one(LimitsForm).type(undo.command.options)

    def is_typed(self, undo: Undo) -> bool:
        """Return whether those are still what is typed."""
        typed = self.query_one(LimitsForm).typed
        return isinstance(undo.command, SetLimits) and typed == as_typed(undo.command.options)

    @on(LimitsForm.Changed)
    def _typed(self) -> None:
        self._warned_of = {}
        if self.query_one(LimitsForm).typed:  # an accepted request empties it: keep the answer
            self.say(Content(""))

    @on(LimitsForm.Submitted)
    def _submitted(self) -> None:
        self.action_apply()

    def action_apply(self) -> None:
        form, status = self.query_one(LimitsForm), self.status
        if not self.may_ask or status is None:
            self.show_said()
            return
        limits = form.limits()
        if limits is None:
            return
        undo = self.undoing
        if undo is None and limits == (status.coming or status.limits):
            self.say(Content("These limits are in force already."))
            return
        far = [] if undo is not None else leaps(status.coming or status.limits, limits)
        if far and self._warned_of != form.typed:
            self._warned_of = form.typed
            words = f"{', '.join(far)} lets far more move at once. Press enter again to apply it."
            self.say(Content.styled(words, "$warning"))
            return
        self.ask(SetLimits(dict(form.typed)) if undo is None else undo.command)


def _of_single_brokers(limits: Limits, run: str) -> str:
    """Return the limits that brokers have of their own, which only the command line changes."""
    own = "; ".join(
        f"broker {each.broker}: {', '.join(_own_figures(limits, each.broker))}"
        for each in limits.brokers
    )
    return f"Limits of one broker alone: {own}. ktui limits {run} --broker ID changes them."


def _own_figures(limits: Limits, broker: int) -> Iterator[str]:
    for option in OF_ONE_BROKER:
        own = limits.own_of(option)
        if broker in own:
            yield f"{LETTERS[option]} {limit_figure(option, own[broker])}"


def usage_by_limit(run: Run, now: datetime) -> Mapping[str, str]:
    """Return, by the limit's option, how much of the run counts against each limit now."""
    begun = [(t, t.step.begun) for t in run.tracks_in_flight.values() if t.step is not None]
    used = Usage()
    for track, step in begun:
        used.count(demand_of(track.tp, step.move.step, step.leader, weight=track.planned.weight))
    return {
        "replicas": f"{max((len(step.adding) for _, step in begun), default=0):,}",
        "partitions": f"{run.in_flight:,}",
        "cuts-per-minute": f"{run.cuts.count(now.timestamp()):,}",
        "extra-replicas": "",
        "cut-together": f"{run.counts[State.READY]:,} ready",
        **{field.replace("_", "-"): _busiest(limit, used.taken[field]) for field, limit in COUNTED},
    }


def _busiest(limit: Limit, taken: Mapping[Place, int]) -> str:
    """Return the most of a limit that is in use at one place, and which place that is."""
    place = max(taken, key=taken.__getitem__, default=None)
    most = taken.get(place, 0)
    if place is None or not most:
        return limit.figure(most)
    at = "at" if limit.in_bytes else "in rack" if isinstance(place, str) else "on broker"
    return f"{limit.figure(most)} {at} {place}"
