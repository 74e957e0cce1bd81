"""`ktui verify`: where each partition of a plan stands, and whether the plan is complete."""

from __future__ import annotations

import enum
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from ktui.cli.context.cluster import Cluster, ClusterChoice
from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import NOT_ALL_DONE, print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import read_plan_argument
from ktui.cli.output.json_form import encode_record
from ktui.cli.output.table import column, table_of
from ktui.cli.reassign.changes import runs_place
from ktui.cluster.asking import read_cluster_and_reassignments
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.cluster.text import clean
from ktui.execution.cancel.foreign import ForeignCancelLine, ForeignOutcome, read_cancels
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.ops.reassign.execute import describe
from ktui.ops.reassign.throttles import Foreign, Over
from ktui.ops.reassign.throttles import clear_throttles as put_back
from ktui.quantities import as_count

_CANCELLED = (State.STOPPED, State.ROLLED_BACK)


_STOPPED = (ForeignOutcome.STOPPED, ForeignOutcome.ROLLING_BACK)


class _End(NamedTuple):
    at: datetime
    tp: TopicPartition
    cancelled: Brokers | None  # the target that was given up; None if the move was completed


class PlanOutcome(enum.StrEnum):
    """Where a partition of a plan stands."""

    COMPLETED = "completed"  # it has the plan's replicas, in order
    IN_PROGRESS = "in progress"  # it is being reassigned to the plan's replicas
    CANCELLED = "cancelled"  # it has other replicas, and its move to the plan's was cancelled
    DIFFERENT = "different"  # it has other replicas, or is being reassigned to others
    ABSENT = "absent"  # the cluster does not have it


class _PartitionOutcome(msgspec.Struct, frozen=True, kw_only=True):
    tp: TopicPartition
    outcome: PlanOutcome
    target: Brokers
    replicas: Brokers  # in order; with those being added and removed while it moves


def plan_outcomes(
    targets: Mapping[TopicPartition, Brokers],
    states: Mapping[TopicPartition, PartitionState],
    listed: Mapping[TopicPartition, Reassignment],
    cancelled: Mapping[TopicPartition, Brokers],
) -> list[_PartitionOutcome]:
    """Return where partitions stand, in the plan's order; `cancelled` has given-up targets."""
    found = []
    for tp, target in targets.items():
        state, move, outcome = states.get(tp), listed.get(tp), PlanOutcome.DIFFERENT
        replicas = move.replicas if move is not None else () if state is None else state.replicas
        if move is not None:
            outcome = PlanOutcome.IN_PROGRESS if move.target == target else outcome
        elif state is None:
            outcome = PlanOutcome.ABSENT
        elif replicas == target:
            outcome = PlanOutcome.COMPLETED
        elif cancelled.get(tp) == target:
            outcome = PlanOutcome.CANCELLED
        found.append(_PartitionOutcome(tp=tp, outcome=outcome, target=target, replicas=replicas))
    return found


def cancelled_targets(
    runs: Iterable[Run], log: Iterable[ForeignCancelLine]
) -> dict[TopicPartition, Brokers]:
    """Return the target of the last cancelled move of each partition."""
    ends = [
        _End(line.at, TopicPartition(line.topic, line.partition), line.target)
        for line in log
        if line.outcome in _STOPPED
    ]
    ends += [end for run in runs for end in _ends_in_run(run)]
    found: dict[TopicPartition, Brokers] = {}
    for end in sorted(ends, key=attrgetter("at")):
        if end.cancelled is None:
            found.pop(end.tp, None)
        else:
            found[end.tp] = end.cancelled
    return found


def _ends_in_run(run: Run) -> Iterator[_End]:
    for tp, track in run.tracks.items():
        at = track.since or run.started_at
        if at is not None and track.state in _CANCELLED:
            yield _End(at, tp, track.planned.target)
        elif at is not None and track.state is State.DONE:
            yield _End(at, tp, None)


