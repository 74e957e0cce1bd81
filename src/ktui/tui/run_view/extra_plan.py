"""A plan chosen on the screen, checked against the run that it is to join."""

from __future__ import annotations

from typing import NamedTuple

from ktui.cluster.text import clean
from ktui.execution.engine.add_plan import CheckedExtraPlan, join_effects_in_words
from ktui.execution.run.events import OnConflict
from ktui.execution.run.run import Run
from ktui.planning.check.findings import Allowances
from ktui.planning.preflight.text import lines
from ktui.tui.run_view.plan_choice import PROBLEMS, ChosenPlan, ColouredLine


class Conflict(NamedTuple):
    """A way to treat partitions that the run moves elsewhere."""

    value: OnConflict
    words: str
    means: str


CONFLICTS = (
    Conflict(
        OnConflict.ROLLBACK,
        "roll back",
        "What the run moves elsewhere goes back at once to its original replicas, then is queued"
        " anew.",
    ),
    Conflict(
        OnConflict.KEEP,
        "keep",
        "What the run has with another target keeps that; the plan's is dropped for it.",
    ),
    Conflict(
        OnConflict.RETARGET,
        "re-target",
        "What the run has in flight elsewhere is cancelled, and goes on to its new target from"
        " where it is.",
    ),
)
"""The choices; the first is the default of `ktui add`."""

_BY_ITSELF = "by itself, under the run's limits:"


def check_extra_plan(
    chosen: ChosenPlan, run: Run, on_conflict: OnConflict, allowed: Allowances
) -> tuple[CheckedExtraPlan, list[ColouredLine]]:
    """Check a plan against the run that it is to join.

    Returns:
        The extra plan, and the lines to show about it.
    """
    name = clean(chosen.path.name)
    extra = CheckedExtraPlan(chosen.plan, name, run, chosen.seen, on_conflict, allowed)
    idle = extra.idle
    figures = None if idle else extra.preflight()
    shown = chosen.told_of(
        (*extra.findings, *(() if figures is None else figures.warnings)),
        throttled=bool(run.throttled.rates) and not idle,
    )
    shown += [(line, "" if n else "bold") for n, line in enumerate(extra.in_run())]
    if figures is not None:
        shown += [("", ""), (_BY_ITSELF, "$dim"), *((line, "") for line in lines(figures))]
    return extra, shown


def extra_plan_problem(extra: CheckedExtraPlan) -> str | None:
    """Return why an extra plan is not added; None if it may be."""
    if extra.has_problems:
        return PROBLEMS
    return f"There is nothing to do: {join_effects_in_words(extra.ways)}." if extra.idle else None
