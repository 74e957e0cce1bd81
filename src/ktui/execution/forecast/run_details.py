"""All of a run at one moment: its progress as its engine saw it, and each partition of interest."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import starmap
from typing import Any, TypeVar

import msgspec

from ktui.cluster.clock import Clock, SystemClock
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import NOT_KNOWN, Estimate
from ktui.execution.forecast.run_progress import (
    RunNote,
    RunProgress,
    run_progress,
    with_least,
    with_more,
)
from ktui.execution.forecast.waits import wait_reasons
from ktui.execution.host.catalog import Movers, find_movers
from ktui.execution.host.client import RunClient
from ktui.execution.host.kept import SeenPoll, replay_recording
from ktui.execution.host.ownership import CancelGateFile, ShutGate
from ktui.execution.host.process import last_poll_at
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import Added, Exported, JournalEntry, OnConflict, PauseOrigin
from ktui.execution.run.options import RunOptions
from ktui.execution.run.parts import Remembered
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import OpenStep, Track
from ktui.execution.time_left.forecast import APART
from ktui.inputfile import FileProblem
from ktui.insights import Prior

MOST_SEEN = 10_000  # the most partition states to fold: a fraction of a second of work
_FORECASTS = timedelta(minutes=1)  # whose forecasts show how certain the last one is
_FRESH = timedelta(seconds=30)
_FRESH_POLLS = 5
_READ_EVERY_S = 5.0

log = logging.getLogger(__name__)


def estimate_as_seen(
    folder: RunDir,
    entries: Sequence[JournalEntry],
    prior_of: Callable[[str], Prior | None],
    clock: Clock,
) -> Estimate:
    """Return a run's estimate by its journal and recorded polls, as views show it."""
    now = clock.now()
    run = Run(folder.name)
    estimate, taken, last = Estimate(run, prior_of), 0, None
    due = now - _FORECASTS
    try:
        for seen in replay_recording(folder, run, entries, clock, MOST_SEEN):
            estimate.take(seen.entries)
            estimate.update(seen.observation.at, seen.progress.timelines)
            if seen.observation.at >= due:
                _ = estimate.copied  # a forecast
                due = seen.observation.at + APART
            taken, last = taken + len(seen.entries), seen
    except FileProblem as problem:
        log.debug("the journal alone is used: %s", problem)
        last = None
    for entry in entries[taken:]:
        run.apply(entry)
    estimate.take(entries[taken:])
    if last is None or not _is_fresh(last, run, clock):
        estimate.update(now)
    else:
        estimate.update(now, last.progress.timelines)
    return estimate


class ProgressAsSeen:
    """The progress of a run, as its engine has seen it; estimated again every few seconds."""

    def __init__(
        self, client: RunClient, prior_of: Callable[[str], Prior | None], clock: Clock
    ) -> None:
        self._client, self._prior_of, self._clock = client, prior_of, clock
        self._copied, self._read_s = NOT_KNOWN, -math.inf
        self._progress: RunProgress | None = None

    def of(self, run: Run) -> RunProgress:
        if self._clock.monotonic() - self._read_s >= _READ_EVERY_S:
            entries = self._client.read().entries
            seen = estimate_as_seen(self._client.folder, entries, self._prior_of, self._clock)
            self._copied, self._read_s = seen.copied, self._clock.monotonic()
            self._progress = None
        if self._progress is None or self._progress.seq != run.seq:
            self._progress = run_progress(run, self._client.owner, copied=self._copied)
        return self._progress


def _is_fresh(seen: SeenPoll, run: Run, clock: Clock) -> bool:
    usual = timedelta(seconds=_FRESH_POLLS * run.poll_s)
    return clock.now() - seen.observation.at <= max(_FRESH, usual)


class RunPartition(msgspec.Struct, frozen=True, kw_only=True):
    """A partition of a run."""

    topic: str
    partition: int
    state: State
    since: datetime | None

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class WaitingPartition(RunPartition, frozen=True, kw_only=True):
    """A partition that waits for its next step, and the reason."""

    waits_for: str  # "paused", "health gate shut", or the full limit: "partitions"
    reason: str


class PlacedPartition(RunPartition, frozen=True, kw_only=True):
    """A partition with its replicas."""

    replicas: Brokers  # now; with a step in flight, before the step
    target: Brokers  # of the plan
    original: Brokers


class PartitionInFlight(PlacedPartition, frozen=True, kw_only=True):
    """A partition with a step in flight (KIP-435's current batch)."""

    batch: int | None
    step: int  # from 1
    step_replicas: Brokers  # asked for by the step
    adding: Brokers = ()
    removing: Brokers = ()
    elect: int | None = None
    held_up_by: str | None = None  # as a broker that is down


class TroubledPartition(PlacedPartition, frozen=True, kw_only=True):
    """A partition in trouble, or given up."""

    reason: str


class CancelledPartition(PlacedPartition, frozen=True, kw_only=True):
    """A partition that an operator has cancelled."""

    cancel: CancelKind


PlacedT = TypeVar("PlacedT", bound=PlacedPartition)


class RunPauses(msgspec.Struct, frozen=True, kw_only=True):
    """All pauses of a run: of the whole run with origin and reason, of topics and partitions."""

    whole: dict[PauseOrigin, str] = {}
    topics: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()


