"""Submit a plan in a run: a new one, or the run that an earlier --execute has left."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing

import msgspec

from ktui.cli.context.cluster import read_cluster_for_plan
from ktui.cli.process.launch import Leaving, launch_new_run
from ktui.cli.reassign.left_runs import ENDS_S, RunsPlace, carry_on, wait_until_left
from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import TopicPartition
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.client import RunClient
from ktui.execution.journal.commands import Add, CancelMoves, Command, SetLimits, SetThrottle
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import OnConflict
from ktui.execution.run.first_events import first_events, hash_plan, planned_partitions
from ktui.execution.run.options import OnForeignChange, OnForeignThrottle, RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.plan import Plan
from ktui.planning.throttle_rates import ThrottleRates

NOT_HOSTED = "This server does not host this topic-partition."
"""Kafka's words for a partition that is not there."""


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
    steps: dict[TopicPartition, int] = {}
    if left is None:
        run = _submit_in_new_run(place, submission, seen)
    else:
        steps = {tp: track.steps for tp, track in left.tracks.items()}
        run = _submit_in_left_run(place, submission, seen, left.name)
    tracks = {each.tp: run.tracks.get(each.tp) for each in submission.plan.partitions}
    left_because = run.left or ""
    reasons = {tp: _why_not(t, steps.get(tp, 0), left_because) for tp, t in tracks.items()}
    refused = {tp: why for tp, why in reasons.items() if why is not None}
    if waiting := [tp for tp in refused if (t := tracks[tp]) is not None and not t.state.ended]:
        stop = CancelMoves(CancelKind.STOP, partitions=tuple(waiting))
        RunClient(place.state.run(run.name)).ask(stop)
    return refused


async def _read(place: RunsPlace, plan: Plan) -> ClusterSnapshot:
    async with aclosing(place.target.cluster.reader()) as reader:
        return (await read_cluster_for_plan(reader, plan))[1]


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


def _why_not(track: Track | None, steps_before: int, left_because: str) -> str | None:
    """Return why a partition was not submitted; None if it was, or needed nothing.

    Args:
        track: the partition in the run; None if it was gone when the run was made.
        steps_before: the steps that the run had begun for it before.
        left_because: why the engine has left the run.
    """
    if track is None:
        return NOT_HOSTED
    if track.state is State.FAILED:
        return track.reason
    submitted = track.steps > steps_before or track.state is State.DONE or track.under_way
    if track.then is None and submitted:
        return None
    return track.reason or (left_because if not track.state.ended else track.state.words)
