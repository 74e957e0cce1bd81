"""Where a branch begins: the moment of a recording, and the rates that were seen up to it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Replica
from ktui.execution.run.events import AnyRunEvent, JournalEntry, ScheduleChanged, Started
from ktui.execution.run.options import USUAL_POLL_S, Schedule
from ktui.execution.run.run import Run
from ktui.insights.prior import Prior
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.progress.flows import Counted
from ktui.progress.timeline import Progress
from ktui.rehearsal.branch.compare import Happening
from ktui.speed.capacity import Capacity, CapacityMemory
from ktui.speed.copies import Pair
from ktui.speed.shown import SpeedShown, prior_of, received_by


class RecordedEntries(msgspec.Struct, frozen=True):
    """The events of one run, as far as a recording has them from the first one on."""

    name: str
    entries: tuple[JournalEntry, ...]

    def until(self, at: datetime) -> Run:
        """Return the run as it was at a moment."""
        return Run(self.name).fold(entry for entry in self.entries if entry.at <= at)


class BranchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """All that a recording shows of one moment, and what came of the runs afterwards."""

    recording: str
    """The name of the recording, cleaned for the terminal."""
    cluster: str
    """The name of its cluster, cleaned for the terminal."""
    at: datetime
    """When the cluster was polled last before: the twin begins in the state of that poll."""
    at_s: float
    """Seconds of the moment itself from the beginning of the recording."""
    clock_s: float
    """The monotonic second of `at`, on the axis of what was polled."""
    progress: Progress
    """What was polled up to then; its last observation is not None."""
    runs: tuple[RecordedEntries, ...]
    """The runs that had begun, with all of their events, also those after the moment."""
    happened: tuple[Happening, ...] = ()
    """What happened to brokers before and after the moment, whatever the cause."""
    prior: Prior | None = None
    """How fast the whole recording shows that brokers copy; None where nothing was copied."""


def entries_for_twin(run: RecordedEntries, at: datetime, cluster_id: str) -> list[JournalEntry]:
    """Return the journal with which a run goes on, on a twin, from a moment on.

    Commands of whoever made the recording are left out, for nobody here has asked for them.
    """
    return [
        msgspec.structs.replace(entry, event=_for_twin(entry.event, cluster_id))
        for entry in run.entries
        if entry.at <= at
    ]


def _for_twin(event: AnyRunEvent, cluster_id: str) -> AnyRunEvent:
    if isinstance(event, Started):
        schedule = without_command(event.options.schedule)
        options = msgspec.structs.replace(
            event.options,
            schedule=schedule,
            sli_command="",
            sli_prometheus=(),
            canary=True,  # an objective has no other figure on a twin
            on_event="",
            metrics_file="",
            record=False,
            poll_s=USUAL_POLL_S,
        )
        return msgspec.structs.replace(event, cluster_id=cluster_id, options=options, connection={})
    if isinstance(event, ScheduleChanged):
        return msgspec.structs.replace(
            event, old=without_command(event.old), new=without_command(event.new)
        )
    return event


def without_command(schedule: Schedule) -> Schedule:
    """Return a schedule without the command of --while."""
    return msgspec.structs.replace(schedule, while_command="")


def left_out(runs: Iterable[RecordedEntries], at: datetime) -> Sequence[str]:
    """Return what of the runs' options does not hold on a twin, a sentence each."""
    notes: dict[str, None] = {}
    for each in runs:
        run = each.until(at)
        if run.schedule.while_command:
            notes["the command of --while is not run: steps may begin as if it succeeded"] = None
        if run.options.sli_command or run.options.sli_prometheus:
            notes["the figure of the objective comes from the twin's own producers"] = None
    return tuple(notes)


class ShownRates:
    """The rates of a recording, poll by poll."""

    def __init__(self) -> None:
        self._memory = CapacityMemory()
        self._capacity = Capacity(memory=self._memory)
        self._before: Mapping[Replica, Counted] = {}
        self._seen: Observation | None = None

    def note(self, progress: Progress) -> None:
        """Take one poll into account."""
        before, since = self._before, self._seen
        self._before, self._seen = progress.flows.counted, progress.last
        seen = self._seen
        if seen is None or since is None or seen.monotonic_s <= since.monotonic_s:
            return
        seconds = seen.monotonic_s - since.monotonic_s
        copied = [
            (pair, bytes_s * seconds) for pair, bytes_s in _copied(before, self._before, seen)
        ]
        if copied:
            self._capacity.learn(copied, seconds, _throttle(seen))

    @property
    def prior(self) -> Prior | None:
        """The rates so far; None where nothing was copied."""
        if self._seen is None:
            return None
        shown = SpeedShown(
            cluster_id=self._seen.cluster_id,
            at=self._seen.at,
            received=received_by(self._memory),
            largest=0,
        )
        return prior_of([shown])


def _copied(
    before: Mapping[Replica, Counted], now: Mapping[Replica, Counted], seen: Observation
) -> Iterator[tuple[Pair, float]]:
    """Yield each copy with its rate since the poll before, in bytes a second, where it is known."""
    for replica, counted in now.items():
        was, state = before.get(replica), seen.partitions.get(replica.tp)
        if was is None or state is None or state.leader is None or counted.each is None:
            continue
        if counted.by_offsets is was.by_offsets and counted.at_s > was.at_s:
            size = max(0.0, counted.value - was.value) * counted.each
            yield (state.leader, replica.broker), size / (counted.at_s - was.at_s)


def _throttle(seen: Observation) -> ThrottleRates:
    rates = {id_: each.follower_throttle_rate for id_, each in seen.broker_configs.items()}
    return ThrottleRates(None, tuple(BrokerRate(b, rates[b]) for b in sorted(rates)))
