"""The time left as the live view would have shown it, at each poll of one recorded session."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.estimate import Estimate
from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.requested_replicas import with_requested_replicas
from ktui.execution.run.run import Run
from ktui.insights.prior import Prior
from ktui.progress.fold import fold
from ktui.progress.timeline import Progress, Range, Role, Timeline
from ktui.recording.lines import RunLine
from ktui.recording.milliseconds import from_wall_ms

EVERY_MS = 5_000
"""One forecast of each run and partition in so many milliseconds is enough."""
RECENT_MS = 10_000
"""The naive forecast `recent_s` uses the rate of the last ten seconds."""

RUN, PARTITION = "run", "partition"

PriorOf = Callable[[str], Prior | None]
"""Returns the rates of earlier runs by cluster id."""


class Forecast(msgspec.Struct):
    """The live view's forecast at one moment, and two naive ones. Times left are in seconds."""

    run_id: str | None
    """None for a partition that no run was moving."""
    scope: str
    topic: str | None
    partition: int | None
    seq: int
    """The poll's line number in its session."""
    t: int
    """The poll's normalised time, in ms."""
    share: float | None
    """The share done, 0 to 1."""
    predicted: Range | None
    """The live view's forecast; None where the view showed none."""
    linear_s: float | None
    recent_s: float | None
    truth_s: float | None = None
    """Known for partitions only; for a run it is known once all of its sessions are."""


class DecodedPoll(msgspec.Struct, frozen=True):
    """A decoded poll of a session; `t` is normalised, in ms."""

    seq: int
    t: int
    observation: Observation


class _Track:
    """The growth of the share done, from which the naive forecasts are computed."""

    def __init__(self, began_ms: int, adding: tuple[int, ...] = ()) -> None:
        self.began_ms = began_ms
        self.adding = adding
        self.forecast_ms: int | None = None
        """The time of the last forecast."""
        self._points: deque[tuple[int, float]] = deque()

    def grow(self, t: int, share: float | None) -> None:
        if share is None:
            return
        self._points.append((t, share))
        while len(self._points) > 1 and self._points[1][0] <= t - RECENT_MS:
            self._points.popleft()

    def due(self, t: int, every_ms: int) -> bool:
        if self.forecast_ms is not None and t // every_ms == self.forecast_ms // every_ms:
            return False
        self.forecast_ms = t
        return True

    def linear_s(self, t: int, share: float | None) -> float | None:
        if not share:
            return None
        return (t - self.began_ms) / 1000 * (1 - share) / share

    def recent_s(self, t: int, share: float | None) -> float | None:
        if share is None or not self._points or self._points[0][0] > t - RECENT_MS:
            return None
        since, before = self._points[0]
        if share <= before:
            return None
        return (1 - share) * (t - since) / 1000 / (share - before)


class _Followed:
    """A run of the session: the fold of its events, and the view's estimate."""

    def __init__(self, name: str, prior_of: PriorOf) -> None:
        self.run = Run(name)
        self.estimate = Estimate(self.run, prior_of)
        self.track: _Track | None = None
        self.unreadable = False

    def take(self, line: RunLine) -> None:
        if self.unreadable or line.entry <= self.run.seq:
            return
        try:
            entry = JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event)))
            self.run.apply(entry)
        except (msgspec.MsgspecError, LookupError):
            self.unreadable = True  # an event of a newer ktui, or of a damaged journal
            return
        self.estimate.take([entry])

    @property
    def under_way(self) -> bool:
        return self.run.started is not None and not (self.run.ended or self.unreadable)


