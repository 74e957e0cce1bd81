"""Judge the topics of canaries: whether a run uses each, or it was left behind. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ktui.cli.doctor.findings import DoctorFinding, Level
from ktui.planning.objective import CANARY_PREFIX, is_canary


def judge_canaries(
    topics: Iterable[str], live: Collection[str], resumable: Collection[str]
) -> list[DoctorFinding]:
    """Return a finding for each topic of a canary.

    Args:
        topics: the topics of the cluster.
        live: the names of the cluster's live runs.
        resumable: the names of its runs that wait for resume.
    """
    return [_finding(topic, live, resumable) for topic in sorted(filter(is_canary, topics))]


def _finding(topic: str, live: Collection[str], resumable: Collection[str]) -> DoctorFinding:
    run = topic.removeprefix(CANARY_PREFIX)
    what = f"topic {topic}: the canary of run {run}"
    if run in live:
        return DoctorFinding(
            Level.NOTE, f"{what}, which is live", "Its engine deletes it when it exits."
        )
    if run in resumable:
        return DoctorFinding(
            Level.NOTE,
            f"{what}, which waits for resume",
            f"`ktui resume {run}` takes it up again, and deletes it when its engine exits.",
        )
    return DoctorFinding(
        Level.NOTE,
        f"{what}, which no run of this state directory uses",
        "If no run of another one does, it was left behind. Delete it: kafka-topics.sh --delete "
        f"--topic {topic}",
    )
