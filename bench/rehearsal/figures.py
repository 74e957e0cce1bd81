"""The figures of a run by its recording, the same for a rehearsal and for a real one."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bench.checks import check_count
from ktui.cluster.observation import Observation
from ktui.cluster.partition import Replica, TopicPartition
from ktui.execution.run.events import Ended, JournalEntry, Owned, StepBegun, StepOver, decode
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.progress.fold import fold
from ktui.progress.timeline import Cause, Progress
from ktui.recording.reading import Damage, PlayedPoll, find_sessions, play_session
from ktui.recording.segments import RunLine, from_wall_ms

WINDOW_S = 10.0
"""The seconds over which the peak inflow of a broker is an average."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did."""

    seconds: float
    """From when an engine took it up to its end, as `ktui rehearse` counts its time."""
    copied: int
    """Bytes of the replicas that were added, as of the end of their steps."""
    inflow: Mapping[int, float]
    """By broker, the most bytes a second that were copied into it over `WINDOW_S`."""
    extra: int
    """The most replicas at one time beside those that the partitions have before and after."""
    steps: int
    order: Mapping[TopicPartition, int]
    """The batch in which each partition's first step began."""
    together: bool
    """Whether more than one partition was ever in flight."""
    stalls: frozenset[tuple[Cause, int]]
    """Causes and brokers of all alarms."""

    @property
    def peak(self) -> float:
        """The highest inflow of any broker."""
        return max(self.inflow.values(), default=0.0)


def figures_of(folder: Path) -> Figures:
    """Return the figures of the one run that is recorded in a folder.

    Raises:
        SystemExit: the recording is damaged, or does not show one whole run.
    """
    sessions = find_sessions(folder)
    check_count(f"recordings in {folder}", len(sessions), 1)
    fold_of = _Fold()
    for item in play_session(sessions[0]):
        if isinstance(item, Damage):
            raise SystemExit(f"not measured: {item}")
        if isinstance(item, RunLine):
            fold_of.event(
                JournalEntry(item.entry, from_wall_ms(item.at), decode(bytes(item.event)))
            )
        elif isinstance(item, PlayedPoll):
            fold_of.poll(item.observation)
    return fold_of.figures()


class _Fold:
    """One pass over a recording."""

    def __init__(self) -> None:
        self._run = Run("")
        self._progress = Progress()
        self._owned_s: float | None = None
        self._ended_s: float | None = None
        self._copying: dict[TopicPartition, tuple[int, ...]] = {}
        """The replicas that each partition in flight is adding."""
        self._sizes: dict[TopicPartition, float] = {}
        """Bytes of the leaders' logs, which are read less often than offsets."""
        self._copied: dict[Replica, float] = {}
        self._peaks = _Peaks()
        self._extras: dict[TopicPartition, int] = {}
        self._extra = self._steps = self._most = 0
        self._order: dict[TopicPartition, int] = {}
        self._stalls: set[tuple[Cause, int]] = set()

    def event(self, entry: JournalEntry) -> None:
        """Take an event of the run."""
        self._run.apply(entry)
        at_s = entry.at.timestamp()
        match entry.event:
            case Owned() if self._owned_s is None:
                self._owned_s = at_s
            case StepBegun() as step:
                self._begin(step)
            case StepOver() as over:
                self._end(over)
            case Ended():
                self._ended_s = at_s
        self._most = max(self._most, len(self._run.tracks_in_flight))

    def poll(self, seen: Observation) -> None:
        """Take a poll."""
        self._progress = fold(self._progress, seen)
        for tp, brokers in self._copying.items():
            self._sizes[tp] = _leader_size(seen, tp) or self._sizes[tp]
            for broker in brokers:
                if (share := _share(seen, Replica(tp, broker))) is not None:
                    self._copied[Replica(tp, broker)] = share * self._sizes[tp]
        self._peaks.add(seen.monotonic_s, self._copied)
        for timeline in self._progress.timelines.values():
            if timeline.stall is not None and timeline.stall.alarm:
                self._stalls.add((timeline.stall.cause, timeline.stall.broker))

    def figures(self) -> Figures:
        """Return the figures.

        Raises:
            SystemExit: not every partition came to its target.
        """
        done, of = self._run.counts[State.DONE], len(self._run.tracks)
        check_count("partitions at their target", done, of)
        if self._ended_s is None or self._owned_s is None:
            raise SystemExit("not measured: the recording shows no run")
        return Figures(
            seconds=self._ended_s - self._owned_s,
            copied=round(sum(self._copied.values())),
            inflow=self._peaks.most,
            extra=self._extra,
            steps=self._steps,
            order=self._order,
            together=self._most > 1,
            stalls=frozenset(self._stalls),
        )

    def _begin(self, step: StepBegun) -> None:
        self._steps += 1
        self._order.setdefault(step.tp, step.batch)
        if step.adding:
            self._copying[step.tp] = step.adding
        track = self._run.tracks[step.tp]
        self._sizes.setdefault(step.tp, track.planned.size)
        usual = max(len(track.original), len(track.target))
        self._extras[step.tp] = max(0, len({*step.before, *step.replicas}) - usual)
        self._extra = max(self._extra, sum(self._extras.values()))

    def _end(self, over: StepOver) -> None:
        self._extras.pop(over.tp, None)
        for broker in self._copying.pop(over.tp, ()):
            if over.reached:
                self._copied[Replica(over.tp, broker)] = self._sizes[over.tp]


