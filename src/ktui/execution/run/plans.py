"""The plan of a run: its first events, the way back, and what Kafka's own tool needs to go on."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from ktui import __version__
from ktui.cluster.broker import racks_of
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.execution.run.events import AnyRunEvent, Planned, PlannedPart, Started
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import unexpected_replicas_text
from ktui.execution.run.track import Track
from ktui.pacing.limits import Limits
from ktui.pacing.queue import Copies, copies_to, with_bytes_ahead
from ktui.planning.check.findings import ClusterSnapshot
from ktui.planning.check.rules import PlanRules
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json

T = TypeVar("T")

AT_ONCE = 1_000  # partitions in one event, so that its size is written and read well


def first_events(
    plan: Plan,
    cluster: ClusterSnapshot,
    limits: Limits,
    options: RunOptions,
    *,
    cluster_id: str,
    plan_name: str,
    connection: Mapping[str, str] | None = None,
) -> list[AnyRunEvent]:
    """Return a run's first events; the plan was checked against the cluster without a problem."""
    planned = planned_partitions(plan, cluster)
    started = Started(
        cluster_id=cluster_id,
        plan=plan_name,
        plan_sha256=hash_plan(plan),
        partitions=len(planned),
        limits=limits,
        options=options,
        connection=dict(connection or {}),
        version=__version__,
        racks=_brokers_by_rack(cluster),
    )
    return [started, *planned_parts(planned)]


def _brokers_by_rack(cluster: ClusterSnapshot) -> dict[str, tuple[int, ...]]:
    racks = sorted(racks_of(cluster.brokers.values()).items())
    return {rack: tuple(b for b, of in racks if of == rack) for _, rack in racks}


def planned_partitions(plan: Plan, cluster: ClusterSnapshot) -> list[Planned]:
    """Return a plan's partitions in its order, as far as the cluster has them."""
    rules = PlanRules(cluster)
    states = ((target, rules.state(target.tp)) for target in plan.partitions)
    planned = [_planned(target, state, cluster) for target, state in states if state is not None]
    return with_bytes_ahead(planned, _copies)


def hash_plan(plan: Plan) -> str:
    """Return the SHA-256 of a plan's file, as hex digits."""
    return hashlib.sha256(plan.text or plan_as_json(plan).encode()).hexdigest()


def planned_parts(partitions: Sequence[Planned], most: int = AT_ONCE) -> list[PlannedPart]:
    """Return a run's partitions as events, at most `most` partitions in each."""
    return [PlannedPart(partitions=part) for part in chunked(partitions, most)]


def chunked(of: Sequence[T], most: int = AT_ONCE) -> Iterator[tuple[T, ...]]:
    """Split a sequence into tuples of at most `most` items."""
    for n in range(0, len(of), most):
        yield tuple(of[n : n + most])


def _copies(planned: Planned) -> Copies:
    return copies_to(planned.target, planned.original, planned.leader, planned.size)


def _planned(target: PartitionTarget, state: PartitionState, cluster: ClusterSnapshot) -> Planned:
    size = cluster.size(target.tp)
    return Planned(
        topic=target.topic,
        partition=target.partition,
        topic_id=state.topic_id,
        target=target.replicas,
        original=state.original,
        leader=state.leader,
        size=size or 0,
        sized=size is not None,
    )


class LeftAsIs(msgspec.Struct, frozen=True):
    """A partition that the run has changed, and that is not put back."""

    tp: TopicPartition
    why: str


class UndoPlan(msgspec.Struct, frozen=True):
    """The way back from a run, as far as there is one."""

    plan: Plan  # the original replicas, by the run's own order; may be empty
    left: tuple[LeftAsIs, ...]  # what is not put back, in the run's order


