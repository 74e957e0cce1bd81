"""The runs behind `ktui reassign`: an engine submits all of a plan, and Kafka goes on alone.

So a plan has a journal: it survives a crash in the middle, its throttles can be put back, and
`ktui cancel` can roll it back to its original replicas in their order.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import msgspec

from ktui.cluster.clock import SystemClock
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import ClusterPorts
from ktui.cluster.settings import SettingKey
from ktui.execution import RunProblem, RunRefused
from ktui.execution.engine.gates import Leaving
from ktui.execution.host.catalog import check_one_throttle, unfinished_runs
from ktui.execution.host.client import RunClient
from ktui.execution.host.process import EngineProcess
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import Add, CancelMoves, Command, SetLimits, SetThrottle
from ktui.execution.run.events import AnyRunEvent, OnConflict
from ktui.execution.run.options import OnForeignChange, OnForeignThrottle, RunOptions
from ktui.execution.run.plans import first_events, hash_plan, planned_partitions
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.ops.reassign.tool import ReassignmentFile
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.snapshot import take_snapshot
from ktui.planning.plan import Plan, join_some
from ktui.planning.throttle_rates import ThrottleRates

T = TypeVar("T")

SETTLES_S = 20.0  # seconds to wait for an engine that settles a run
_PAUSE_S = 0.2
ENDS_S = 600.0
"""Seconds to wait for an engine that is about to leave; with batches there is no limit."""


class RunsPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where the runs of `ktui reassign` are, on which cluster, and how engines start there."""

    state: StateDir
    cluster_id: str
    names: Mapping[str, str]  # by which an engine finds the cluster
    ports: Callable[[], AbstractAsyncContextManager[ClusterPorts]]
    start_new: Callable[[str, Leaving, Sequence[AnyRunEvent]], EngineProcess]
    start_left: Callable[[str, Leaving, Callable[[], None]], EngineProcess]  # after a last check
    check_gate: Callable[[], None]  # RunRefused: the cluster's cancel gate is shut
    check_owner: Callable[[], Awaitable[None]]  # RunRefused: another state directory owns it
    say: Callable[[str], None]
    note: Callable[[str], None]

    def act(self, what: Callable[[ClusterPorts], Awaitable[T]]) -> T:
        async def acted() -> T:
            async with self.ports() as ports:
                return await what(ports)

        return asyncio.run(acted())

    def left_runs(self) -> Iterator[Run]:
        """Yield the unfinished runs of `ktui reassign` that no process owns."""
        for run, owner in [*unfinished_runs(self.state, self.cluster_id)]:
            if owner is None and run.exported is None and run.left_to_kafka:
                yield run

    def settle(
        self, name: str, commands: Collection[Command] = ()
    ) -> tuple[Run, Collection[SettingKey]]:
        """Let an engine take in what Kafka has done meanwhile, and put back throttles of the past.

        What the run has not begun yet, after a crash, is given up: once an action of
        `ktui reassign` is over, nothing waits for its turn.

        Returns:
            The run as it is left, and the settings that were put back.
        """
        before = RunClient(self.state.run(name)).read().run
        waiting = tuple(tp for tp, track in before.tracks.items() if waits(track))
        give_up = [CancelMoves(CancelKind.STOP, partitions=waiting)] if waiting else []
        run = self.carry_on(name, Leaving.SETTLED, [*give_up, *commands])
        return run, before.throttled.changed.keys() - run.throttled.changed.keys()

    def carry_on(
        self,
        name: str,
        leave: Leaving,
        commands: Collection[Command],
        limit_s: float = ENDS_S,
        check: Callable[[], None] = lambda: None,
    ) -> Run:
        """Let an engine go on with a left run until it leaves again; `check` may refuse it."""
        client, numbers = RunClient(self.state.run(name)), list[int]()

        def ask() -> None:
            check()
            numbers.extend(client.ask(command) for command in commands)

        wait_until_left(self.start_left(name, leave, ask), limit_s)
        for answer in map(client.wait_for_answer, numbers):
            if not answer.accepted:
                raise RunRefused(f"run {name}: {answer.words}")
        return client.read().run


def check_not_live(
    state: StateDir, cluster_id: str, partitions: Collection[TopicPartition]
) -> None:
    """Check that no live run is to move any of these partitions.

    A run that an engine only settles is waited for: that takes seconds.
    """
    until_s = time.monotonic() + SETTLES_S
    while True:
        live = [(run, owner) for run, owner in unfinished_runs(state, cluster_id) if owner]
        found = ((run, owner, _not_ended(run, partitions)) for run, owner in live)
        moving = [(run, owner, theirs) for run, owner, theirs in found if theirs]
        if not moving:
            return
        run, owner, theirs = moving[0]
        settling = all(run.left_to_kafka and run.all_begun for run, _, _ in moving)
        if not settling or time.monotonic() >= until_s:
            raise RunRefused(
                f"run {run.name}, owned by {owner}, moves {join_some(theirs)}. Nothing was "
                f"sent. Wait for its end, add the plan to it (ktui add {run.name} PLAN), or cancel "
                f"those partitions: ktui cancel {run.name}"
            )
        time.sleep(_PAUSE_S)


