"""`ktui verify`: where each partition of a plan stands, and whether the plan is complete."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from pathlib import Path

import click
import msgspec

from ktui.cli.context.claim import claim_request
from ktui.cli.context.cluster import Cluster, ClusterChoice, Target
from ktui.cli.context.terminal import print_note
from ktui.cli.options import common
from ktui.cli.options.cluster import cluster_options
from ktui.cli.options.plan import read_plan_argument
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table
from ktui.cli.reassign.clear_throttles import Foreign, Over
from ktui.cli.reassign.clear_throttles import clear_throttles as put_back
from ktui.cli.reassign.cluster import describe
from ktui.cli.reassign.left_runs import PROGRAM, RunsPlace
from ktui.cli.reassign.plan_outcome import (
    PartitionOutcome,
    PlanOutcome,
    cancelled_targets,
    plan_outcomes,
)
from ktui.cli.start.follow import NOT_ALL_DONE
from ktui.cluster.fresh_read import read_cluster_and_reassignments
from ktui.cluster.partition import Brokers, PartitionState, Reassignment, TopicPartition
from ktui.cluster.text import clean
from ktui.execution.cancel.foreign_log import read_cancels
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.host.client import RunClient
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.quantities import as_count

HEADER = ("PARTITION", "OUTCOME", "REPLICAS", "TARGET")
MOST_ROWS = 100
"""Partitions in the table; --json has all of them."""


class PartitionOutcomeJson(msgspec.Struct, frozen=True, kw_only=True):
    """One partition of the plan."""

    topic: str
    partition: int
    outcome: PlanOutcome
    replicas: Brokers
    target: Brokers


class VerifyJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui verify --json`."""

    schema_version: int
    cluster: str
    complete: bool
    counts: dict[PlanOutcome, int]
    partitions: tuple[PartitionOutcomeJson, ...]


class _Seen(msgspec.Struct, frozen=True):
    cluster_id: str
    states: Mapping[TopicPartition, PartitionState]
    listed: Mapping[TopicPartition, Reassignment]


@click.command("verify")
@click.argument("path", metavar="PLAN", type=click.Path(path_type=Path))
@cluster_options
@common.state_dir_option
@click.option(
    "--clear-throttles",
    is_flag=True,
    help="Put back the throttles that `ktui reassign` has set for what is complete.",
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
    seen = asyncio.run(_read(cluster, targets))
    cancelled = cancelled_targets(
        _runs_of(state, seen.cluster_id), read_cancels(state, seen.cluster_id)
    )
    outcomes = plan_outcomes(targets, seen.states, seen.listed, cancelled)
    click.echo(_json(cluster, outcomes) if json else _text(outcomes))
    if clear_throttles:
        place = _place(choice.target(), state, seen.cluster_id)
        _clear(place, outcomes, seen.listed, print_note if json else click.echo)
    sys.exit(0 if _complete(outcomes) else NOT_ALL_DONE)


async def _read(cluster: Cluster, targets: Mapping[TopicPartition, Brokers]) -> _Seen:
    async with aclosing(cluster.reader()) as reader:
        described, listed = await read_cluster_and_reassignments(reader)
        answer = await describe(reader, {tp.topic for tp in targets if tp not in listed})
        return _Seen(described.cluster_id, answer.partitions, listed)


def _place(target: Target, state: StateDir, cluster_id: str) -> RunsPlace:
    return RunsPlace(
        state, cluster_id, target, claim_request(target.cluster, state, cluster_id, PROGRAM)
    )


def _runs_of(state: StateDir, cluster_id: str) -> Iterator[Run]:
    """Yield the runs of a cluster that can be read, oldest first."""
    for summary in reversed(list(all_runs(state))):
        if summary.cluster_id == cluster_id:
            yield RunClient(state.run(summary.name)).read().run


def _clear(
    place: RunsPlace,
    outcomes: Sequence[PartitionOutcome],
    listed: Mapping[TopicPartition, Reassignment],
    say: Callable[[str], None],
) -> None:
    over = [each.tp for each in outcomes if each.outcome is not PlanOutcome.IN_PROGRESS]
    targets = {each.tp: each.target for each in outcomes}
    over_now = Over(over, log_dirs=False, listed=listed)
    put_back(place, targets, over_now, foreign=Foreign.KEPT, say=say)


def _text(outcomes: Sequence[PartitionOutcome]) -> str:
    rows = [_row(each) for each in outcomes[:MOST_ROWS]]
    more = len(outcomes) - len(rows)
    lines = [table(HEADER, rows), *([f"and {more:,} more: see --json"] if more > 0 else [])]
    counts = (f"{count:,} {outcome.value}" for outcome, count in _counts(outcomes).items() if count)
    return "\n".join([*lines, "", f"{as_count(len(outcomes), 'partition')}: {', '.join(counts)}"])


def _row(each: PartitionOutcome) -> tuple[str, ...]:
    return (
        clean(str(each.tp)),
        each.outcome.value,
        ",".join(map(str, each.replicas)) or "-",
        ",".join(map(str, each.target)),
    )


def _json(cluster: Cluster, outcomes: Sequence[PartitionOutcome]) -> str:
    partitions = tuple(
        PartitionOutcomeJson(
            topic=each.tp.topic,
            partition=each.tp.partition,
            outcome=each.outcome,
            replicas=each.replicas,
            target=each.target,
        )
        for each in outcomes
    )
    return encode(
        VerifyJson(
            schema_version=SCHEMA_VERSION,
            cluster=cluster.name,
            complete=_complete(outcomes),
            counts=_counts(outcomes),
            partitions=partitions,
        )
    )


def _counts(outcomes: Sequence[PartitionOutcome]) -> dict[PlanOutcome, int]:
    return {outcome: sum(each.outcome is outcome for each in outcomes) for outcome in PlanOutcome}


def _complete(outcomes: Sequence[PartitionOutcome]) -> bool:
    return all(each.outcome is PlanOutcome.COMPLETED for each in outcomes)
