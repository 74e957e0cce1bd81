"""The facts of a run's status, for its text and for its JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from ktui.cli.output.gate import shut_gate
from ktui.cluster.clock import SystemClock
from ktui.execution.cancel.gate import ShutGate
from ktui.execution.forecast.earlier_runs import EarlierRuns
from ktui.execution.forecast.estimate import NOT_KNOWN, CopiedBytes, Estimate
from ktui.execution.forecast.recorded_estimate import estimate_as_seen
from ktui.execution.forecast.wait_text import Waiting, wait_reasons
from ktui.execution.host.catalog import RunState, recording_now, run_state
from ktui.execution.host.client import RunClient
from ktui.execution.host.heartbeat import last_poll_at, silence
from ktui.execution.host.other_runs import Movers, find_movers
from ktui.execution.host.ownership import Holder
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import Recording
from ktui.execution.run.run import ClusterLost, Run
from ktui.execution.run.states import State
from ktui.execution.run.track import Track
from ktui.execution.time_left.least_left import LeastLeft


class StatusFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A run, and what is known of it beside its journal."""

    run: Run
    now: datetime
    owner: Holder | None = None
    damage: str | None = None
    """The damage of the journal, as it was read now."""
    copied: CopiedBytes = NOT_KNOWN
    """The progress of the copies, with the time left where that is known."""
    least: LeastLeft | None = None
    """The least time of the rest under the run's limits; None where `copied` has no time left."""
    cancel_gate: ShutGate | None = None
    """Who has shut the cluster's cancel gate; None while it is open."""
    last_poll: datetime | None = None
    """The time of the last poll by an engine; None where it is not noted."""
    silent: str | None = None
    """For how long its engine has not polled the cluster."""
    waits: Sequence[Waiting] = ()
    """The partitions that wait, and why."""
    movers: Movers = {}
    """Which other run of the state directory moves what the run finds to be foreign."""

    @property
    def owned(self) -> bool:
        """Whether the run has an engine."""
        return self.owner is not None

    @property
    def state(self) -> RunState:
        """The state of the run as a whole."""
        return run_state(self.run, self.owner)

    @property
    def outage(self) -> ClusterLost | None:
        """Why the cluster does not answer the engine; None without an engine."""
        return self.run.outage if self.owned else None

    @property
    def recording(self) -> Recording:
        """Whether the engine records."""
        return recording_now(self.run, self.owner)

    def reason(self, track: Track) -> str:
        """Return the reason for a partition's state; another run of ours is called by its name."""
        mover = self.movers.get(track.tp) if track.state is State.FOREIGN else None
        return track.reason if mover is None else f"run {mover} is reassigning it"

    @property
    def cancelled(self) -> list[tuple[Track, CancelKind]]:
        """The partitions that an operator has cancelled, and how."""
        tracks = self.run.tracks.values()
        return [(track, track.cancel) for track in tracks if track.cancel is not None]


def _copied(run: Run, owner: Holder | None, estimate: Estimate) -> CopiedBytes:
    """Return what has been copied; only a run that goes on has a time left."""
    copied = estimate.copied
    goes_on = run_state(run, owner) is RunState.RUNNING
    return copied if goes_on else CopiedBytes(copied.done, copied.whole)


def _movers(run: Run, state: StateDir) -> Movers:
    if run.started is None or not run.counts[State.FOREIGN]:
        return {}
    return find_movers(state, run.started.cluster_id, run.name)


def read_status(client: RunClient, state: StateDir) -> StatusFacts:
    """Read all that is known of a run.

    Raises:
        RunProblem: its journal cannot be read.
    """
    owner, found = client.owner, client.read()
    run, clock, earlier = found.run, SystemClock(), EarlierRuns(state)
    now, last_poll = clock.now(), last_poll_at(client.folder)
    if owner is not None:
        estimate = estimate_as_seen(client.folder, found.entries, earlier, clock)
    else:
        estimate = Estimate(run, earlier)
        estimate.take(found.entries)
        estimate.update(now)
    copied = _copied(run, owner, estimate)
    return StatusFacts(
        run=run,
        now=now,
        owner=owner,
        damage=found.damage,
        copied=copied,
        least=None if copied.left_s is None else estimate.least_left(),
        cancel_gate=None if run.started is None else shut_gate(state, run.started.cluster_id),
        last_poll=last_poll,
        silent=silence(run, owner, last_poll, now),
        waits=wait_reasons(run, estimate.time_needed(), now, owned=owner is not None),
        movers=_movers(run, state),
    )