def _not_ended(run: Run, partitions: Collection[TopicPartition]) -> list[TopicPartition]:
    tracks = (run.tracks.get(tp) for tp in partitions)
    return [track.tp for track in tracks if track is not None and not track.state.ended]


def waits(track: Track) -> bool:
    """Whether a partition of a left run has yet to be submitted, and was not cancelled."""
    begins = track.cancel is None and track.step is None and not track.state.ended
    return begins or track.then is not None


def wait_until_left(engine: EngineProcess, limit_s: float) -> None:
    """Wait until an engine has left its run. RunProblem: it has not in time, or has died."""
    if not engine.wait(limit_s):
        raise RunProblem(
            f"the engine of run {engine.run.name} goes on after {limit_s:.0f} s. "
            f"See: ktui status {engine.run.name}"
        )
    if not engine.ended_well:
        raise RunProblem(
            f"the engine of run {engine.run.name} has died: {engine.last_words}\nWhat it had "
            "submitted goes on. For the rest, call --execute again, with --additional"
        )


NOT_HOSTED = "This server does not host this topic-partition."
"""Kafka's words for a partition that is not there."""
UNANSWERED = "Kafka did not answer: it may have started, or may start yet. See: ktui list"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What --execute is to do."""

    file: ReassignmentFile
    plan_name: str
    limits: Limits
    rates: ThrottleRates
    dir_rate: int  # bytes a second between the log dirs of a broker; below 0 for none
    poll_s: float
    timeout_s: float  # for moves between log dirs to begin
    additional: bool
    same_factor: bool
    full_dirs: bool  # whether replicas move also to log dirs without room for them


def submit(
    place: RunsPlace, request: Request, plan: Plan, left: Run | None
) -> dict[TopicPartition, str]:
    """Submit a plan; return once all is submitted, and the engine has left.

    Args:
        left: a run of an earlier call that has not ended; the plan joins it. Partitions that it
            moves elsewhere are cancelled first, and then go on to the new target.

    Returns:
        Why Kafka refused partitions, or why they could not be submitted.
    """
    seen = place.act(lambda ports: take_snapshot(ports.reader, plan, None))
    if left is None:
        run = _submit_in_new_run(place, request, plan, seen)
    else:
        run = _join(place, request, plan, seen, left)
    listed = place.act(lambda ports: ports.reader.list_reassignments())
    refused = not_taken(run, plan, listed)
    if waiting := [tp for tp in refused if tp in run.tracks and waits(run.tracks[tp])]:
        stop = CancelMoves(CancelKind.STOP, partitions=tuple(waiting))
        RunClient(place.state.run(run.name)).ask(stop)
    return refused


def _submit_in_new_run(
    place: RunsPlace, request: Request, plan: Plan, seen: ClusterSnapshot
) -> Run:
    name = place.state.free_name(f"reassign-{SystemClock().now().astimezone():%Y%m%d-%H%M%S}")
    options = RunOptions(
        on_foreign_change=OnForeignChange.REPLAN,
        throttle=request.rates,
        throttle_leaders=True,
        on_foreign_throttle=OnForeignThrottle.GO_ON,
        poll_s=request.poll_s,
        record=False,
    )
    first = first_events(
        plan,
        seen,
        request.limits,
        options,
        cluster_id=place.cluster_id,
        plan_name=request.plan_name,
        connection=place.names,
    )
    wait_until_left(place.start_new(name, Leaving.SUBMITTED, first), _limit_s(request))
    return RunClient(place.state.run(name)).read().run


def _join(place: RunsPlace, request: Request, plan: Plan, seen: ClusterSnapshot, left: Run) -> Run:
    limits, rates = request.limits, request.rates
    planned = tuple(planned_partitions(plan, seen))
    commands: list[Command] = [
        *([SetThrottle(rates)] if rates else []),
        SetLimits({"partitions": limits.partitions, "mode": limits.mode.value}),
        Add(request.plan_name, hash_plan(plan), planned, OnConflict.RETARGET),
    ]

    def check() -> None:
        place.check_gate()
        if rates:
            check_one_throttle(place.state, place.cluster_id, left.name)

    return place.carry_on(left.name, Leaving.SUBMITTED, commands, _limit_s(request), check)


def _limit_s(request: Request) -> float:
    return ENDS_S if request.limits.partitions is None else math.inf


def not_taken(
    run: Run, plan: Plan, listed: Mapping[TopicPartition, Reassignment]
) -> dict[TopicPartition, str]:
    """Return why Kafka is not known to have taken moves, once the engine has left the run."""
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
