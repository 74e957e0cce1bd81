"""A recording as a tape: its clock, its moments, and what was recorded with them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import dropwhile
from typing import NamedTuple, TypeVar

import msgspec

from ktui.cluster.clock import SLOWEST, SPEEDS, PausableClock
from ktui.cluster.errors import ClusterError
from ktui.cluster.observation import Observation, Reading
from ktui.cluster.observer import Interest, ObservationSource, SourceWrapper
from ktui.quantities import Seconds, parse_clock, parse_moment, parse_quantity
from ktui.recording.reading import (
    Damage,
    GoodLine,
    PlayedItem,
    PlayedPoll,
    Session,
    play_session,
    read_lines,
)
from ktui.recording.recorder import Recorder
from ktui.recording.segments import (
    AnyLine,
    End,
    Head,
    LostPollLine,
    RunLine,
    from_wall_ms,
    to_ms,
    to_s,
)

__all__ = ["FASTEST", "SLOWEST", "ReplayClock"]

FASTEST = SPEEDS[-1]


class ReplayClock(PausableClock):
    """A clock that stands at the beginning of a recording until `run`, and stops at its end."""

    def move_to(self, at_s: float) -> None:
        self._set_anchor(min(max(at_s, self._from_s), self._until_s))
        self._jumps += 1
        self._wake()

    def hold_at(self, at_s: float) -> None:
        """Set the clock back to the second that the player has reached; sleepers stay asleep."""
        self._set_anchor(at_s)

    def set_wall(self, at: datetime, at_s: float) -> None:
        """Set the wall time of a monotonic second, for the recorded clock may have been set."""
        self._wall = (at, at_s)


EXAMPLES = "14:02:31, 2026-11-21 14:02, or +1h30m from the beginning"


def parse_second(text: str, tape: Tape) -> float:
    """Return the second of a tape that a text means: local times, the first after the beginning."""
    text = text.strip()
    if text.startswith("+"):
        at_s = tape.from_s + _duration(text[1:])
    else:
        at = _time_of_day(text, tape.wall(tape.from_s)) or parse_moment(text)
        if at is None:
            raise ValueError(f"{text!r} is not a moment. Use {EXAMPLES}")
        at_s = tape.second(at)
    if not tape.from_s <= at_s <= tape.until_s:
        raise ValueError(f"{text} is not in the recording, which runs {describe_range(tape)}")
    return at_s


def describe_range(tape: Tape) -> str:
    """Return the first and the last moment of a recording as text, in local time."""
    first, last = tape.wall(tape.from_s).astimezone(), tape.wall(tape.until_s).astimezone()
    day = "" if last.date() == first.date() else f"{last:%Y-%m-%d} "
    return f"from {first:%Y-%m-%d %H:%M:%S} to {day}{last:%H:%M:%S}"


def _duration(text: str) -> float:
    try:
        return float(parse_quantity(Seconds, text.strip()))
    except ValueError as error:
        raise ValueError(f"+{text} is not a moment: {error}") from None


def _time_of_day(text: str, beginning: datetime) -> datetime | None:
    """Return the first moment, not before the beginning, at which local clocks show this time."""
    clock = parse_clock(text)
    if clock is None:
        return None
    hour, minute, second = clock
    # without an offset: the offset may change meanwhile
    local = beginning.astimezone().replace(tzinfo=None)
    typed = local.replace(hour=hour, minute=minute, second=second, microsecond=0)
    whole = local.replace(microsecond=0)
    found = (typed if typed >= whole else typed + timedelta(days=1)).astimezone()
    return max(found, beginning) if typed == whole else found


class RecordingSource(SourceWrapper):
    """Polls through another source, and records each observation and each failed poll."""

    def __init__(self, source: ObservationSource, recorder: Recorder) -> None:
        super().__init__(source)
        self.recorder = recorder

    async def poll(self, interest: Interest) -> Observation:
        try:
            observation = await super().poll(interest)
        except ClusterError as error:
            self.recorder.lost(str(error))
            raise
        await self._record(observation)
        return observation

    async def _record(self, observation: Observation) -> None:
        self.recorder.poll(observation)


SAME_CLOCK_MS = 5_000  # one monotonic clock, if wall time was set by no more than this

K = TypeVar("K")


class TapePosition(NamedTuple):
    """A line of a tape: its session's number on the tape, and its `seq` in that session."""

    session: int
    seq: int


class Axis(NamedTuple):
    """The origin of an axis of time: a wall time and its monotonic time, in milliseconds."""

    at: int
    ms: int


class TapeItem(msgspec.Struct, frozen=True):
    """The content of a tape at one place."""

    place: TapePosition
    at_s: float
    at: datetime  # wall time; a damage has the wall time of the line before
    what: Observation | LostPollLine | RunLine | End | Damage


class RecordedPeriod(msgspec.Struct, frozen=True):
    """The beginning and the end of a session, in seconds of the tape's axis."""

    from_s: float
    until_s: float


class _Reel(NamedTuple):
    session: Session
    first_seqs: tuple[int, ...]
    shift_ms: int
    stretch: RecordedPeriod


