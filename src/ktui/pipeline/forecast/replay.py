"""The time left as the live view would have shown it, at each poll of one recorded session."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import reduce
from typing import Any, get_args, get_origin

import msgspec

from ktui import __version__
from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.execution.forecast.estimate import Estimate, EstimateMemory
from ktui.execution.run.events import JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.execution.run.unanswered import with_requested_replicas
from ktui.insights import Prior
from ktui.progress.fold import ENDED_FOR_S, fold
from ktui.progress.timeline import Progress, Role, Timeline
from ktui.recording.codec import BrokenSequence, Decoder
from ktui.recording.reading import GoodLine, read_lines
from ktui.recording.segments import AnyLine, End, PollLine, RunLine, from_wall_ms
from ktui.speed.answer import Span

EVERY_MS = 5_000  # one forecast of each run and partition in this time is enough
RECENT_MS = 10_000  # the naive forecast `recent_s` uses the rate of the last ten seconds

RUN, PARTITION = "run", "partition"

PriorOf = Callable[[str], Prior | None]


class Forecast(msgspec.Struct, frozen=True):
    """The live view's forecast at one moment, and two naive ones. Times left are in seconds."""

    run_id: str | None  # None for a partition that no run was moving
    scope: str
    topic: str | None
    partition: int | None
    since: int | None  # the `seq` of the first forecast for the same copy; None for a run
    seq: int  # the poll's line number in its session
    t: int
    share: float | None
    predicted: Span | None
    linear_s: float | None
    recent_s: float | None


class DecodedPoll(msgspec.Struct, frozen=True):
    """A decoded poll of a session; `t` is normalised, in ms."""

    seq: int
    t: int
    observation: Observation


class CaughtUp(msgspec.Struct, frozen=True):
    """The end of a copy: the truth about the forecasts for it."""

    topic: str
    partition: int
    since: int
    ended_t: int  # when its replicas were first seen in sync: normalised, in ms


class Growth(msgspec.Struct):
    """The growth of the share done, from which the naive forecasts are computed."""

    began_ms: int
    adding: tuple[int, ...] = ()
    forecast_ms: int | None = None
    since: int | None = None  # the `seq` of the first forecast for the present copy
    points: list[tuple[int, float]] = []

    def grow(self, t: int, share: float | None) -> None:
        if share is None:
            return
        self.points.append((t, share))
        while len(self.points) > 1 and self.points[1][0] <= t - RECENT_MS:
            del self.points[0]

    def due(self, t: int, every_ms: int) -> bool:
        """Whether the next forecast is due; if so, it counts as made."""
        if self.forecast_ms is not None and t // every_ms == self.forecast_ms // every_ms:
            return False
        self.forecast_ms = t
        return True

    def forecast(
        self,
        seen: DecodedPoll,
        share: float | None,
        predicted: Span | None,
        run_id: str | None,
        tp: TopicPartition | None = None,
    ) -> Forecast:
        return Forecast(
            run_id=run_id,
            scope=RUN if tp is None else PARTITION,
            topic=None if tp is None else tp.topic,
            partition=None if tp is None else tp.partition,
            since=self.since,
            seq=seen.seq,
            t=seen.t,
            share=share,
            predicted=predicted,
            linear_s=self._linear_s(seen.t, share),
            recent_s=self._recent_s(seen.t, share),
        )

    def _linear_s(self, t: int, share: float | None) -> float | None:
        if not share:
            return None
        return (t - self.began_ms) / 1000 * (1 - share) / share

    def _recent_s(self, t: int, share: float | None) -> float | None:
        if share is None or not self.points or self.points[0][0] > t - RECENT_MS:
            return None
        since, before = self.points[0]
        if share <= before:
            return None
        return (1 - share) * (t - since) / 1000 / (share - before)


class RunReplay(msgspec.Struct):
    """A run of the session: the fold of its events, and what the view's estimate has learned."""

    run: Run
    estimate: EstimateMemory = msgspec.field(default_factory=EstimateMemory)
    growth: Growth | None = None
    unreadable: bool = False


class ReplayState(msgspec.Struct):
    """What another replay needs: runs in flight, and those ended in the last ten minutes."""

    progress: Progress = Progress()
    runs: dict[str, RunReplay] = {}
    growths: dict[TopicPartition, Growth] = {}


