"""The rollback plan: every partition's replicas from before the run, which Kafka forgets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ktui.cluster.partition import Brokers
from ktui.durable import write_whole
from ktui.execution.errors import RunProblem
from ktui.execution.host.state_dir import RunDir
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.events import AnyRunEvent, PlannedPart
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json


def rollback_plan(run: Run) -> Plan:
    """Return the original replicas of a run's partitions, as its journal now knows them.

    Partitions whose topics are gone are left out: every tool refuses a plan that has them.
    """
    tracks = (track for track in run.tracks.values() if track.state is not State.TOPIC_GONE)
    return _plan((t.tp.topic, t.tp.partition, t.original) for t in tracks)


def write_rollback(run: RunDir, first: Sequence[AnyRunEvent]) -> None:
    """Write the rollback plan beside the journal of a new run.

    Args:
        run: the folder of the run.
        first: the first events of its journal.

    Raises:
        RunProblem: the plan cannot be written.
    """
    planned = (
        each for event in first if isinstance(event, PlannedPart) for each in event.partitions
    )
    plan = _plan((each.topic, each.partition, each.original) for each in planned)
    _write(run, plan)


def rewrite_rollback(run: RunDir) -> None:
    """Rewrite the rollback plan, so that it has the partitions of extra plans too.

    Raises:
        RunProblem: the journal cannot be read, or the plan cannot be written; names the next
            command.
    """
    with RunFollower(run.journal) as follower:
        follower.refresh()
    try:
        _write(run, rollback_plan(follower.run))
    except RunProblem as problem:
        fix = f"Print the same plan: ktui plan rollback {run.name}"
        raise RunProblem(f"{problem}. {fix}") from None


def _write(run: RunDir, plan: Plan) -> None:
    """Write the whole file, or leave the old one."""
    try:
        write_whole(run.rollback, plan_as_json(plan).encode())
    except OSError as error:
        raise RunProblem(f"{run.rollback}: cannot be written: {error.strerror}") from None


def _plan(originals: Iterable[tuple[str, int, Brokers]]) -> Plan:
    """Return originals in the format of Kafka's tool, with KIP-236's `original_replicas`."""
    return Plan(
        tuple(
            PartitionTarget(topic, partition, original, original_replicas=original)
            for topic, partition, original in originals
        )
    )