class EtaReplay:
    """Folds a session as the live view would; `forecasts` yields what the view would have shown.

    The fold gets wall times, as the view did; forecasts have normalised times.

    Args:
        prior_of: returns the rates of earlier runs by cluster id; by default there are none.
        every_ms: one forecast of each run and partition in so many milliseconds.
    """

    def __init__(
        self, prior_of: PriorOf = lambda _cluster_id: None, every_ms: int = EVERY_MS
    ) -> None:
        self.progress = Progress()
        """The fold as of the last poll."""
        self._prior_of = prior_of
        self._every_ms = every_ms
        self._runs: dict[str, _Followed] = {}
        self._tracks: dict[TopicPartition, _Track] = {}
        self._open: dict[TopicPartition, list[Forecast]] = {}
        """The forecasts for moves whose end is not known yet."""

    def run(self, run_id: str) -> Run:
        """Return a run as of the last event.

        Raises:
            KeyError: the session has had no event of it so far.
        """
        return self._runs[run_id].run

    @property
    def unsettled(self) -> Iterator[Forecast]:
        """The forecasts for partitions that had not caught up at the end, and still might."""
        for forecasts in self._open.values():
            yield from forecasts

    def forecasts(self, events: Iterable[DecodedPoll | RunLine]) -> Iterator[Forecast]:
        """Yield the forecasts; those for partitions only where the partition caught up.

        Args:
            events: polls and events of runs, in the session's order.
        """
        for each in events:
            if isinstance(each, RunLine):
                self._followed(each).take(each)
            else:
                yield from self._replay_poll(each)

    def _followed(self, line: RunLine) -> _Followed:
        if line.run_id not in self._runs:
            self._runs[line.run_id] = _Followed(line.run, self._prior_of)
        return self._runs[line.run_id]

    def _replay_poll(self, seen: DecodedPoll) -> Iterator[Forecast]:
        before = self.progress.last
        runs = (each.run for each in self._runs.values())
        self.progress = fold(reduce(with_requested_replicas, runs, self.progress), seen.observation)
        timelines = self.progress.timelines
        for run_id, followed in self._runs.items():
            if followed.under_way:
                yield from self._of_run(run_id, followed, seen, timelines)
        yield from self._settle(seen, before)
        self._forecast_partitions(seen)

    def _settle(self, seen: DecodedPoll, before: Observation | None) -> Iterator[Forecast]:
        """Yield the forecasts for partitions that have caught up, and drop those for the others."""
        for tp in list(self._tracks):
            state = seen.observation.partitions.get(tp)
            last = None if before is None else before.partitions.get(tp)
            if state is not None and set(self._tracks[tp].adding) <= set(state.isr):
                yield from self._ended(tp, seen.t)
            if state is None or last is None or state.adding != last.adding:
                self._open.pop(tp, None)
                del self._tracks[tp]

    def _ended(self, tp: TopicPartition, t: int) -> Iterator[Forecast]:
        for forecast in self._open.pop(tp, ()):
            forecast.truth_s = (t - forecast.t) / 1000
            yield forecast

    def _forecast_partitions(self, seen: DecodedPoll) -> None:
        run_of = {
            tp: run_id for run_id, each in self._runs.items() for tp in each.run.tracks_in_flight
        }
        for tp, state in seen.observation.partitions.items():
            if not state.described or not set(state.adding) - set(state.isr):
                continue
            timeline = self.progress.timelines[tp]
            track = self._tracks.setdefault(tp, _Track(seen.t, state.adding))
            share = _share(timeline)
            track.grow(seen.t, share)
            if track.due(seen.t, self._every_ms):
                self._open.setdefault(tp, []).append(
                    Forecast(
                        run_id=run_of.get(tp),
                        scope=PARTITION,
                        topic=tp.topic,
                        partition=tp.partition,
                        seq=seen.seq,
                        t=seen.t,
                        share=share,
                        predicted=timeline.left_s,
                        linear_s=track.linear_s(seen.t, share),
                        recent_s=track.recent_s(seen.t, share),
                    )
                )

    def _of_run(
        self,
        run_id: str,
        followed: _Followed,
        seen: DecodedPoll,
        timelines: Mapping[TopicPartition, Timeline],
    ) -> Iterator[Forecast]:
        run, now = followed.run, seen.observation.at
        followed.estimate.update(now, timelines)
        if followed.track is None:
            passed = (now - run.started_at).total_seconds() if run.started_at else 0.0
            followed.track = _Track(seen.t - round(passed * 1000))
        copied, track = followed.estimate.copied, followed.track
        share = copied.share if copied.whole else run.over / max(1, len(run.tracks))
        track.grow(seen.t, share)
        if track.due(seen.t, self._every_ms):
            yield Forecast(
                run_id=run_id,
                scope=RUN,
                topic=None,
                partition=None,
                seq=seen.seq,
                t=seen.t,
                share=share,
                predicted=copied.left_s,
                linear_s=track.linear_s(seen.t, share),
                recent_s=track.recent_s(seen.t, share),
            )


def _share(timeline: Timeline) -> float | None:
    """Return the share of the slowest replica being added; None unless all shares are known."""
    adding = [lane for lane in timeline.lanes.values() if lane.role is Role.ADDING]
    shares = [lane.share for lane in adding if lane.share is not None]
    return min(shares) if shares and len(shares) == len(adding) else None
