"""The lines of a recording: one JSON object each, named by kind, with times in milliseconds."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated
from zlib import crc32

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.json_text import decode_untrusted

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)


def to_ms(seconds: float) -> int:
    """Convert seconds to whole milliseconds."""
    return round(seconds * 1000)


def to_s(ms: int) -> float:
    """Convert milliseconds to seconds."""
    return ms / 1000


def wall_ms(at: datetime) -> int:
    """Convert wall time to milliseconds since 1970."""
    return round((at - _BEGINNING) / _MS)


def from_wall_ms(ms: int) -> datetime:
    """Convert milliseconds since 1970 to wall time in UTC."""
    return _BEGINNING + ms * _MS


SCHEMA_VERSION = 1

Int = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
"""Numbers that Kafka's protocol holds in 32 bits: brokers, partitions, epochs."""
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
WallMs = Annotated[int, msgspec.Meta(ge=0, lt=221_845_392_000_000)]
"""Up to the year 9000: with the largest `Ms` added, all times stay within Python's calendar."""
Ms = Annotated[int, msgspec.Meta(ge=-(2**43), le=2**43)]
Id = Annotated[str, msgspec.Meta(max_length=2_000)]
"""A name or an id: the limit exceeds any, also when cleaning has lengthened a cluster's text."""

BrokerNumbers = tuple[Int, ...]

Name = tuple[int, Id, Int, Id | None]  # of a partition in later lines

StateRow = tuple[
    int,
    BrokerNumbers,
    BrokerNumbers,
    Int | None,
    Int | None,
    BrokerNumbers,
    BrokerNumbers,
    BrokerNumbers,
    BrokerNumbers | None,
    bool,
]
"""A partition's number; replicas, ISR, leader, leader epoch, adding, removing, offline, ELR, and
whether metadata of it could be read."""

ReplicaFiguresLine = tuple[Int, int, tuple[int, ...]]
"""A broker, the age of its figures, and pairs of a partition's number and its growth.

The age is in milliseconds before the line's `ms`. The growth of a replica's figure on that broker
counts from the last recorded one, at first from 0.
"""

LeaderFigures = tuple[int, tuple[int, ...]]
"""The age and pairs of `ReplicaFiguresLine` for the leader's figures, whichever broker leads."""

ReplicaGone = tuple[int, Int]  # a partition's number and a broker, without a figure now


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """The fields of every line."""

    seq: Seq
    at: WallMs
    ms: Ms


class Head(Line, frozen=True, kw_only=True, tag="head"):
    """The first line of every segment. Later lines do not depend on anything before it."""

    schema_version: int
    session: Id  # drawn at random by each process that records
    segment: Number
    cluster_id: Id
    cluster: Id = ""
    program: Id = ""
    redacted: bool = False


class CensusLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pass over the whole cluster (`Census`), with times as in a line."""

    at: WallMs
    ms: Ms
    took_ms: Ms
    topics: Number
    partitions: Number
    leaders: dict[Int, Number]
    replicas: dict[Int, Number]
    unhealthy: tuple[tuple[Id, Int], ...] = ()
    in_sync: tuple[Int, ...] | None = None


class PollLine(Line, frozen=True, kw_only=True, tag="look"):
    """One answered poll: its differences from the previous poll of the same segment.

    A segment's first poll begins from nothing, and so does every `whole` one. In maps, null means
    that the key is gone. The JSON kind is `look`.
    """

    took_ms: Ms
    whole: bool = False
    follows: int | None = None  # the `seq` of the poll before; null if `whole`
    controller: Int | None = None
    fresh: bool = False
    waits_for_kept: bool = True
    refuses_cordoned: bool | None = None
    names: tuple[Name, ...] = ()
    states: tuple[StateRow, ...] = ()
    unseen: tuple[int, ...] = ()  # partitions that this poll did not read, and the previous one did
    absent: tuple[int, ...] | None = None  # all; null where unchanged
    ends: tuple[ReplicaFiguresLine, ...] = ()
    ends_gone: tuple[ReplicaGone, ...] = ()
    starts: tuple[LeaderFigures, ...] = ()
    starts_gone: tuple[int, ...] = ()
    sizes: tuple[ReplicaFiguresLine, ...] = ()
    sizes_gone: tuple[ReplicaGone, ...] = ()
    brokers: dict[Int, Broker | None] = msgspec.field(default_factory=dict)
    log_dirs: dict[Int, tuple[LogDir, ...] | None] = msgspec.field(default_factory=dict)
    topic_configs: dict[str, TopicConfig | None] = msgspec.field(default_factory=dict)
    broker_configs: dict[Int, BrokerConfig | None] = msgspec.field(default_factory=dict)
    census: CensusLine | None = None  # a new census; null where the last one still stands
    census_gone: bool = False
    failures: tuple[Failure, ...] | None = None  # all failures of this poll; null where unchanged


class LostPollLine(Line, frozen=True, kw_only=True, tag="lost"):
    """A poll that failed as a whole."""

    reason: str


class RunLine(Line, frozen=True, kw_only=True, tag="run"):
    """An event of a run's journal; `at` is when the journal received it."""

    run: Id
    run_id: Id  # distinguishes the run from others of that name
    entry: Number
    event: msgspec.Raw


class End(Line, frozen=True, kw_only=True, tag="end"):
    """The recorder was closed properly: the session is complete up to here."""


AnyLine = Head | PollLine | LostPollLine | RunLine | End

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyLine)
_CHECKSUM_BYTES = len(b',"crc":"01234567"}')


class ChecksumMismatch(msgspec.DecodeError):
    """A line differs from the written one: its checksum is missing or wrong."""


def encode(line: AnyLine) -> bytes:
    """Encode a line as JSON, with its checksum and its newline."""
    text = _ENCODER.encode(line)[:-1]
    return text + _checksum(text) + b"\n"


def decode(text: bytes) -> AnyLine:
    """Decode a line, with or without its newline."""
    text = text.removesuffix(b"\n")
    if text[-_CHECKSUM_BYTES:] != _checksum(text[:-_CHECKSUM_BYTES]):
        raise ChecksumMismatch("its checksum is missing or wrong: the line was changed")
    line: AnyLine = decode_untrusted(_DECODER, text)
    return line


def _checksum(text: bytes) -> bytes:
    return b',"crc":"%08x"}' % crc32(text)