class EtaReplay:
    """Folds a session as the live view would, by wall times; forecasts have normalised times."""

    def __init__(
        self,
        prior_of: PriorOf = lambda _cluster_id: None,
        every_ms: int = EVERY_MS,
        state: ReplayState | None = None,
    ) -> None:
        self._prior_of = prior_of
        self._every_ms = every_ms
        self.state = ReplayState() if state is None else state
        self._estimates = {
            run_id: Estimate(each.run, prior_of, each.estimate)
            for run_id, each in self.state.runs.items()
        }

    @property
    def progress(self) -> Progress:
        return self.state.progress

    def run(self, run_id: str) -> Run:
        """Return a run as of the last event; KeyError if it has had none, or has been forgotten."""
        return self.state.runs[run_id].run

    def replay(self, events: Iterable[DecodedPoll | RunLine]) -> Iterator[Forecast | CaughtUp]:
        for each in events:
            if isinstance(each, RunLine):
                self._replay_line(each)
            else:
                yield from self._replay_poll(each)

    def _replay_line(self, line: RunLine) -> None:
        if line.run_id not in self._estimates:
            new = self.state.runs[line.run_id] = RunReplay(Run(line.run))
            self._estimates[line.run_id] = Estimate(new.run, self._prior_of, new.estimate)
        state = self.state.runs[line.run_id]
        if state.unreadable or line.entry <= state.run.seq:
            return
        try:
            entry = JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event)))
            state.run.apply(entry)
        except (msgspec.MsgspecError, LookupError):
            state.unreadable = True  # an event of a newer ktui, or of a damaged journal
            return
        self._estimates[line.run_id].take([entry])

    def _replay_poll(self, seen: DecodedPoll) -> Iterator[Forecast | CaughtUp]:
        before = self.progress.last
        self._forget_runs(seen.observation.at)
        runs = (each.run for each in self.state.runs.values())
        self.state.progress = fold(
            reduce(with_requested_replicas, runs, self.progress), seen.observation
        )
        for run_id, each in self.state.runs.items():
            if each.run.started is not None and not (each.run.ended or each.unreadable):
                yield from self._forecast_run(run_id, each, seen)
        yield from self._settle(seen, before)
        yield from self._forecast_partitions(seen)

    def _forget_runs(self, now: datetime) -> None:
        """Forget runs that ended as long ago as the fold keeps moves."""
        for run_id, each in list(self.state.runs.items()):
            at = each.run.at
            if each.run.ended and at is not None and (now - at).total_seconds() > ENDED_FOR_S:
                del self._estimates[run_id], self.state.runs[run_id]

    def _settle(self, seen: DecodedPoll, before: Observation | None) -> Iterator[CaughtUp]:
        for tp, growth in list(self.state.growths.items()):
            state = seen.observation.partitions.get(tp)
            last = None if before is None else before.partitions.get(tp)
            if state is not None and set(growth.adding) <= set(state.isr):
                if growth.since is not None:
                    yield CaughtUp(tp.topic, tp.partition, growth.since, seen.t)
                growth.since = None
            if state is None or last is None or state.adding != last.adding:
                del self.state.growths[tp]

    def _forecast_partitions(self, seen: DecodedPoll) -> Iterator[Forecast]:
        run_of = {
            tp: run_id
            for run_id, each in self.state.runs.items()
            for tp in each.run.tracks_in_flight
        }
        for tp, state in seen.observation.partitions.items():
            if not state.described or not set(state.adding) - set(state.isr):
                continue
            timeline = self.progress.timelines[tp]
            growth = self.state.growths.setdefault(tp, Growth(seen.t, state.adding))
            share = _share(timeline)
            growth.grow(seen.t, share)
            if growth.due(seen.t, self._every_ms):
                growth.since = seen.seq if growth.since is None else growth.since
                yield growth.forecast(seen, share, timeline.left_s, run_of.get(tp), tp)

    def _forecast_run(self, run_id: str, state: RunReplay, seen: DecodedPoll) -> Iterator[Forecast]:
        run, now, estimate = state.run, seen.observation.at, self._estimates[run_id]
        estimate.update(now, self.progress.timelines)
        growth = state.growth
        if growth is None:
            passed = (now - run.started_at).total_seconds() if run.started_at else 0.0
            growth = state.growth = Growth(seen.t - round(passed * 1000))
        so_far = estimate.copied_so_far
        share = so_far.share if so_far.whole else run.over / max(1, len(run.tracks))
        growth.grow(seen.t, share)
        if growth.due(seen.t, self._every_ms):
            yield growth.forecast(seen, share, estimate.copied.left_s, run_id)


