"""Pure: what it means that a late request of a run moves a partition, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cli.doctor_findings import Finding, Level
from ktui.execution.late_requests import LateRequest


def judge_late(late: Iterable[LateRequest]) -> list[Finding]:
    """Return a finding for each reassignment that a late request has begun."""
    return [_finding(each) for each in late]


def _finding(late: LateRequest) -> Finding:
    target = ",".join(map(str, late.target))
    what = f"{late.tp} is being reassigned to {target}, as run {late.run} asked"
    if late.ended:
        return Finding(
            Level.WARNING,
            f"{what}, which has ended: its request was not answered, and took effect late",
            f"Let it end, or cancel it: ktui cancel --cluster --partition "
            f"{late.tp.topic}:{late.tp.partition} --stop",
        )
    return Finding(
        Level.NOTE,
        f"{what}, which waits for resume",
        f"`ktui resume {late.run}` takes it up again.",
    )
