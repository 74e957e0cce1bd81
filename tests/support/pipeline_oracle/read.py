"""Recording files read into rows: each line once, in normalised time, shadowed rows marked."""

from __future__ import annotations

import hashlib
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ktui.cluster.observation import Observation
from ktui.cluster.partition import TopicPartition
from ktui.recording.codec import BrokenSequence, Decoder
from ktui.recording.segments import AnyLine, Head, PollLine, RunLine, decode, to_ms

Brokers = tuple[int, ...]


class Figure(msgspec.Struct, frozen=True, gc=False):
    """A figure of one replica, with the normalised millisecond of its reading."""

    broker: int
    value: int
    read_t: int


class Rates(msgspec.Struct, frozen=True, gc=False):
    """The throttle rates of a broker, in bytes per second."""

    broker: int
    follower: int | None
    leader: int | None


class Partition(msgspec.Struct, frozen=True, order=True, gc=False):
    """One incarnation of a partition."""

    cluster_id: str
    topic: str
    topic_id: str | None
    partition: int


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """A partition as one poll saw it."""

    key: Partition
    session: str
    seq: int
    t: int
    took_ms: int
    replicas: Brokers
    isr: Brokers
    leader: int | None
    leader_epoch: int | None
    adding: Brokers
    removing: Brokers
    offline: Brokers
    elr: Brokers | None
    described: bool
    ends: tuple[Figure, ...]
    log_start: int | None
    log_start_read_t: int | None
    sizes: tuple[Figure, ...]
    rates: tuple[Rates, ...]
    down: Brokers
    shadowed: bool = False

    @property
    def listed(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def missing(self) -> set[int]:
        """The adding replicas that are not in sync."""
        return {*self.adding} - {*self.isr}

    @property
    def order(self) -> tuple[int, str, int]:
        return self.t, self.session, self.seq

    def end(self, broker: int) -> Figure | None:
        return next((each for each in self.ends if each.broker == broker), None)

    def size(self, broker: int) -> int | None:
        return next((each.value for each in self.sizes if each.broker == broker), None)


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """One poll."""

    cluster_id: str
    session: str
    seq: int
    t: int
    took_ms: int
    controller: int | None
    brokers: Brokers
    alive: Brokers
    reassigning: int
    failures: int
    """The number of failures."""
    shadowed: bool = False


class Happened(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a run."""

    cluster_id: str
    run: str
    run_id: str
    entry: int
    at: int
    t: int
    session: str
    seq: int
    event: bytes


class Recorded(msgspec.Struct):
    """All rows that some files contain."""

    samples: list[Sample]
    polls: list[Poll]
    events: list[Happened]
    quarantined: list[tuple[str, int]]
    """File and line number, from 1."""


Span = tuple[int, int]


class _Copy(msgspec.Struct):
    """A line of a session as one file has it."""

    line: AnyLine
    digest: str
    seen: Observation | None
    """The observation of a poll; None if its delta does not continue the lines before it."""

    @property
    def rank(self) -> tuple[bool, str]:
        """The sort key of several copies; the smallest counts."""
        return isinstance(self.line, PollLine) and self.seen is None, self.digest


class _Session(msgspec.Struct):
    cluster_id: str
    copies: dict[int, _Copy] = {}
    """By seq: the copy that counts."""

    @property
    def shift(self) -> int:
        """Add this to a monotonic millisecond to normalise it."""
        anchor = self.copies[min(self.copies)].line
        return anchor.at - anchor.ms

    @property
    def lines(self) -> Iterator[AnyLine]:
        """The lines that count, in their order."""
        return (self.copies[seq].line for seq in sorted(self.copies))

    @property
    def looks(self) -> Iterator[tuple[PollLine, Observation]]:
        for copy in self.copies.values():
            if isinstance(copy.line, PollLine) and copy.seen is not None:
                yield copy.line, copy.seen


def read(folder: Path) -> Recorded:
    """Read all segments under a folder."""
    sessions: dict[str, _Session] = {}
    quarantined: list[tuple[str, int]] = []
    for path in sorted(folder.rglob("*.jsonl.gz")):
        quarantined += ((str(path), number) for number in _take(_unzipped(path), sessions))
    samples: list[Sample] = []
    polls: list[Poll] = []
    for name, session in sessions.items():
        for look, seen in session.looks:
            polls.append(_poll(session, name, look, seen))
            samples += _samples(session, name, look, seen)
    _shadow(sessions, samples, polls)
    return Recorded(samples, polls, list(_events(sessions)), quarantined)


def _unzipped(path: Path) -> bytes:
    """Return the intact beginning of a file that may have been cut short."""
    return zlib.decompressobj(wbits=31).decompress(path.read_bytes())


def _take(content: bytes, sessions: dict[str, _Session]) -> Iterator[int]:
    """Read a segment into the sessions, and yield the numbers of the unusable lines."""
    session: _Session | None = None
    decoder, known = Decoder(""), set[int]()
    lines = content.split(b"\n")
    for number, text in enumerate(lines[:-1] if lines[-1] == b"" else lines, 1):
        try:
            line = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
            yield number
            continue
        if isinstance(line, Head):
            session = sessions.setdefault(line.session, _Session(line.cluster_id))
            decoder = Decoder(line.cluster_id)
        if session is None:
            yield number
        elif line.seq not in known:
            known.add(line.seq)
            copy = _Copy(line, hashlib.sha256(text).hexdigest(), _seen(line, decoder))
            if copy.rank[0]:
                yield number
            if line.seq not in session.copies or copy.rank < session.copies[line.seq].rank:
                session.copies[line.seq] = copy


def _seen(line: AnyLine, decoder: Decoder) -> Observation | None:
    if not isinstance(line, PollLine):
        return None
    try:
        return decoder.observation(line)
    except BrokenSequence:
        return None


def _poll(session: _Session, name: str, look: PollLine, observation: Observation) -> Poll:
    return Poll(
        cluster_id=session.cluster_id,
        session=name,
        seq=look.seq,
        t=look.ms + session.shift,
        took_ms=look.took_ms,
        controller=observation.controller,
        brokers=tuple(sorted(observation.brokers)),
        alive=tuple(sorted(filter(observation.alive, observation.brokers))),
        reassigning=len(observation.reassigning),
        failures=len(observation.failures),
    )


def _samples(
    session: _Session, name: str, look: PollLine, observation: Observation
) -> Iterator[Sample]:
    shift = session.shift
    ends: dict[TopicPartition, list[Figure]] = defaultdict(list)
    sizes: dict[TopicPartition, list[Figure]] = defaultdict(list)
    for into, readings in ((ends, observation.ends), (sizes, observation.sizes)):
        for replica, reading in readings.items():
            read_t = to_ms(reading.at_s) + shift
            into[replica.tp].append(Figure(replica.broker, reading.value, read_t))
    for tp, state in observation.partitions.items():
        start = observation.starts.get(tp)
        yield Sample(
            key=Partition(session.cluster_id, tp.topic, state.topic_id, tp.partition),
            session=name,
            seq=look.seq,
            t=look.ms + shift,
            took_ms=look.took_ms,
            replicas=state.replicas,
            isr=state.isr,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            adding=state.adding,
            removing=state.removing,
            offline=state.offline,
            elr=state.elr,
            described=state.described,
            ends=_by_broker(ends[tp]),
            log_start=None if start is None else start.value,
            log_start_read_t=None if start is None else to_ms(start.at_s) + shift,
            sizes=_by_broker(sizes[tp]),
            rates=tuple(_rates(observation, sorted(set(state.replicas)))),
            down=tuple(broker for broker in state.replicas if not observation.alive(broker)),
        )


def _by_broker(figures: list[Figure]) -> tuple[Figure, ...]:
    return tuple(sorted(figures, key=lambda figure: figure.broker))


def _rates(observation: Observation, brokers: Iterable[int]) -> Iterator[Rates]:
    for broker in brokers:
        config = observation.broker_configs.get(broker)
        if config is not None:
            follower, leader = config.follower_throttle_rate, config.leader_throttle_rate
            if follower is not None or leader is not None:
                yield Rates(broker, follower, leader)


class _Ranked(msgspec.Struct, frozen=True, order=True):
    """What decides between two sessions of a cluster: the least goes first."""

    no_engine: bool
    no_run: bool
    began: int
    name: str


def _shadow(sessions: Mapping[str, _Session], samples: list[Sample], polls: list[Poll]) -> None:
    """Mark the rows of a time in which a better session of the same cluster polled."""
    clusters: dict[str, list[tuple[_Ranked, list[Span]]]] = defaultdict(list)
    for name, session in sessions.items():
        if spans := list(_polled(session)):
            lines = list(session.lines)
            rank = _Ranked(
                no_engine=not any(_of_engine(line) for line in lines),
                no_run=not any(isinstance(line, RunLine) for line in lines),
                began=spans[0][0],
                name=name,
            )
            clusters[session.cluster_id].append((rank, spans))
    better: dict[str, list[Span]] = {}
    for ranked in clusters.values():
        ranked.sort()
        for number, (rank, _) in enumerate(ranked):
            spans = [span for _, each in ranked[:number] for span in each]
            better[rank.name] = [(first, last) for first, last in spans if first < last]

    def in_span(name: str, t: int) -> bool:
        return any(first <= t <= last for first, last in better[name])

    replace = msgspec.structs.replace
    samples[:] = [replace(row, shadowed=in_span(row.session, row.t)) for row in samples]
    polls[:] = [replace(row, shadowed=in_span(row.session, row.t)) for row in polls]


def _of_engine(line: AnyLine) -> bool:
    return isinstance(line, Head) and line.program.split(" ")[-1] == "engine"


def _polled(session: _Session) -> Iterator[Span]:
    """Yield the times in which a session polled, with no more than a minute between two polls."""
    found: list[int] = []
    for t in sorted(look.ms + session.shift for look, _ in session.looks):
        if found and t - found[-1] > NEAR_MS:
            yield found[0], found[-1]
            found = []
        found.append(t)
    if found:
        yield found[0], found[-1]


def _events(sessions: Mapping[str, _Session]) -> Iterator[Happened]:
    """Yield each event once: as it was recorded first."""
    found: dict[tuple[str, str, int], tuple[tuple[int, str, int], Happened]] = {}
    for name, session in sessions.items():
        for line, own_ms in _own_times(session):
            happened = Happened(
                cluster_id=session.cluster_id,
                run=line.run,
                run_id=line.run_id,
                entry=line.entry,
                at=line.at,
                t=own_ms + session.shift,
                session=name,
                seq=line.seq,
                event=bytes(line.event),
            )
            key = session.cluster_id, line.run_id, line.entry
            recorded = line.ms + session.shift, name, line.seq
            known = found.get(key)
            if known is None or recorded < known[0]:
                found[key] = recorded, happened
    yield from (happened for _, happened in found.values())


def _own_times(session: _Session) -> Iterator[tuple[RunLine, int]]:
    """Yield each event with the millisecond at which it was, of the session's monotonic clock."""
    before: AnyLine | None = None
    for line in session.lines:
        if not isinstance(line, RunLine):
            before = line
        elif before is None or line.ms > before.ms:
            yield line, line.ms
        else:
            passed = before.at - line.at
            yield line, min(line.ms, before.ms - passed)


NEAR_MS = 60_000
"""Samples farther apart show nothing about the time between them."""
STALLED_MS = 30_000


class Interval(msgspec.Struct):
    """A time in which a partition was in one state."""

    state: str
    began: int
    ended: int
    open: bool


class Listing(msgspec.Struct):
    """A time in which the controller listed a partition, without a gap."""

    samples: list[Sample]
    after: Sample | None
    """The next sample of the partition, however much later."""
    intervals: list[Interval] = []

    @property
    def began(self) -> int:
        return self.samples[0].t

    @property
    def left(self) -> Sample | None:
        """The sample just after the listing; None if none is near."""
        near = self.after is not None and self.after.t - self.samples[-1].t <= NEAR_MS
        return self.after if near else None

    @property
    def added(self) -> list[int]:
        return sorted({broker for sample in self.samples for broker in sample.adding})

    def milliseconds(self, state: str) -> int:
        return sum(each.ended - each.began for each in self.intervals if each.state == state)


def listings(samples: Iterable[Sample]) -> dict[Partition, list[Listing]]:
    """Return the listings of each partition, in order."""
    rows: defaultdict[Partition, list[Sample]] = defaultdict(list)
    for sample in samples:
        if not sample.shadowed:
            rows[sample.key].append(sample)
    return {
        key: list(_listings(sorted(each, key=lambda sample: sample.order)))
        for key, each in rows.items()
    }


def _listings(samples: list[Sample]) -> Iterator[Listing]:
    current: list[Sample] = []
    for sample in samples:
        if current and (not sample.listed or sample.t - current[-1].t > NEAR_MS):
            yield _with_intervals(Listing(current, sample))
            current = []
        if sample.listed:
            current.append(sample)
    if current:
        yield _with_intervals(Listing(current, None))


def _with_intervals(listing: Listing) -> Listing:
    states = _states(listing)
    last: Interval | None = None
    for number, sample in enumerate(listing.samples):
        following = (*listing.samples[number + 1 :], listing.after)[0]
        state = states[number]
        if state is None:
            last = None
            continue
        if last is None or last.state != state:
            last = Interval(state, sample.t, sample.t, open=False)
            listing.intervals.append(last)
        last.open = following is None
        near = following is not None and following.t - sample.t <= NEAR_MS
        last.ended = following.t if following is not None and near else sample.t
    return listing


def _states(listing: Listing) -> list[str | None]:
    """Name the state of each sample of a listing."""
    ends: dict[int, int] = {}
    headway = listing.began
    states: list[str | None] = []
    still: list[int] = []
    """The numbers of the samples since the last headway that saw a replica missing, and no more."""
    for number, sample in enumerate(listing.samples):
        grew = False
        for figure in sample.ends:
            grown = figure.value > ends.get(figure.broker, -1)
            grew = grew or (figure.broker in sample.missing and grown)
            ends[figure.broker] = figure.value
        state = _before_judgement(sample, ends)
        states.append(state)
        if grew:
            headway = sample.t
        if grew or state == "in sync":
            still = []
        elif state is not None:
            if state == "catching up":
                still.append(number)
            if sample.t - headway >= STALLED_MS:
                states = ["stalled" if n in still else each for n, each in enumerate(states)]
    return states


def _before_judgement(sample: Sample, ends: Mapping[int, int]) -> str | None:
    if not sample.described:
        return None
    if not sample.missing:
        return "in sync"
    return "catching up" if sample.missing & ends.keys() else "adding"
