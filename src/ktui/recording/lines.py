"""The lines of a recording: one JSON object each, named by `kind`.

Times are whole milliseconds: `at` of wall time since 1970 in UTC, `ms` of the recorder's monotonic
clock, of which only differences within a session mean anything. `seq` counts the lines of a session
from 0; a line is known by its session and `seq`, in whatever files and however often it comes.
Each ends with the CRC-32 of what stands before, so that none that was changed is believed.
docs/recording.md is the format's reference.
"""

from __future__ import annotations

from typing import Annotated
from zlib import crc32

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.json_input import decoded

SCHEMA_VERSION = 1

Int = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
"""What Kafka's protocol holds in 32 bits: brokers, partitions, epochs."""
Number = Annotated[int, msgspec.Meta(ge=0, lt=2**31)]
Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
WallMs = Annotated[int, msgspec.Meta(ge=0, lt=221_845_392_000_000)]
"""Up to the year 9000: with what `Ms` may add, all times stay within Python's calendar."""
Ms = Annotated[int, msgspec.Meta(ge=-(2**43), le=2**43)]
"""278 years."""
Id = Annotated[str, msgspec.Meta(max_length=2_000)]
"""Of a name or an id: longer than any, though cleaning may lengthen what a cluster says."""

BrokerNumbers = tuple[Int, ...]

Name = tuple[int, Id, Int, Id | None]
"""A number that stands for a partition in later lines, its topic, its partition, its topic id."""

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
"""A broker, how many milliseconds before the line's `ms` it was read, and by twos a partition's
number and by how much the figure of its replica there differs from the last one (0 at first)."""

LeaderFigures = tuple[int, tuple[int, ...]]
"""The same for figures of the leader, whichever broker that is."""

ReplicaGone = tuple[int, Int]
"""A partition's number and a broker: there is no figure of this replica any more."""


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What every line says."""

    seq: Seq
    at: WallMs
    ms: Ms


class Head(Line, frozen=True, kw_only=True, tag="head"):
    """The first line of every segment. What comes before it does not matter to what follows."""

    schema_version: int
    session: Id
    """Drawn at random by each process that records."""
    segment: Number
    """Of the session, from 0."""
    cluster_id: Id
    cluster: Id = ""
    """What the operator calls it."""
    program: Id = ""
    """What recorded it, with its version."""
    redacted: bool = False


class CensusLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A pass over the whole cluster (`Census`), its times as in a line."""

    at: WallMs
    ms: Ms
    took_ms: Ms
    topics: Number
    partitions: Number
    leaders: dict[Int, Number]
    replicas: dict[Int, Number]
    unhealthy: tuple[tuple[Id, Int], ...] = ()


class PollLine(Line, frozen=True, kw_only=True, tag="look"):
    """One poll that was answered: what is otherwise than in the look before, in the same segment.

    A segment's first look begins from nothing, and so does every one that is `whole`. In maps, null
    means that the key is no longer there.
    """

    took_ms: Ms
    whole: bool = False
    follows: int | None = None
    """The `seq` of the look before, from which this one tells the differences; null if `whole`."""
    controller: Int | None = None
    fresh: bool = False
    waits_for_kept: bool = True
    names: tuple[Name, ...] = ()
    states: tuple[StateRow, ...] = ()
    unseen: tuple[int, ...] = ()
    """Partitions that this poll did not look at, and the one before did."""
    absent: tuple[int, ...] | None = None
    """All that the cluster says do not exist; null where they are the same as before."""
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
    census: CensusLine | None = None
    """A new one; null where the last one still stands."""
    census_gone: bool = False
    failures: tuple[Failure, ...] | None = None
    """All of this poll; null where they are the same as before."""


class LostPollLine(Line, frozen=True, kw_only=True, tag="lost"):
    """A poll that failed as a whole."""

    reason: str


class RunLine(Line, frozen=True, kw_only=True, tag="run"):
    """An event of a run's journal; `at` is when it was written there."""

    run: Id
    """The run's name."""
    run_id: Id
    """Tells it from other runs of that name."""
    entry: Number
    """The event's number in the journal, from 1."""
    event: msgspec.Raw
    """The event as the journal has it, an object named by `event`."""


class End(Line, frozen=True, kw_only=True, tag="end"):
    """The recorder was closed in good order: the session is whole up to here."""


AnyLine = Head | PollLine | LostPollLine | RunLine | End

_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyLine)
_SUM_BYTES = len(b',"crc":"01234567"}')


class Changed(msgspec.DecodeError):
    """A line is not as it was written: its checksum is missing, or is that of another text."""


def encode(line: AnyLine) -> bytes:
    """Give a line as JSON, with its checksum and its newline."""
    text = _ENCODER.encode(line)[:-1]
    return text + _sum(text) + b"\n"


def decode(text: bytes) -> AnyLine:
    """Read a line, with or without its newline.

    Raises:
        Changed: it is not as it was written.
        msgspec.DecodeError: it is none that this version knows.
    """
    text = text.removesuffix(b"\n")
    if text[-_SUM_BYTES:] != _sum(text[:-_SUM_BYTES]):
        raise Changed("its checksum is missing or wrong: it is not as it was written")
    line: AnyLine = decoded(_DECODER, text)
    return line


def _sum(text: bytes) -> bytes:
    return b',"crc":"%08x"}' % crc32(text)
