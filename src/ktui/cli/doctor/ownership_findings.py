"""Judge who owns the cluster, and what a run needs to own it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cli.context.ownership_options import NO_OWNERSHIP, TAKE_OVER
from ktui.cli.doctor.findings import DoctorFinding, Level
from ktui.cluster.ownership import (
    GOES_ON,
    ClaimPreview,
    ClaimStatus,
    OwnedByOthers,
    OwnerUnknown,
)
from ktui.execution.host.late_requests import LateRequest

_GRANT = (
    "kafka-acls --add --operation Read --group ktui- --resource-pattern-type prefixed. Or turn "
    f"ownership off: {NO_OWNERSHIP}, or `ownership: off` for the context"
)


def judge_late(late: Iterable[LateRequest]) -> list[DoctorFinding]:
    """Return a finding for each reassignment that a late request has begun."""
    return [_finding(each) for each in late]


def _finding(late: LateRequest) -> DoctorFinding:
    target = ",".join(map(str, late.target))
    what = f"{late.tp} is being reassigned to {target}, as run {late.run} asked"
    if late.ended:
        return DoctorFinding(
            Level.WARNING,
            f"{what}. The run has ended. Its request was not answered, and took effect late",
            f"Let the reassignment finish, or cancel it: ktui cancel --cluster --partition "
            f"{late.tp.topic}:{late.tp.partition} --stop",
        )
    return DoctorFinding(
        Level.NOTE,
        f"{what}. The run has no engine",
        f"`ktui resume {late.run}` continues with this step.",
    )


def judge_ownership(
    status: ClaimStatus, preview: ClaimPreview, *, off: bool
) -> list[DoctorFinding]:
    """Judge who owns the cluster, and what `ktui start` will create to own it.

    Args:
        status: who owns the cluster.
        preview: what a claim creates and needs.
        off: whether the context says `ownership: off`.
    """
    found = [_owner(status)]
    if off:
        what = "ownership is off for this context: ktui checks no owner, and keeps nobody out"
        return [*found, DoctorFinding(Level.NOTE, what)]
    return [*found, *_preview(preview)]


def _owner(status: ClaimStatus) -> DoctorFinding:
    what = str(status)
    match status:
        case OwnedByOthers():
            fix = (
                f"Runs of this state directory are refused here. {TAKE_OVER} takes the cluster "
                "over. The other owner's engines then send nothing more."
            )
            return DoctorFinding(Level.WARNING, what, fix)
        case OwnerUnknown(denied=True):
            return DoctorFinding(Level.WARNING, what, f"Grant it: {_GRANT}")
        case OwnerUnknown():
            fix = (
                "Until the owner is known, new runs are refused, and no new step begins. "
                f"{GOES_ON}. {NO_OWNERSHIP} starts a run without ownership."
            )
            return DoctorFinding(Level.WARNING, what, fix)
    return DoctorFinding(Level.GOOD, what)


def _preview(preview: ClaimPreview) -> Iterator[DoctorFinding]:
    groups = " and ".join(preview.groups)
    topic = {
        True: f", and the brokers create {preview.topic} for them, with their own settings",
        False: "",
        None: f", and the brokers create {preview.topic} if it does not exist",
    }[preview.makes_topic]
    yield DoctorFinding(
        Level.NOTE,
        f"a run owns the cluster through the consumer groups {groups}, without offsets{topic}",
    )
    if preview.permitted is False:
        yield DoctorFinding(
            Level.WARNING, f"not granted: {preview.permission}", f"Grant it: {_GRANT}"
        )
    elif preview.permitted is None:
        yield DoctorFinding(
            Level.NOTE,
            f"owning the cluster needs {preview.permission}; a run shows whether it is granted",
        )