class Tape:
    """Plays sessions in the order of time, on the first one's monotonic clock or `axis`.

    A session with another clock, as after a restart, is shifted so that wall times fit.
    """

    def __init__(self, sessions: Sequence[Session], axis: Axis | None = None) -> None:
        first = sessions[0].head
        axis = axis or Axis(first.at, first.ms)
        self._reels = [_reel(session, axis) for session in sessions]
        self._wall_ms = axis.at - axis.ms
        self.cluster_id = first.cluster_id
        self.cluster = first.cluster
        self.redacted = any(session.head.redacted for session in sessions)

    @property
    def stretches(self) -> list[RecordedPeriod]:
        return [reel.stretch for reel in self._reels]

    @property
    def from_s(self) -> float:
        return self._reels[0].stretch.from_s

    @property
    def first_look_s(self) -> float:
        polls = (each.at_s for each in self.play() if isinstance(each.what, Observation))
        return next(polls, self.from_s)

    @property
    def until_s(self) -> float:
        return max(reel.stretch.until_s for reel in self._reels)

    def wall(self, at_s: float) -> datetime:
        """Convert a second to wall time; wrong where clocks were set on the way."""
        return from_wall_ms(to_ms(at_s) + self._wall_ms)

    def second(self, at: datetime) -> float:
        return self.from_s + (at - self.wall(self.from_s)).total_seconds()

    def play(self, after: TapePosition | None = None) -> Iterator[TapeItem]:
        number = 0 if after is None else after.session
        at_s = self._reels[number].stretch.from_s
        at: datetime | None = None
        for place, shift_ms, happening in self._happenings(number, after):
            line = _line_of(happening)
            if line is not None:
                at_s = max(at_s, to_s(line.ms + shift_ms))
                at = at if isinstance(line, RunLine) else from_wall_ms(line.at)
            wall = at or self.wall(at_s)
            if isinstance(happening, PlayedPoll):
                seen = shift_observation(happening.observation, to_s(shift_ms))
                yield TapeItem(place, at_s, wall, seen)
            else:
                yield TapeItem(place, at_s, wall, happening)

    def last_polls(self, most: int) -> TapePosition | None:
        """Return the place after which all polls together see `most` partitions; None for all."""
        for index, reel in reversed(list(enumerate(self._reels))):
            for number in reversed(range(len(reel.first_seqs))):
                for seq, partitions in reversed(_polls_in(reel, number)):
                    most -= max(1, partitions)
                    if most < 0:
                        return TapePosition(index, seq)
        return None

    def _happenings(
        self, number: int, after: TapePosition | None
    ) -> Iterator[tuple[TapePosition, int, PlayedItem]]:
        for index, reel in enumerate(self._reels[number:], start=number):
            seq = after.seq if after is not None and index == number else -1
            place = TapePosition(index, seq)
            for happening in _after(reel, seq):
                line = _line_of(happening)
                place = place if line is None else TapePosition(index, line.seq)
                yield place, reel.shift_ms, happening


def clock_shift_ms(axis: Axis, head: Head) -> int:
    """Return the milliseconds from a session's clock to an axis; 0 if it is the same clock."""
    shift = (head.at - head.ms) - (axis.at - axis.ms)
    return 0 if abs(shift) <= SAME_CLOCK_MS else shift


def _reel(session: Session, axis: Axis) -> _Reel:
    shift = clock_shift_ms(axis, session.head)
    seqs = tuple(_first_seq(session, n) for n in range(len(session.files)))
    from_ms = session.head.ms
    stretch = RecordedPeriod(to_s(from_ms + shift), to_s(max(from_ms, _last_ms(session)) + shift))
    return _Reel(session, seqs, shift, stretch)


def _first_seq(session: Session, number: int) -> int:
    first = next(iter(read_lines(session.files[number])), None)
    return first.line.seq if isinstance(first, GoodLine) else session.head.seq


def _last_ms(session: Session) -> int:
    for file in reversed(session.files):
        last = max(
            (each.line.ms for each in read_lines(file) if isinstance(each, GoodLine)), default=None
        )
        if last is not None:
            return last
    return session.head.ms


def _after(reel: _Reel, seq: int) -> Iterator[PlayedItem]:
    """Play a session after one of its lines: from the line's file, for each file is whole."""
    if seq < 0:
        return play_session(reel.session)
    number = max(0, bisect_right(reel.first_seqs, seq) - 1)
    rest = play_session(Session(reel.session.head, reel.session.files[number:]))
    rest = dropwhile(lambda each: (line := _line_of(each)) is None or line.seq < seq, rest)
    return dropwhile(lambda each: (line := _line_of(each)) is not None and line.seq <= seq, rest)


def _polls_in(reel: _Reel, number: int) -> list[tuple[int, int]]:
    played = play_session(Session(reel.session.head, reel.session.files[number : number + 1]))
    return [
        (e.line.seq, len(e.observation.partitions)) for e in played if isinstance(e, PlayedPoll)
    ]


def _line_of(happening: PlayedItem) -> AnyLine | None:
    if isinstance(happening, Damage):
        return None
    return happening.line if isinstance(happening, PlayedPoll) else happening


def shift_observation(observation: Observation, by_s: float) -> Observation:
    """Return an observation with all its monotonic seconds later by `by_s`."""
    if not by_s:
        return observation
    census = observation.census
    if census is not None:
        census = msgspec.structs.replace(census, monotonic_s=census.monotonic_s + by_s)
    return msgspec.structs.replace(
        observation,
        monotonic_s=observation.monotonic_s + by_s,
        ends=_later(observation.ends, by_s),
        starts=_later(observation.starts, by_s),
        sizes=_later(observation.sizes, by_s),
        census=census,
    )


def _later(readings: Mapping[K, Reading], by_s: float) -> dict[K, Reading]:
    return {key: Reading(each.value, each.at_s + by_s) for key, each in readings.items()}