def _share(timeline: Timeline) -> float | None:
    """Return the share of the slowest replica being added; None unless all shares are known."""
    adding = [lane for lane in timeline.lanes.values() if lane.role is Role.ADDING]
    shares = [lane.share for lane in adding if lane.share is not None]
    return min(shares) if shares and len(shares) == len(adding) else None


class ReadTo(msgspec.Struct, frozen=True):
    """How far a session was read, and the line from which its normalised time counts."""

    seq: int
    at: int  # the wall time of the session's first line, ms since 1970 in UTC
    ms: int  # the recorder's monotonic clock then
    t: int
    ended: bool


class SessionStream:
    """Reads a session on from `place`, or from its beginning, each line once."""

    def __init__(self, cluster_id: str, place: ReadTo | None = None) -> None:
        self._cluster_id = cluster_id
        self.place = place

    def events(self, contents: Iterable[bytes]) -> Iterator[DecodedPoll | RunLine]:
        """Yield polls and events of runs from some segments, in order, without lines up to `place`.

        A poll that does not fit the polls before it in its segment is left out, with all up to the
        next whole one.
        """
        streams = [_decoded(content, self._cluster_id) for content in contents]
        place = self.place
        for line, seen in heapq.merge(*streams, key=lambda decoded: decoded[0].seq):
            if place is not None and line.seq <= place.seq:
                continue
            at, ms = (line.at, line.ms) if place is None else (place.at, place.ms)
            t = at + line.ms - ms
            self.place = place = ReadTo(line.seq, at, ms, t, isinstance(line, End))
            if isinstance(line, RunLine):
                yield line
            elif seen is not None:
                yield DecodedPoll(line.seq, t, seen)


def _decoded(content: bytes, cluster_id: str) -> Iterator[tuple[AnyLine, Observation | None]]:
    decoder, last, follows = Decoder(cluster_id), -1, True
    for read in read_lines(content):
        if not isinstance(read, GoodLine) or read.line.seq <= last:
            continue
        line, seen = read.line, None
        follows = follows and (last < 0 or line.seq == last + 1)
        last = line.seq
        if isinstance(line, PollLine) and (follows or line.whole):
            try:
                seen, follows = decoder.observation(line), True
            except BrokenSequence:
                follows = False
        yield line, seen


FORMAT = f"4 of ktui {__version__}"
"""Names the types of a state and what is done with them. A state of another format is not read."""


class SavedState(msgspec.Struct):
    """A session after its last line that was replayed."""

    place: ReadTo | None = None
    """None before the first line."""
    replay: ReplayState | None = msgspec.field(default_factory=ReplayState)
    """None once a poll could not be folded: the session has no forecasts after that."""


def encode_state(state: SavedState) -> bytes:
    """Encode a replay's state, without the events that only screens show."""
    replay = state.replay
    if replay is not None:
        replace, progress = msgspec.structs.replace, replay.progress
        kept: Mapping[TopicPartition, Timeline] = {
            tp: replace(timeline, events=()) for tp, timeline in progress.timelines.items()
        }
        replay = replace(replay, progress=replace(progress, timelines=kept, events=()))
    return _ENCODER.encode(SavedState(state.place, replay))


def decode_state(content: bytes) -> SavedState:
    """Decode a state; raise MsgspecError for content of another format."""
    return _DECODER.decode(content)


def _as_list(value: object) -> list[Any]:
    if isinstance(value, deque):
        return list(value)
    raise NotImplementedError(type(value))


def _rebuilt(kind: type, value: Any) -> object:
    origin, inside = get_origin(kind), get_args(kind)
    if origin is deque:
        return deque(msgspec.convert(value, list[inside[0]]))  # type: ignore[valid-type]  # known when run
    if origin is Counter:
        return Counter(msgspec.convert(value, dict[inside[0], int]))  # type: ignore[valid-type]  # as above
    raise NotImplementedError(kind)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_as_list)
_DECODER = msgspec.msgpack.Decoder(SavedState, dec_hook=_rebuilt)
