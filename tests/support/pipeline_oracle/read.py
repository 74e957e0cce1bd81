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
from ktui.recording.lines import AnyLine, Head, PollLine, RunLine, decode, to_ms
from support.pipeline_oracle.tables import (
    Figure,
    Happened,
    Partition,
    Poll,
    Rates,
    Recorded,
    Sample,
)

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


def _shadow(sessions: Mapping[str, _Session], samples: list[Sample], polls: list[Poll]) -> None:
    """Mark the rows that lie in the span of a better session of the same cluster."""
    clusters: dict[str, list[tuple[bool, int, str, Span]]] = defaultdict(list)
    for name, session in sessions.items():
        at = sorted(look.ms + session.shift for look, _ in session.looks)
        if at:
            lines = [copy.line for copy in session.copies.values()]
            follows = not any(isinstance(line, RunLine) for line in lines)
            clusters[session.cluster_id].append((follows, at[0], name, (at[0], at[-1])))
    for ranked in clusters.values():
        ranked.sort()
    better = {
        each[2]: [span for *_, span in ranked[:rank]]
        for ranked in clusters.values()
        for rank, each in enumerate(ranked)
    }

    def in_span(name: str, t: int) -> bool:
        return any(first <= t <= last for first, last in better[name])

    replace = msgspec.structs.replace
    samples[:] = [replace(row, shadowed=in_span(row.session, row.t)) for row in samples]
    polls[:] = [replace(row, shadowed=in_span(row.session, row.t)) for row in polls]


def _events(sessions: Mapping[str, _Session]) -> Iterator[Happened]:
    """Yield each event once: as it was recorded first."""
    found: dict[tuple[str, str, int], Happened] = {}
    for name, session in sessions.items():
        for line in (copy.line for copy in session.copies.values()):
            if isinstance(line, RunLine):
                happened = Happened(
                    cluster_id=session.cluster_id,
                    run=line.run,
                    run_id=line.run_id,
                    entry=line.entry,
                    at=line.at,
                    t=line.ms + session.shift,
                    session=name,
                    seq=line.seq,
                    event=bytes(line.event),
                )
                key = session.cluster_id, line.run_id, line.entry
                known = found.get(key)
                if known is None or _first(happened) < _first(known):
                    found[key] = happened
    yield from found.values()


def _first(event: Happened) -> tuple[int, str, int]:
    return event.t, event.session, event.seq
