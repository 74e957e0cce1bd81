"""The JSON form of a run's status, which is a contract."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from ktui.cli.output.gate import CancelGateJson, gate_json
from ktui.cli.output.json_form import SCHEMA_VERSION, utc
from ktui.cli.output.schedule_json import ScheduleJson, schedule_json
from ktui.cli.output.throttle_json import ThrottleJson, throttle_json
from ktui.cli.run.runs import (
    OutageJson,
    OwnerJson,
    RecordingJson,
    outage_json,
    owner_json,
    recording_json,
)
from ktui.cli.run.status_facts import StatusFacts
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.forecast.wait_text import Waiting
from ktui.execution.host.catalog import RunState, extra_replicas_text
from ktui.execution.run.additions import AddedPlan
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import OnConflict, PauseOrigin
from ktui.execution.run.options import RunOptions
from ktui.execution.run.states import State
from ktui.execution.run.throttle_status import throttle_status
from ktui.execution.run.track import Track
from ktui.execution.time_left.least_left import LeastLeft, RateSource
from ktui.pacing.limits import Limits
from ktui.speed.answer import Bottleneck, Span


class PauseJson(msgspec.Struct, frozen=True):
    """One pause of the whole run."""

    by: PauseOrigin
    reason: str


class PausesJson(msgspec.Struct, frozen=True):
    """All pauses of a run."""

    whole: tuple[PauseJson, ...]
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]


class GateJson(msgspec.Struct, frozen=True):
    """The gate of the run; shut, it lets no new step begin.

    The cluster's health shuts it, an unknown owner, or the run's schedule.
    """

    shut: bool
    reason: str
    until: str | None
    """When the schedule opens it, UTC; null where that is not known."""


class AddedPlanJson(msgspec.Struct, frozen=True, kw_only=True):
    """An extra plan that has joined the run."""

    at: str
    plan: str
    plan_sha256: str
    partitions: int
    """The number of its partitions that joined."""
    on_conflict: OnConflict
    who: str


class InFlightJson(msgspec.Struct, frozen=True, kw_only=True):
    """A step in flight (KIP-435's current batch)."""

    topic: str
    partition: int
    state: State
    since: str | None
    batch: int | None
    step: int
    """The number of the partition's step, from 1."""
    replicas: Brokers
    """The replicas just before the step."""
    step_replicas: Brokers
    """The replicas that the step asked for."""
    adding: Brokers
    removing: Brokers
    elect: int | None
    target: Brokers
    """The replicas that the plan asks for."""
    original: Brokers


class TroubledJson(msgspec.Struct, frozen=True, kw_only=True):
    """A partition in trouble, or given up."""

    topic: str
    partition: int
    state: State
    reason: str
    since: str | None
    replicas: Brokers
    target: Brokers
    original: Brokers


class WaitingJson(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that waits for its next step, and the reason."""

    topic: str
    partition: int
    state: State
    since: str | None
    waits_for: str
    """The cause of the wait ("paused", "health gate shut"), or the full limit ("partitions")."""
    reason: str


class CancelledPartitionJson(msgspec.Struct, frozen=True, kw_only=True):
    """A partition that an operator has cancelled."""

    topic: str
    partition: int
    cancel: CancelKind
    state: State
    since: str | None
    replicas: Brokers
    target: Brokers
    original: Brokers


class NoteJson(msgspec.Struct, frozen=True):
    """A note of an operator."""

    at: str
    who: str
    text: str


class LeastLeftJson(msgspec.Struct, frozen=True, kw_only=True):
    """The least time that the rest of a run could take under its limits, whatever its order."""

    left_s: float
    """Seconds, at the rates in `rates`."""
    times: float
    """The time left by the forecast at these rates, as a multiple of `left_s`."""
    rates: RateSource
    """Where the rates come from."""
    bottleneck: Bottleneck
    broker: int | None
    brokers: tuple[int, ...]
    partition: TopicPartition | None
    bytes: int
    """What the bottleneck has to copy."""


class StatusJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui status RUN --json`."""

    schema_version: int
    run: str
    state: RunState
    at: str | None
    """The time of the last event."""
    seq: int
    cluster_id: str | None
    plan: str | None
    plan_sha256: str | None
    started_at: str | None
    ended_at: str | None
    owner: OwnerJson | None
    ownership_off: bool
    """Whether its engine does not check who owns the cluster, by option or context."""
    left: str | None
    """The reason the last engine gave for leaving, if it gave one."""
    limits: Limits
    limits_since_batch: int
    """The first decision that the limits bind."""
    throttle: ThrottleJson
    extra_replicas: str | None
    """How many partitions keep extra replicas since the run has no engine; null for none."""
    options: RunOptions
    until: str | None
    """Nothing begins unless it is expected to end by this time."""
    schedule: ScheduleJson
    """When steps may begin."""
    pauses: PausesJson
    gate: GateJson
    cancel_gate: CancelGateJson | None
    """The cluster's cancel gate, if it is shut; null while it is open."""
    outage: OutageJson | None
    """Null while the cluster answers, and without an engine."""
    last_look_at: str | None
    """The time of the last poll by an engine of the run; null where it is not noted."""
    recording: RecordingJson
    batch: int
    """The number of the last decision that submitted something; in wave mode, of the wave."""
    added: tuple[AddedPlanJson, ...]
    """The extra plans that have joined the run, in order."""
    partitions: int
    counts: dict[State, int]
    bytes: int
    """Bytes to copy: the sizes, at the start, of all replicas being added."""
    bytes_done: int
    """The part of `bytes` that has been copied."""
    left_s: Span | None
    """Estimated seconds until the end; null while unknown, and unless the run is running."""
    left_by_earlier_runs: bool
    """Whether `left_s` rests on the rates of earlier runs: this run has no rate of its own yet."""
    least: LeastLeftJson | None
    """Null where `left_s` is, and where nothing is copied any more."""
    in_flight: tuple[InFlightJson, ...]
    waiting: tuple[WaitingJson, ...]
    """The partitions that have begun and wait for a step, then the next one to begin."""
    troubled: tuple[TroubledJson, ...]
    called_off: tuple[CancelledPartitionJson, ...]
    notes: tuple[NoteJson, ...]
    damage: str | None
    """The damage of the journal, also after it was recovered."""


def status_json(status: StatusFacts) -> StatusJson:
    """Return the JSON form of a run's status."""
    run, started, pauses = status.run, status.run.started, status.run.pauses
    return StatusJson(
        schema_version=SCHEMA_VERSION,
        run=run.name,
        state=status.state,
        at=_utc(run.at),
        seq=run.seq,
        cluster_id=None if started is None else started.cluster_id,
        plan=None if started is None else started.plan,
        plan_sha256=None if started is None else started.plan_sha256,
        started_at=_utc(run.started_at),
        ended_at=_utc(run.ended_at),
        owner=owner_json(status.owner),
        ownership_off=run.ownership_off,
        left=run.left,
        limits=run.limits,
        limits_since_batch=run.limits_changed_at + 1,
        throttle=throttle_json(throttle_status(run), owned=status.owned),
        extra_replicas=extra_replicas_text(run, status.owner),
        options=run.options,
        until=_utc(run.until),
        schedule=schedule_json(run.schedule, status.now),
        pauses=PausesJson(
            whole=tuple(PauseJson(by, reason) for by, reason in pauses.whole.items()),
            topics=tuple(sorted(pauses.topics)),
            partitions=tuple(sorted(pauses.partitions)),
        ),
        gate=GateJson(run.gate.shut, run.gate.reason, _utc(run.gate.until)),
        cancel_gate=None if status.cancel_gate is None else gate_json(status.cancel_gate),
        outage=outage_json(status.outage),
        last_look_at=_utc(status.last_poll),
        recording=recording_json(status.recording),
        batch=run.batch,
        added=tuple(map(_added, run.additions.plans)),
        partitions=max(len(run.tracks), 0 if started is None else started.partitions),
        counts={state: run.counts[state] for state in State},
        bytes=run.copies.whole,
        bytes_done=max(status.copied.done, run.copies.done),
        left_s=status.copied.left_s,
        left_by_earlier_runs=status.copied.by_earlier_runs,
        least=None if status.least is None else _least(status.least),
        in_flight=tuple(map(_in_flight, run.tracks_in_flight.values())),
        waiting=tuple(map(_waiting, status.waits)),
        troubled=tuple(
            TroubledJson(reason=status.reason(track), **_place(track), **_replicas(track))
            for track in run.troubled.values()
        ),
        called_off=tuple(
            CancelledPartitionJson(cancel=kind, **_place(track), **_replicas(track))
            for track, kind in status.cancelled
        ),
        notes=tuple(NoteJson(utc(n.at), n.event.who, n.event.text) for n in run.notes),
        damage=status.damage or run.damage,
    )


def _least(least: LeastLeft) -> LeastLeftJson:
    bound = least.bound
    return LeastLeftJson(
        left_s=bound.time_s.middle,
        times=least.times,
        rates=least.rates,
        bottleneck=bound.bottleneck,
        broker=bound.broker,
        brokers=bound.brokers,
        partition=bound.partition,
        bytes=bound.bytes,
    )


def _place(track: Track) -> dict[str, Any]:
    tp = track.tp
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "state": track.state,
        "since": _utc(track.since),
    }


def _replicas(track: Track) -> dict[str, Any]:
    return {"replicas": track.replicas, "target": track.target, "original": track.original}


def _added(plan: AddedPlan) -> AddedPlanJson:
    added = plan.added
    return AddedPlanJson(
        at=utc(plan.at),
        plan=added.plan,
        plan_sha256=added.plan_sha256,
        partitions=added.partitions,
        on_conflict=added.on_conflict,
        who=added.who,
    )


def _in_flight(track: Track) -> InFlightJson:
    begun = None if track.step is None else track.step.begun
    return InFlightJson(
        **_place(track),
        **_replicas(track),
        batch=track.batch,
        step=track.steps,
        step_replicas=track.replicas if begun is None else begun.replicas,
        adding=() if begun is None else begun.adding,
        removing=() if begun is None else begun.removing,
        elect=None if begun is None else begun.elect,
    )


def _waiting(waiting: Waiting) -> WaitingJson:
    return WaitingJson(
        **_place(waiting.track), waits_for=waiting.code, reason=waiting.reason.sentence
    )


def _utc(at: datetime | None) -> str | None:
    return None if at is None else utc(at)
