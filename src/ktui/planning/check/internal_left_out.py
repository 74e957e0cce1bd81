"""A plan without the partitions of Kafka's own topics."""

from __future__ import annotations

from ktui.cluster.coordination import INTERNAL_TOPICS
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.names import join_all
from ktui.planning.plan import Plan
from ktui.quantities import as_count


def leave_out_internal(plan: Plan) -> tuple[Plan, tuple[Finding, ...]]:
    """Return a plan without internal topics, and the finding that names what is left out.

    A plan without such topics is returned as it is. With nothing left, the finding says so.
    """
    left_out = tuple(each.tp for each in plan.partitions if each.topic in INTERNAL_TOPICS)
    if not left_out:
        return plan, ()
    kept = tuple(each for each in plan.partitions if each.topic not in INTERNAL_TOPICS)
    topics = join_all(sorted({tp.topic for tp in left_out}))
    count = as_count(len(left_out), "partition")
    nothing = "" if kept else ". Nothing else is in the plan"
    finding = Finding(
        severity=Severity.NOTE if kept else Severity.WARNING,
        kind=FindingKind.INTERNAL_LEFT_OUT if kept else FindingKind.NOTHING_TO_DO,
        partitions=left_out,
        sentence=f"left out, as --internal exclude asks: {topics}, with {count}{nothing}",
    )
    return Plan(kept), (finding,)