_COLUMNS = (
    column("PARTITION", lambda each: clean(str(each.tp))),
    column("OUTCOME", lambda each: each.outcome.value),
    column("REPLICAS", lambda each: ",".join(map(str, each.replicas)) or "-"),
    column("TARGET", lambda each: ",".join(map(str, each.target))),
)
MOST_ROWS = 100  # partitions in the table; --json has all of them


@click.command("verify")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@common.state_dir_option
@add_option(
    "--clear-throttles",
    "Restore the settings from before the throttles that `ktui reassign` has set for what is "
    "complete.",
)
@common.json_option
def command(
    path: Path, choice: ClusterChoice, *, state: StateDir, clear_throttles: bool, json: bool
) -> None:
    """Show where each partition of PLAN stands: completed, in progress, cancelled or different.

    What was cancelled is known from the runs and the log of cancels of the state directory. PLAN
    is a file in the format of kafka-reassign-partitions, or - for standard input.

    Exit code 0 if all of PLAN is completed, 3 if not.
    """
    _, plan = read_plan_argument(path)
    targets = {each.tp: each.replicas for each in plan.partitions}
    cluster = choice.cluster()
    cluster_id, states, listed = cluster.ask(partial(_read, targets))
    log = read_cancels(state, cluster_id)
    ours = [each for each in reversed(all_runs(state)) if each.cluster_id == cluster_id]
    runs = (RunClient(state.run(each.name)).read().run for each in ours)
    cancelled = cancelled_targets(runs, log)
    outcomes = plan_outcomes(targets, states, listed, cancelled)
    click.echo(_json(cluster, outcomes) if json else _text(outcomes))
    if clear_throttles:
        place = runs_place(choice, choice.target(), state, cluster_id)
        place = msgspec.structs.replace(place, say=print_note if json else click.echo)
        over = [each.tp for each in outcomes if each.outcome is not PlanOutcome.IN_PROGRESS]
        put_back(place, targets, Over(over, log_dirs=False, listed=listed), Foreign.KEPT)
    sys.exit(0 if _complete(outcomes) else NOT_ALL_DONE)


async def _read(
    targets: Mapping[TopicPartition, Brokers], reader: ClusterReader
) -> tuple[str, Mapping[TopicPartition, PartitionState], Mapping[TopicPartition, Reassignment]]:
    described, listed = await read_cluster_and_reassignments(reader)
    answer = await describe(reader, {tp.topic for tp in targets if tp not in listed})
    return described.cluster_id, answer.partitions, listed


def _text(outcomes: Sequence[_PartitionOutcome]) -> str:
    more = len(outcomes) - MOST_ROWS
    lines = [table_of(_COLUMNS, outcomes[:MOST_ROWS])]
    lines += [f"and {more:,} more: see --json"] if more > 0 else []
    counts = (f"{count:,} {outcome.value}" for outcome, count in _counts(outcomes).items() if count)
    return "\n".join([*lines, "", f"{as_count(len(outcomes), 'partition')}: {', '.join(counts)}"])


def _json(cluster: Cluster, outcomes: Sequence[_PartitionOutcome]) -> str:
    partitions = [
        {
            "topic": each.tp.topic,
            "partition": each.tp.partition,
            "outcome": each.outcome,
            "replicas": each.replicas,
            "target": each.target,
        }
        for each in outcomes
    ]
    return encode_record(
        {
            "cluster": cluster.name,
            "complete": _complete(outcomes),
            "counts": _counts(outcomes),
            "partitions": partitions,
        }
    )


def _counts(outcomes: Sequence[_PartitionOutcome]) -> dict[PlanOutcome, int]:
    return {outcome: sum(each.outcome is outcome for each in outcomes) for outcome in PlanOutcome}


def _complete(outcomes: Sequence[_PartitionOutcome]) -> bool:
    return all(each.outcome is PlanOutcome.COMPLETED for each in outcomes)
