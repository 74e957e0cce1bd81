"""A branch beside what was: the same run at the same moment, and what was done to it since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import Replica
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    CancelAsked,
    JournalEntry,
    LimitsChanged,
    ScheduleChanged,
    Started,
    ThrottleChanged,
)
from ktui.execution.run.notices import NoticeKind, notice_kind
from ktui.execution.run.options import USUAL_POLL_S, Schedule
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.execution.run.text import event_sentence, limits_text
from ktui.insights import Prior
from ktui.planning.throttle_rates import BrokerRate, ThrottleRates
from ktui.progress.flows import Counted
from ktui.progress.timeline import Progress
from ktui.quantities import as_bytes, as_duration
from ktui.speed.capacity import Capacity, CapacityMemory
from ktui.speed.copies import Pair
from ktui.speed.shown import SpeedShown, prior_of, received_by


class Happening(NamedTuple):
    """Something worth a line, in words."""

    at: datetime
    text: str


_ACTS = (LimitsChanged, ThrottleChanged, ScheduleChanged, CancelAsked, Added)
_MOST_ACTS = 30


class RunMoment(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one moment."""

    done: int  # at their target
    over: int  # ended, one way or another
    partitions: int
    bytes_copied: int
    bytes_whole: int
    steps_in_flight: int
    limits: str
    state: str

    @property
    def share(self) -> float:
        """Of the bytes copied; of the partitions, where there are none."""
        if self.bytes_whole:
            return self.bytes_copied / self.bytes_whole
        return self.over / max(1, self.partitions)

    @property
    def short(self) -> str:
        return f"{self.done:,} of {self.partitions:,} at target, {self.share:.0%}, {self.state}"


def moment_of(run: Run, since: datetime) -> RunMoment:
    """Return what a run is like now; times are counted `since` the moment of the branch."""
    return RunMoment(
        done=run.counts[State.DONE],
        over=run.over,
        partitions=len(run.tracks),
        bytes_copied=run.copies.done,
        bytes_whole=run.copies.whole,
        steps_in_flight=run.in_flight,
        limits=limits_text(run.limits),
        state=_state(run, since),
    )


def _state(run: Run, since: datetime) -> str:
    if run.ended_at is not None:
        return f"ended after {as_duration((run.ended_at - since).total_seconds())}"
    if run.left is not None:
        return "left by its engine"
    return "paused" if run.pauses.whole else "running"


class WhatWas:
    """The run of a recording, at any moment `since` the branch; moments mostly come in order."""

    def __init__(self, name: str, entries: Sequence[JournalEntry], since: datetime) -> None:
        self._name, self._entries, self._since = name, entries, since
        self._restart()

    def _restart(self) -> None:
        self._run, self._passed = Run(self._name), 0
        self._at: datetime | None = None

    def at(self, moment: datetime) -> RunMoment:
        if self._at is not None and moment < self._at:
            self._restart()
        self._at = moment
        while self._passed < len(self._entries) and self._entries[self._passed].at <= moment:
            self._run.apply(self._entries[self._passed])
            self._passed += 1
        return moment_of(self._run, self._since)

    @property
    def end(self) -> RunMoment:
        return moment_of(Run(self._name).fold(self._entries), self._since)


def comparison(
    was: WhatWas,
    entries: Sequence[JournalEntry],
    then: Sequence[JournalEntry],
    *,
    happened: Iterable[Happening],
    events: Sequence[Happening],
    since: datetime,
    now: datetime,
) -> str:
    """Compare the branch (`entries`, `events`) with what was (`then`, `happened`)."""
    branch = moment_of(Run("branch").fold(entries), since)
    outside = [each for each in happened if since < each.at <= now]
    rows = [
        ("", "as it was", "in the branch"),
        *_rows(was.at(now), branch),
        ("at its end", was.end.short, branch.state if branch.state.startswith("ended") else "-"),
    ]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{a:<{widths[0]}}  {b:<{widths[1]}}  {c}".rstrip() for a, b, c in rows]
    after = as_duration((now - since).total_seconds())
    return "\n".join(
        [
            f"{after} after the moment of the branch, at {_clock(now)}:",
            "",
            *lines,
            *_limits(was.at(now), branch),
            "",
            "WHAT HAPPENED SINCE, AS IT WAS",
            *_shown(sorted([*_acts(then, since, now), *outside])),
            "",
            "WHAT HAPPENED SINCE, IN THE BRANCH",
            *_shown(sorted([*_acts(entries, since, now), *events])),
        ]
    )


def _rows(was: RunMoment, branch: RunMoment) -> Iterator[tuple[str, str, str]]:
    for name, of in (
        ("at target", lambda m: f"{m.done:,} of {m.partitions:,}"),
        ("over", lambda m: f"{m.over:,} of {m.partitions:,}"),
        ("copied", lambda m: f"{as_bytes(m.bytes_copied)} of {as_bytes(m.bytes_whole)}"),
        ("steps in flight", lambda m: f"{m.steps_in_flight:,}"),
        ("the run", lambda m: m.state),
    ):
        yield name, of(was), of(branch)


def _limits(was: RunMoment, branch: RunMoment) -> Iterator[str]:
    if was.limits == branch.limits:
        yield f"the limits of both: {was.limits}"
    else:
        yield f"limits as it was: {was.limits}"
        yield f"limits in the branch: {branch.limits}"


def _acts(entries: Iterable[JournalEntry], since: datetime, until: datetime) -> Iterator[Happening]:
    """What operators did, and what they would want to hear of."""
    for entry in entries:
        if since < entry.at <= until and _counts(entry):
            yield Happening(entry.at, event_sentence(entry.event))


def _shown(acts: Iterable[Happening]) -> list[str]:
    lines = [f"  {_clock(act.at)}  {act.text}" for act in acts]
    left_out = len(lines) - _MOST_ACTS
    if left_out > 0:
        return [*lines[:_MOST_ACTS], f"  and {left_out:,} more"]
    return lines or ["  nothing but steps"]


def _counts(entry: JournalEntry) -> bool:
    kind = notice_kind(entry.event)
    return isinstance(entry.event, _ACTS) or (kind is not None and kind is not NoticeKind.LATE)


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%H:%M:%S}"


class RecordedEntries(msgspec.Struct, frozen=True):
    """The events of one run, as far as a recording has them from the first one on."""

    name: str
    entries: tuple[JournalEntry, ...]

    def until(self, at: datetime) -> Run:
        return Run(self.name).fold(entry for entry in self.entries if entry.at <= at)


class BranchPoint(msgspec.Struct, frozen=True, kw_only=True):
    """All that a recording shows of one moment, and what came of the runs afterwards."""

    recording: str  # its name, cleaned for the terminal
    cluster: str  # its name, cleaned for the terminal
    at: datetime  # the last poll before: the twin begins in its state
    at_s: float  # of the moment itself, from the beginning of the recording
    clock_s: float  # of `at`, on the axis of what was polled
    progress: Progress  # up to then; its last observation is not None
    runs: tuple[RecordedEntries, ...]  # those that had begun, with all events, also later ones
    happened: tuple[Happening, ...] = ()  # to brokers, around the moment, whatever the cause
    prior: Prior | None = None  # how fast brokers copy by the whole recording


def entries_for_twin(run: RecordedEntries, at: datetime, cluster_id: str) -> list[JournalEntry]:
    """Return a run's journal for a twin, without commands, which nobody here has asked for."""
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
    """Yield each copy with its rate since the poll before, where it is known."""
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
