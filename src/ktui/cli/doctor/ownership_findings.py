"""Pure: what it means who owns the cluster, and what owning it takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cli.context.claim import NO_OWNERSHIP, TAKE_OVER
from ktui.cli.doctor.findings import DoctorFinding, Level
from ktui.cluster.ownership import ClaimPreview, ClaimStatus, OwnedByOthers, OwnerUnknown
from ktui.execution.host.late_requests import LateRequest


def judge_late(late: Iterable[LateRequest]) -> list[DoctorFinding]:
    """Return a finding for each reassignment that a late request has begun."""
    return [_finding(each) for each in late]


def _finding(late: LateRequest) -> DoctorFinding:
    target = ",".join(map(str, late.target))
    what = f"{late.tp} is being reassigned to {target}, as run {late.run} asked"
    if late.ended:
        return DoctorFinding(
            Level.WARNING,
            f"{what}, which has ended: its request was not answered, and took effect late",
            f"Let it end, or cancel it: ktui cancel --cluster --partition "
            f"{late.tp.topic}:{late.tp.partition} --stop",
        )
    return DoctorFinding(
        Level.NOTE,
        f"{what}, which waits for resume",
        f"`ktui resume {late.run}` takes it up again.",
    )


_GRANT = (
    "kafka-acls --add --operation Read --group ktui- --resource-pattern-type prefixed; or do "
    f"without: {NO_OWNERSHIP}, or `ownership: off` for the context"
)


def judge_ownership(
    standing: ClaimStatus, preview: ClaimPreview, *, off: bool
) -> list[DoctorFinding]:
    """Judge who owns the cluster, and what `ktui start` will create for owning it.

    Args:
        standing: who owns it.
        preview: what a claim creates and needs.
        off: whether the context says `ownership: off`.
    """
    found = [_standing(standing)]
    if off:
        what = "ownership is off for this context: ktui asks nobody, and keeps nobody from it"
        return [*found, DoctorFinding(Level.NOTE, what)]
    return [*found, *_preview(preview)]


def _standing(standing: ClaimStatus) -> DoctorFinding:
    what = str(standing)
    match standing:
        case OwnedByOthers():
            fix = (
                f"Runs of this state directory are refused here. {TAKE_OVER} takes the cluster "
                "over: the other's engines send nothing more then."
            )
            return DoctorFinding(Level.WARNING, what, fix)
        case OwnerUnknown(denied=True):
            return DoctorFinding(Level.WARNING, what, f"Grant it: {_GRANT}")
        case OwnerUnknown():
            fix = "Until it is known, runs are refused, and no new step begins."
            return DoctorFinding(Level.WARNING, what, f"{fix} {NO_OWNERSHIP} does without.")
    return DoctorFinding(Level.GOOD, what)


def _preview(preview: ClaimPreview) -> Iterator[DoctorFinding]:
    groups = " and ".join(preview.groups)
    topic = {
        True: f", and brokers create {preview.topic} for it, with their own settings",
        False: "",
        None: f", and brokers create {preview.topic} if it is not there",
    }[preview.makes_topic]
    yield DoctorFinding(
        Level.NOTE,
        f"a run owns the cluster by the consumer groups {groups}, without offsets{topic}",
    )
    if preview.permitted is False:
        yield DoctorFinding(
            Level.WARNING, f"not granted: {preview.permission}", f"Grant it: {_GRANT}"
        )
    elif preview.permitted is None:
        yield DoctorFinding(
            Level.NOTE, f"it takes {preview.permission}; whether that is granted shows then"
        )
