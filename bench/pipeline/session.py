"""One recorded session: a run of ktui, or moves by others, or a view beside a run."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import msgspec

from bench.pipeline.moves import BROKERS, Move
from bench.pipeline.run_events import RunJournal
from ktui.cluster.broker import Broker, BrokerConfig
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import Replica, TopicPartition
from ktui.execution.run.events import AnyRunEvent, encode
from ktui.recording.recorder import SegmentLimits, SessionWriter
from ktui.recording.segments import SCHEMA_VERSION, Head, LostPollLine, RunLine, to_ms, wall_ms
from ktui.simulated.clock import VirtualClock

TOPICS, PARTITIONS = 40, 50
"""The topics of a cluster, and the partitions of each."""
SAMPLES_A_MOVE = 75
"""About as many samples show a move, so that a run of so many moves fits its session."""
SIZES_EVERY_S = 5
GAP_S = 90
"""Nothing is polled for so long, in some sessions."""
LOST = 0.002
"""The share of polls that fail as a whole."""
LIMITS = SegmentLimits(8 * 1024 * 1024, 900_000, 300_000)
"""The recorder's own."""


class SessionSpec(msgspec.Struct, frozen=True):
    """What one session records."""

    cluster: str
    story: str
    """Decides what happens; a view beside a run sees the story of that run."""
    session: str
    """32 hex digits."""
    began: datetime
    samples: int
    in_flight: int
    """How many moves are under way at a time."""
    by_run: bool
    """Whether a run of ktui begins the story; if not, and after it, others move partitions."""
    is_view: bool = False
    """Whether it polls every three seconds, without the events of the run."""


def record(folder: Path, spec: SessionSpec) -> int:
    """Record a session, with exactly as many samples as its spec says; return its polls."""
    dice = Random(f"clock of {spec.session}")  # noqa: S311 - figures for a measurement
    ahead_s = float(dice.randrange(10**6))
    clock = VirtualClock(spec.began - timedelta(seconds=ahead_s))
    clock.pass_time(ahead_s)
    writer = SessionWriter(folder, _head(spec, clock), clock, lambda line: line, LIMITS)
    story = Story(spec, clock)
    gap = dice.choice((range(0), range(0), _gap(spec)))
    every_s = 3 if spec.is_view else 1
    left, polls, entries = spec.samples, 0, itertools.count(1)
    events = story.begin()
    for second in itertools.count():
        for event in events:
            if not spec.is_view:
                writer.write(run_line(event, spec, next(entries), clock))
        if second % every_s == 0 and second not in gap:
            if dice.random() < LOST:
                writer.write(_lost(clock))
            else:
                seen = story.poll(left)
                writer.poll(seen)
                left, polls = left - len(seen.partitions), polls + 1
        if left == 0:
            break
        clock.pass_time(1)
        events = story.pass_second()
    writer.close()
    return polls


def _head(spec: SessionSpec, clock: VirtualClock) -> Head:
    return Head(
        seq=0,
        at=wall_ms(clock.now()),
        ms=to_ms(clock.monotonic()),
        schema_version=SCHEMA_VERSION,
        session=spec.session,
        segment=0,
        cluster_id=spec.cluster,
        cluster="bench",
        program="bench",
    )


def _gap(spec: SessionSpec) -> range:
    middle_s = spec.samples // spec.in_flight // 2
    return range(middle_s, middle_s + GAP_S)


def run_line(event: AnyRunEvent, spec: SessionSpec, entry: int, clock: VirtualClock) -> RunLine:
    """Return an event of the session's run as a line, without its number in the session."""
    return RunLine(
        seq=0,
        at=wall_ms(clock.now()),
        ms=to_ms(clock.monotonic()),
        run="drain",
        run_id=f"drain@{spec.began.isoformat()}",
        entry=entry,
        event=msgspec.Raw(encode(event)),
    )


def _lost(clock: VirtualClock) -> LostPollLine:
    reason = "listing reassignments (broker-1.example:9092): no answer"
    return LostPollLine(seq=0, at=wall_ms(clock.now()), ms=to_ms(clock.monotonic()), reason=reason)