def undo_plan(run: Run, seen: Observation) -> UndoPlan:
    """Return the plan that restores a run's replicas; `seen` is a read of its partitions."""
    targets: list[PartitionTarget] = []
    left: list[LeftAsIs] = []
    for track in run.tracks.values():
        state = seen.partitions.get(track.tp)
        if not track.begun or track.state is State.ROLLED_BACK or _as_before(track, state):
            continue
        if why := _why_left(track, state, gone=track.tp in seen.absent):
            left.append(LeftAsIs(track.tp, why))
        elif state is not None:
            tp, original, now = track.tp, track.original, state.replicas
            targets.append(PartitionTarget(tp.topic, tp.partition, original, original_replicas=now))
    return UndoPlan(Plan(tuple(targets)), tuple(left))


def _as_before(track: Track, state: PartitionState | None) -> bool:
    if state is None or state.reassigning or not _same_topic(track, state):
        return False
    return state.replicas == track.original


def _same_topic(track: Track, state: PartitionState) -> bool:
    return track.planned.topic_id in (None, state.topic_id)


def _why_left(track: Track, state: PartitionState | None, *, gone: bool) -> str | None:
    if gone or track.state is State.TOPIC_GONE:
        return "its topic was deleted"
    if state is None or not state.described:
        return "the cluster does not describe it"
    if not _same_topic(track, state):
        return "its topic was deleted and created again"
    if state.reassigning:
        return "it is being reassigned"
    if state.replicas not in (track.replicas, track.sent):
        return unexpected_replicas_text(state.replicas, track.replicas)
    return None


TOOL = "kafka-reassign-partitions.sh"
_SERVERS = "BROKER:PORT"
_MOVE_FILE = "move.json"


def tool_commands(run: Run) -> Iterator[str]:
    """Yield a shell's lines; the tool submits all at once, and knows neither limits nor steps."""
    left, back = f"{run.name}-left.json", f"{run.name}-back.json"
    yield "# what moves on the cluster"
    yield shlex.join([TOOL, *_where(run), "--list"])
    yield "# what is left of the run, all at once"
    yield shlex.join(["ktui", "plan", "remaining", run.name, "-o", left])
    if run.throttled.rates and run.throttled.rates.every is None:
        yield "# the tool has one rate for all brokers: add --throttle RATE"
    beside = ["--additional"] if run.in_flight else []
    yield tool_command(run, "execute", left, *beside, *_throttle(run))
    yield "# how far that is; at its end, this removes every throttle on these brokers and topics"
    yield tool_command(run, "verify", left)
    yield "# stop what is in flight"
    yield tool_command(run, "cancel", left)
    yield "# back to the replicas from before the run"
    yield shlex.join(["ktui", "plan", "rollback", run.name, "-o", back])
    yield tool_command(run, "execute", back, "--additional", *_throttle(run))


def tool_command(run: Run, action: str, plan: str, *more: str) -> str:
    """Return the command for an action on a plan's file, on the cluster of a run."""
    words = [TOOL, *_where(run), f"--{action}", "--reassignment-json-file", plan, *more]
    return shlex.join(words)


def move_commands(tp: TopicPartition, target: Sequence[int], run: Run | None) -> Iterator[str]:
    """Yield a shell's lines that move one partition; a person names the cluster without a run."""
    move = {"topic": tp.topic, "partition": tp.partition, "replicas": list(target)}
    plan = json.dumps({"version": 1, "partitions": [move]})
    yield f"printf '%s\\n' {shlex.quote(plan)} > {_MOVE_FILE}"
    words = ["--execute", "--reassignment-json-file", _MOVE_FILE, "--additional"]
    yield shlex.join([TOOL, *_where(run), *words])


def _where(run: Run | None) -> list[str]:
    started = None if run is None else run.started
    names: Mapping[str, str] = {} if started is None else started.connection
    config = names.get("command_config")
    return [
        "--bootstrap-server",
        names.get("bootstrap_server", _SERVERS),
        *([] if config is None else ["--command-config", config]),
    ]


def _throttle(run: Run) -> list[str]:
    """The tool has one rate for all: that of most brokers."""
    rate = run.throttled.rates.every
    return [] if rate is None else ["--throttle", str(rate)]
