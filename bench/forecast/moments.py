"""The forecasts at every second of a recorded run, each with what is known of the truth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bench.forecast.baselines import (
    BY_THROTTLE,
    LINEAR,
    RECENT,
    SMOOTHED,
    SmoothedRate,
    left_by_throttle_s,
)
from bench.forecast.settling import Settled, Settling
from bench.forecast.stored import StoredRun
from ktui.execution.run.events import (
    Added,
    CancelAsked,
    Continued,
    EngineLeft,
    JournalEntry,
    LimitsChanged,
    Outage,
    Owned,
    Paused,
    ScheduleChanged,
    ThrottleChanged,
    decode,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.insights import Prior
from ktui.pipeline.forecast.replay import RUN, DecodedPoll, EtaReplay
from ktui.recording.segments import RunLine, from_wall_ms
from ktui.speed.answer import Span

EVERY_MS = 1_000
KTUI = "ktui"
_DISTURB = (
    Added,
    CancelAsked,
    Continued,
    EngineLeft,
    LimitsChanged,
    Outage,
    Owned,
    Paused,
    ScheduleChanged,
    ThrottleChanged,
)
"""Events of a run under way that nobody could know of before."""


class Moment(NamedTuple):
    """One moment of a run, or of a partition of it. Times in seconds."""

    cluster: str
    run: str
    scope: str
    share: float
    """The share done, 0 to 1."""
    left: Span | None
    """ktui's forecast."""
    naive: Mapping[str, float | None]
    truth_s: float | None
    """The time that was really left; None where something cut it short: see `at_least_s`."""
    at_least_s: float | None
    """For how long it went on at least as the forecast could know, if the truth is not known."""
    as_it_went_s: float | None
    """The time that was left, whatever happened meanwhile; None if the end was never seen."""

    def forecast(self, of: str) -> float | None:
        """Return the forecast of ktui, or of a baseline; None where it had none."""
        if of == KTUI:
            return None if self.left is None else self.left.middle
        return self.naive.get(of)


class RunOutcome(NamedTuple):
    """What became of a run. Times are normalised, in ms."""

    ended_t: int | None
    """When its last partition was over; None for a run that did not end with all of them done."""
    disturbed_t: tuple[int, ...]
    """When something happened that nobody could know of before."""
    last_t: int
    """The last moment that shows the run under way."""


class ReplayedRun(NamedTuple):
    """The moments of one run."""

    stored: StoredRun
    outcome: RunOutcome
    moments: list[Moment]


class Watch:
    """Watches a session for the end of its run, and for what disturbs it."""

    def __init__(self) -> None:
        self.run = Run("")
        self._ended_t: int | None = None
        self._disturbed: list[int] = []
        self._last_t = 0
        self._alive: frozenset[int] | None = None

    def watch(self, events: Iterable[DecodedPoll | RunLine]) -> Iterator[DecodedPoll | RunLine]:
        """Yield the events as they are."""
        for each in events:
            if isinstance(each, RunLine):
                self._take(each)
            else:
                self._poll(each)
            yield each

    @property
    def outcome(self) -> RunOutcome:
        """What became of the run."""
        done = self.run.counts[State.DONE] == len(self.run.tracks)
        ended_t = self._ended_t if done else None
        return RunOutcome(ended_t, tuple(self._disturbed), self._last_t)

    def _take(self, line: RunLine) -> None:
        event, under_way = decode(bytes(line.event)), bool(self.run.tracks_in_flight)
        self.run.apply(JournalEntry(line.entry, from_wall_ms(line.at), event))
        if isinstance(event, _DISTURB) and under_way:
            self._disturbed.append(line.at)
        over = bool(self.run.tracks) and self.run.over == len(self.run.tracks)
        if over and self._ended_t is None:
            self._ended_t = line.at

    def _poll(self, seen: DecodedPoll) -> None:
        brokers = seen.observation.brokers
        alive = frozenset(broker for broker in brokers if seen.observation.alive(broker))
        if self._alive is not None and alive != self._alive and self.run.tracks_in_flight:
            self._disturbed.append(seen.t)
        self._alive = alive
        if self._ended_t is None and self.run.tracks_in_flight:
            self._last_t = seen.t


def replay(stored: StoredRun, prior: Prior | None = None) -> ReplayedRun:
    """Replay a recorded run through the code of the live view.

    Args:
        stored: the recording.
        prior: the rates of earlier runs of its cluster; None without any.
    """
    replayed, watch = EtaReplay(lambda _cluster_id: prior, EVERY_MS), Watch()
    settling, found = Settling(), list[tuple[Settled, float | None]]()
    for settled in settling.settle(replayed.replay(watch.watch(stored.events()))):
        by_throttle, run_id = None, settled.forecast.run_id
        if settled.forecast.scope == RUN and run_id is not None:
            by_throttle = left_by_throttle_s(replayed.run(run_id), replayed.progress.timelines)
        found.append((settled, by_throttle))
    found += [(settled, None) for settled in settling.unsettled(replayed.state.growths)]
    return ReplayedRun(stored, watch.outcome, list(_moments(stored, watch.outcome, found)))


def _moments(
    stored: StoredRun, outcome: RunOutcome, found: list[tuple[Settled, float | None]]
) -> Iterator[Moment]:
    smoothed: dict[tuple[str | None, int | None], SmoothedRate] = {}
    for settled, by_throttle in sorted(found, key=lambda each: each[0].forecast.t):
        forecast = settled.forecast
        of = smoothed.setdefault((forecast.topic, forecast.partition), SmoothedRate())
        by_smoothed = of.left_s(forecast.t / 1000, forecast.share)
        if forecast.share is None:
            continue
        naive = {
            LINEAR: forecast.linear_s,
            RECENT: forecast.recent_s,
            SMOOTHED: by_smoothed,
            BY_THROTTLE: by_throttle,
        }
        went_s = _as_it_went_s(settled, outcome)
        cut_t = next((t for t in outcome.disturbed_t if t > forecast.t), None)
        if went_s is None:
            cut_t = outcome.last_t if cut_t is None else cut_t
        elif cut_t is not None and cut_t >= forecast.t + 1000 * went_s:
            cut_t = None
        yield Moment(
            cluster=stored.cluster,
            run=f"{stored.cluster}/{stored.number}-{stored.name}",
            scope=forecast.scope,
            share=forecast.share,
            left=forecast.predicted,
            naive=naive,
            truth_s=went_s if cut_t is None else None,
            at_least_s=None if cut_t is None else max(0.0, (cut_t - forecast.t) / 1000),
            as_it_went_s=went_s,
        )


def _as_it_went_s(settled: Settled, outcome: RunOutcome) -> float | None:
    if settled.forecast.scope != RUN:
        return settled.truth_s
    if outcome.ended_t is None:
        return None
    return max(0.0, (outcome.ended_t - settled.forecast.t) / 1000)