class Story:
    """What happens in a cluster, second by second, and what a poll sees of it."""

    def __init__(self, spec: SessionSpec, clock: VirtualClock) -> None:
        self._spec, self._clock = spec, clock
        self._dice = Random(spec.story)  # noqa: S311 - figures for a measurement
        self._names = _names(self._dice)
        self._moves: dict[TopicPartition, Move] = {}
        self._ends: dict[Replica, Reading] = {}
        self._starts: dict[TopicPartition, Reading] = {}
        self._sizes: dict[Replica, Reading] = {}
        planned = max(1, spec.samples * 4 // 5 // SAMPLES_A_MOVE) if spec.by_run else 0
        if planned > TOPICS * PARTITIONS:
            raise ValueError(f"{spec.samples:,} samples: a run moves a partition only once")
        self._queue = [self._next_move(by_run=True) for _ in range(planned)]
        self._run = RunJournal(spec.cluster, tuple(self._queue), spec.in_flight)
        self._second = 0

    @property
    def is_run_over(self) -> bool:
        """Whether its run has ended."""
        return self._run.is_over

    def begin(self) -> Iterator[AnyRunEvent]:
        """Yield the events of the beginning."""
        if self._queue:
            yield from self._run.begin()
        yield from self._begin_moves()

    def pass_second(self) -> Iterator[AnyRunEvent]:
        """Go on by one second, and yield the run's events of it."""
        self._second += 1
        for move in self._moves.values():
            move.pass_second()
        for tp in [tp for tp, move in self._moves.items() if move.is_gone]:
            del self._moves[tp]
        if not self._run.is_over:
            yield from self._run.pass_second(tuple(self._moves.values()))
        yield from self._begin_moves()

    def _begin_moves(self) -> Iterator[AnyRunEvent]:
        """Begin moves: the run's one by one as places get free, those of others in waves."""
        under_way = sum(move.second < move.times.done_s for move in self._moves.values())
        room = self._spec.in_flight - under_way
        if not self._run.is_over:
            begun, self._queue = self._queue[:room], self._queue[room:]
            if begun:
                yield from self._run.begin_steps(begun)
        else:
            wave = range(0 if self._moves else self._spec.in_flight)
            begun = [self._next_move(by_run=False) for _ in wave]
        self._moves |= {move.tp: move for move in begun}

    def _next_move(self, *, by_run: bool) -> Move:
        tp = next(self._names)
        return Move(tp, _topic_id(self._spec.cluster, tp), self._dice, by_run=by_run)

    def poll(self, most: int) -> Observation:
        """Return what a poll sees of at most so many partitions."""
        now_s = self._clock.monotonic()
        read_s = {broker: now_s - self._dice.random() * 0.05 for broker in BROKERS}
        moves = dict(itertools.islice(self._moves.items(), most))
        self._read(moves.values(), read_s)
        down = {move.new for move in moves.values() if move.is_down}
        return Observation(
            cluster_id=self._spec.cluster,
            controller=1,
            brokers=_BROKERS | {broker: _DOWN[broker] for broker in down},
            partitions={tp: move.state for tp, move in moves.items()},
            ends=dict(self._ends),
            starts=dict(self._starts),
            sizes=dict(self._sizes),
            broker_configs=_configs(self._run.rate),
            at=self._clock.now(),
            monotonic_s=now_s,
            took_s=self._dice.random() * 0.1,
        )

    def _read(self, moves: Iterable[Move], read_s: Mapping[int, float]) -> None:
        """Read log ends at each poll, and sizes every few seconds; forget those of ended moves."""
        ends, starts, before = {}, {}, self._sizes
        sizes: dict[Replica, Reading] = {}
        for move in moves:
            if not move.is_read:
                continue
            led, new = Replica(move.tp, move.leader), Replica(move.tp, move.new)
            ends[led] = Reading(move.leader_end, read_s[move.leader])
            ends[new] = Reading(move.new_end, read_s[move.new])
            starts[move.tp] = self._starts.get(move.tp) or Reading(
                move.log_start, read_s[move.leader]
            )
            if self._second % SIZES_EVERY_S == 0 or led not in before:
                sizes[led] = Reading(move.size, read_s[move.leader])
                sizes[new] = Reading(move.new_size, read_s[move.new])
            else:
                sizes[led], sizes[new] = before[led], before[new]
        self._ends, self._starts, self._sizes = ends, starts, sizes


_BROKERS = {id_: Broker(id_, f"broker-{id_}.example", 9092) for id_ in BROKERS}
_DOWN = {id_: msgspec.structs.replace(broker, alive=False) for id_, broker in _BROKERS.items()}
_NO_CONFIGS = dict.fromkeys(BROKERS, BrokerConfig())


def _configs(rate: int | None) -> Mapping[int, BrokerConfig]:
    if rate is None:
        return _NO_CONFIGS
    throttled = BrokerConfig(leader_throttle_rate=rate, follower_throttle_rate=rate)
    return dict.fromkeys(BROKERS, throttled)


def _names(dice: Random) -> Iterator[TopicPartition]:
    """Yield the cluster's partitions in random order, again and again."""
    names = [
        TopicPartition(f"orders-{topic:03}", partition)
        for topic in range(TOPICS)
        for partition in range(PARTITIONS)
    ]
    while True:
        yield from dice.sample(names, len(names))


def _topic_id(cluster: str, tp: TopicPartition) -> str | None:
    """Return the id of a topic; clusters named `old...` are too old to report any."""
    if cluster.startswith("old"):
        return None
    digest = hashlib.sha256(f"{cluster} {tp.topic}".encode()).digest()
    return base64.urlsafe_b64encode(digest[:16]).decode()[:22]
