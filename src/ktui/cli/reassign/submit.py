"""Submit a plan in a run: a new one, or the run that an earlier --execute has left."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from contextlib import aclosing

import msgspec

from ktui.cli.context.cluster import read_cluster_for_plan
from ktui.cli.process.launch import Leaving, launch_new_run
from ktui.cli.reassign.left_runs import ENDS_S, RunsPlace, carry_on, wait_until_left, waits
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.client import RunClient
from ktui.execution.journal.commands import Add, CancelMoves, Command, SetLimits, SetThrottle
from ktui.execution.run.events import OnConflict
from ktui.execution.run.first_events import first_events, hash_plan, planned_partitions
from ktui.execution.run.options import OnForeignChange, OnForeignThrottle, RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import ThrottleRates

NOT_HOSTED = "This server does not host this topic-partition."
"""Kafka's words for a partition that is not there."""
UNANSWERED = "Kafka did not answer: it may have started, or may start yet. See: ktui list"


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A plan, and how it is submitted."""

    plan: Plan
    plan_name: str
    limits: Limits
    throttle: ThrottleRates
    poll_s: float


def submit(place: RunsPlace, submission: Submission, left: Run | None) -> dict[TopicPartition, str]:
    """Submit a plan; return once all is submitted, and the engine has left.

    Args:
        place: the cluster and the state directory.
        submission: what to submit.
        left: a run of an earlier call that has not ended; the plan joins it. Partitions that it
            moves elsewhere are cancelled first, and then go on to the new target.

    Returns:
        Why Kafka refused partitions, or why they could not be submitted.

    Raises:
        RunRefused, RunProblem: the engine cannot be started, or has died.
        ClusterError: the cluster does not answer.
    """
    seen = asyncio.run(_read(place, submission.plan))
    if left is None:
        run = _submit_in_new_run(place, submission, seen)
    else:
        run = _submit_in_left_run(place, submission, seen, left.name)
    refused = not_taken(run, submission.plan, asyncio.run(_listed(place)))
    if waiting := [tp for tp in refused if tp in run.tracks and waits(run.tracks[tp])]:
        stop = CancelMoves(CancelKind.STOP, partitions=tuple(waiting))
        RunClient(place.state.run(run.name)).ask(stop)
    return refused


async def _read(place: RunsPlace, plan: Plan) -> ClusterSnapshot:
    async with aclosing(place.target.cluster.reader()) as reader:
        return (await read_cluster_for_plan(reader, plan))[1]


async def _listed(place: RunsPlace) -> Mapping[TopicPartition, Reassignment]:
    async with aclosing(place.target.cluster.reader()) as reader:
        return await reader.list_reassignments()


def _submit_in_new_run(place: RunsPlace, submission: Submission, seen: ClusterSnapshot) -> Run:
    now = SystemClock().now().astimezone()
    name = place.state.free_name(f"reassign-{now:%Y%m%d-%H%M%S}")
    options = RunOptions(
        on_foreign_change=OnForeignChange.REPLAN,
        throttle=submission.throttle,
        throttle_leaders=True,
        on_foreign_throttle=OnForeignThrottle.GO_ON,
        poll_s=submission.poll_s,
        record=False,
    )
    first = first_events(
        submission.plan,
        seen,
        submission.limits,
        options,
        cluster_id=place.cluster_id,
        plan_name=submission.plan_name,
        connection=place.target.names,
    )
    engine = launch_new_run(place.launch(name, Leaving.SUBMITTED), first)
    wait_until_left(engine, _limit_s(submission))
    return RunClient(place.state.run(name)).read().run


def _submit_in_left_run(
    place: RunsPlace, submission: Submission, seen: ClusterSnapshot, name: str
) -> Run:
    partitions = tuple(planned_partitions(submission.plan, seen))
    commands: list[Command] = [
        SetLimits(
            {
                "partitions": submission.limits.partitions,
                "mode": submission.limits.mode.value,
            }
        ),
        Add(submission.plan_name, hash_plan(submission.plan), partitions, OnConflict.RETARGET),
    ]
    if submission.throttle:
        commands.insert(0, SetThrottle(submission.throttle))

    def check() -> None:
        place.check_gate()
        if submission.throttle:
            check_one_throttle(place.state, place.cluster_id, name)

    launch = place.launch(name, Leaving.SUBMITTED)
    return carry_on(launch, commands, _limit_s(submission), check)


def _limit_s(submission: Submission) -> float:
    return ENDS_S if submission.limits.partitions is None else math.inf


def not_taken(
    run: Run, plan: Plan, listed: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, str]:
    """Return the partitions of a plan whose moves Kafka is not known to have taken, with reasons.

    Args:
        run: the run that the plan is in, once its engine has left it.
        plan: the plan.
        listed: the reassignments that Kafka lists after that.
    """
    reasons = {
        each.tp: _why_not(run.tracks.get(each.tp), run.left or "", listed.get(each.tp))
        for each in plan.partitions
    }
    return {tp: why for tp, why in reasons.items() if why is not None}


def _why_not(track: Track | None, left_because: str, listed: Reassignment | None) -> str | None:
    if track is None:
        return NOT_HOSTED
    if track.then is None and track.state is not State.FAILED:
        if track.taken or track.state is State.DONE:
            return None
        if track.step is not None and track.open_alter:
            return None if listed and listed.target == track.sent else UNANSWERED
    return track.reason or (track.state.words if track.state.ended else left_because)