def _leader_size(seen: Observation, tp: TopicPartition) -> int | None:
    state = seen.partitions.get(tp)
    if state is None or state.leader is None:
        return None
    reading = seen.sizes.get(Replica(tp, state.leader))
    return None if reading is None else reading.value


def _share(seen: Observation, replica: Replica) -> float | None:
    """Return the share of its leader's log that a replica has; None where that is not known."""
    state, start = seen.partitions.get(replica.tp), seen.starts.get(replica.tp)
    if state is None or state.leader is None or start is None:
        return None
    end = seen.ends.get(replica)
    whole = seen.ends.get(Replica(replica.tp, state.leader))
    if end is None or whole is None or whole.value <= start.value:
        return None
    return min(1.0, max(0.0, (end.value - start.value) / (whole.value - start.value)))


class _Peaks:
    """The most that was copied into each broker within a window."""

    def __init__(self) -> None:
        self.most: dict[int, float] = {}
        self._past: deque[tuple[float, dict[int, float]]] = deque()

    def add(self, at_s: float, copied: Mapping[Replica, float]) -> None:
        """Take the bytes that each replica has at a moment."""
        into: dict[int, float] = {}
        for replica, size in copied.items():
            into[replica.broker] = into.get(replica.broker, 0) + size
        self._past.append((at_s, into))
        while len(self._past) > 1 and self._past[1][0] <= at_s - WINDOW_S:
            self._past.popleft()
        since_s, before = self._past[0]
        for broker, size in into.items():
            rate = (size - before.get(broker, 0)) / max(WINDOW_S, at_s - since_s)
            self.most[broker] = max(self.most.get(broker, 0.0), rate)


def same_order(first: Figures, second: Figures) -> float | None:
    """Return how alike the orders of the first steps are, from -1 to 1.

    One by one it is 1 where the orders are equal, and 0 where they are not. Where several
    partitions are in flight together, it is the rank correlation of their batches; None where one
    of the runs began them all at once.
    """
    tps = sorted(first.order)
    ranks = [[each.order[tp] for tp in tps] for each in (first, second)]
    if not (first.together or second.together):
        return float(_ranked(ranks[0]) == _ranked(ranks[1]))
    if any(len(set(each)) == 1 for each in ranks):
        return None
    return statistics.correlation(*map(_ranked, ranks))


def _ranked(values: Sequence[int]) -> list[float]:
    """Return the ranks of values; equal ones share the mean of theirs."""
    places: dict[int, list[int]] = {}
    for place, value in enumerate(sorted(values)):
        places.setdefault(value, []).append(place)
    return [statistics.fmean(places[value]) for value in values]


def off(predicted: float, seen: float) -> float:
    """Return the error of a prediction, as a share of what was seen."""
    return predicted / seen - 1 if seen else float(predicted != seen)