class ExtraPlan(msgspec.Struct, frozen=True, kw_only=True):
    """An extra plan that has joined the run."""

    at: datetime
    plan: str
    plan_sha256: str
    partitions: int  # how many joined
    on_conflict: OnConflict
    who: str


class RunDetails(RunProgress, frozen=True, kw_only=True):
    """All that is known of a run: what `ktui status` shows."""

    plan_partitions: int = 0  # of the plan that the run was started with
    exported: Exported | None = None  # it goes on in another state directory
    options: RunOptions = RunOptions()
    pauses: RunPauses = RunPauses()
    cancel_gate: ShutGate | None = None  # of the cluster, if it is shut now
    added: tuple[ExtraPlan, ...] = ()  # they have joined the run, in this order
    in_flight: tuple[PartitionInFlight, ...] = ()
    waiting: tuple[WaitingPartition, ...] = ()  # begun ones that wait for a step, then the next
    troubled: tuple[TroubledPartition, ...] = ()
    called_off: tuple[CancelledPartition, ...] = ()
    notes: tuple[RunNote, ...] = ()


class FoundRun(msgspec.Struct, frozen=True):
    """A run as it was read, and the damage that its journal has now."""

    details: RunDetails
    damage: str | None


def read_details(client: RunClient, state: StateDir) -> FoundRun:
    """Read all that is known of a run. Raises RunProblem: its journal cannot be read."""
    owner, found = client.owner, client.read()
    run, clock, earlier = found.run, SystemClock(), EarlierRuns.beside(client.folder)
    now = clock.now()
    if owner is not None:
        estimate = estimate_as_seen(client.folder, found.entries, earlier, clock)
    else:
        estimate = Estimate(run, earlier)
        estimate.take(found.entries)
        estimate.update(now)
    progress = run_progress(
        run,
        owner,
        now=now,
        copied=estimate.copied,
        last_poll=last_poll_at(client.folder),
        problem=found.damage,
    )
    if progress.time_left is not None:
        progress = with_least(progress, estimate.least_left())
    waits = wait_reasons(run, estimate.time_needed(), now, owned=owner is not None)
    waiting = (
        WaitingPartition(
            topic=track.tp.topic,
            partition=track.tp.partition,
            state=track.state,
            since=track.since,
            waits_for=reason.code,
            reason=reason.sentence,
        )
        for track, reason in waits
    )
    cluster_id = progress.cluster_id
    gate = None if cluster_id is None else CancelGateFile(state, cluster_id).state()
    details = run_details(run, progress, tuple(waiting), gate, _movers(run, state))
    return FoundRun(details, found.damage)


def run_details(
    run: Run,
    progress: RunProgress,
    waiting: tuple[WaitingPartition, ...] = (),
    cancel_gate: ShutGate | None = None,
    movers: Movers | None = None,
) -> RunDetails:
    """Return all of a run; `movers` are other runs that move what it finds to be foreign."""
    tracks = run.tracks.values()
    return with_more(
        RunDetails,
        progress,
        plan_partitions=0 if run.started is None else run.started.partitions,
        exported=run.exported,
        options=run.options,
        pauses=RunPauses(
            whole=dict(run.pauses.whole),
            topics=tuple(sorted(run.pauses.topics)),
            partitions=tuple(sorted(run.pauses.partitions)),
        ),
        cancel_gate=cancel_gate,
        added=tuple(map(_extra_plan, run.additions.plans)),
        in_flight=tuple(starmap(_in_flight, run.open_steps)),
        waiting=waiting,
        troubled=tuple(_troubled(track, movers or {}) for track in run.troubled.values()),
        called_off=tuple(
            _placed(CancelledPartition, track, cancel=track.cancel)
            for track in tracks
            if track.cancel is not None
        ),
        notes=tuple(map(RunNote.of, run.notes)),
    )


def _extra_plan(plan: Remembered[Added]) -> ExtraPlan:
    added = plan.event
    return ExtraPlan(
        at=plan.at,
        plan=added.plan,
        plan_sha256=added.plan_sha256,
        partitions=added.partitions,
        on_conflict=added.on_conflict,
        who=added.who,
    )


def _placed(kind: type[PlacedT], track: Track, **more: Any) -> PlacedT:
    return kind(
        topic=track.tp.topic,
        partition=track.tp.partition,
        state=track.state,
        since=track.since,
        replicas=track.replicas,
        target=track.target,
        original=track.original,
        **more,
    )


def _in_flight(track: Track, step: OpenStep) -> PartitionInFlight:
    return _placed(
        PartitionInFlight,
        track,
        batch=track.batch,
        step=track.steps,
        step_replicas=step.begun.replicas,
        adding=step.begun.adding,
        removing=step.begun.removing,
        elect=step.begun.elect,
        held_up_by=track.held_up_by or None,
    )


def _troubled(track: Track, movers: Mapping[TopicPartition, str]) -> TroubledPartition:
    """A partition that another run of ours moves is called by that run's name."""
    mover = movers.get(track.tp) if track.state is State.FOREIGN else None
    reason = track.reason if mover is None else f"run {mover} is reassigning it"
    return _placed(TroubledPartition, track, reason=reason)


def _movers(run: Run, state: StateDir) -> Movers:
    if run.started is None or not run.counts[State.FOREIGN]:
        return {}
    return find_movers(state, run.started.cluster_id, run.name)
