"""A plan that was made of an intention, and what it makes of the cluster."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ktui.planning.intents.before_after import BeforeAfter, before_after
from ktui.planning.intents.layout_warnings import rack_warnings, unread_warnings
from ktui.planning.intents.left_text import left_lines
from ktui.planning.intents.read_layout import LayoutAnswer
from ktui.planning.plan import Plan
from ktui.quantities import as_bytes, as_count
from ktui.tui.run_view.plan_request import PlanRequest


class GeneratedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with what every broker has before it and after it."""

    plan: Plan
    change: BeforeAfter
    notes: Sequence[str] = ()
    """What the plan leaves undone, and what could not be taken into account."""
    budget: str = ""
    """How much of the budget the plan uses; empty without one."""

    @property
    def headline(self) -> str:
        """What the plan changes, in all."""
        change = self.change
        copied = (
            f"{as_count(change.replicas, 'replica')} to copy ({as_bytes(change.bytes)})"
            if change.replicas
            else "nothing to copy"
        )
        leaders = as_count(change.leaders, "leader change")
        return f"{as_count(len(self.plan.partitions), 'partition')}: {copied}, {leaders}"


def generate_plan(request: PlanRequest, answer: LayoutAnswer) -> GeneratedPlan:
    """Make a plan from the cluster as it was read.

    Raises:
        WrongField: what was typed does not fit the cluster.
        CannotMake: there is nothing to do, or nothing can be done.
    """
    layout = answer.layout
    made = request.generate(layout)
    return GeneratedPlan(
        plan=made.plan,
        change=before_after(layout, made.plan),
        notes=(
            *left_lines(made.left),
            *unread_warnings(answer.failures),
            *rack_warnings(layout),
        ),
        budget=request.budget(made),
    )
