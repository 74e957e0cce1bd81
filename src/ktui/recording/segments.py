"""The lines of a recording, and its segments: opened without blocking, named in order, unzipped."""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, BinaryIO
from zlib import crc32

import msgspec

from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.errors import Failure
from ktui.inputfile import FileProblem
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


ENGINE = " engine"  # how `Head.program` ends where the engine of a run recorded what it saw


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


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_recording_file(path: Path) -> BinaryIO:
    """Open a file for reading bytes."""
    # without blocking: a FIFO without a writer would block
    file = open(path, "rb", opener=lambda at, flags: os.open(at, flags | os.O_NONBLOCK))  # noqa: SIM115 - the caller closes it
    try:
        check_regular(path, os.fstat(file.fileno()))
    except BaseException:
        file.close()
        raise
    return file


def check_regular(path: Path, status: os.stat_result) -> None:
    """Check that a path leads to a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind != stat.S_IFREG:
        raise FileProblem(path, None, f"{_KINDS.get(kind, 'something else')}, not a file")


CLOSED = ".jsonl.gz"
UNFINISHED = ".tmp"
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_LONGEST = 64


class SegmentFile(msgspec.Struct, frozen=True):
    """A file that holds a segment, and its first line."""

    path: Path
    head: Head

    @property
    def open(self) -> bool:
        return is_open(self.path)


def is_open(path: Path) -> bool:
    """Whether a file has the name of one that is not whole yet."""
    return path.name.endswith(UNFINISHED)


def once_whole(path: Path) -> Path:
    """Return the path of a segment's file, once it is closed or sealed."""
    return path.with_name(path.name.removesuffix(UNFINISHED))


def session_folder(folder: Path, head: Head) -> Path:
    """Return the folder of a session, under the folder for recordings.

    FOLDER/<cluster id>/<beginning, UTC>-<first 8 digits of the session's id>
    """
    cluster = _UNSAFE.sub("-", head.cluster_id)[:_LONGEST] or "-"
    began: datetime = from_wall_ms(head.at).astimezone(UTC)
    session = _UNSAFE.sub("-", head.session[:8])
    return folder / cluster / f"{began:%Y%m%dT%H%M%SZ}-{session}"


def segment_path(session: Path, segment: int) -> Path:
    """Return the path of a segment's file, once it is whole."""
    return session / f"{segment:06}{CLOSED}"


def files_under(path: Path) -> Iterator[Path]:
    """Yield the named file, or every path under a folder that is named as a segment."""
    if os.path.isdir(path):  # noqa: PTH112 - Path's own raises where it may not look
        # os.walk passes over a folder that is pruned meanwhile; rglob raises before Python 3.13
        yield from sorted(
            Path(folder, name)
            for folder, folders, files in os.walk(path)
            for name in (*folders, *files)
            if name.removesuffix(UNFINISHED).endswith(CLOSED)
        )
    else:
        yield path


GZIP = 16 + zlib.MAX_WBITS  # zlib's code for the format of a .gz file
LONGEST_LINE = 64 * 1024 * 1024  # bytes; a poll of 100,000 partitions has less than half
MOST_TEXT = 1024 * 1024 * 1024  # bytes; recorders end files at 8 MiB of gzip: 100 MiB
MOST_LINES = 1_000_000  # recorders end files after 15 minutes: over 1,000 a second
_READ_BYTES = 16 * 1024
_TEXT_BYTES = 1024 * 1024


class Unzipped:
    """The lines of one file; after the last one, `damage` and `cut_off` tell of a missing end."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.damage: str | None = None
        self.cut_off = True
        self.rest = b""
        self.text_bytes = 0

    def lines(self) -> Iterator[bytes]:
        partial = _PartialLine()
        count = 0
        for text in self._text():
            self.text_bytes += len(text)
            first, *others = text.split(b"\n")
            partial.add(first)
            for other in others:
                if partial.size > LONGEST_LINE or count == MOST_LINES:
                    break
                yield partial.whole()
                count += 1
                partial.add(other)
            self.damage = self.damage or self._limit_reached(partial.size, count)
            if self.damage is not None:
                break
        self.rest = partial.whole()

    def _limit_reached(self, line_bytes: int, lines: int) -> str | None:
        if line_bytes > LONGEST_LINE:
            return f"a line has more than {LONGEST_LINE:,} bytes"
        if lines == MOST_LINES:
            return f"it has {MOST_LINES:,} lines or more: the rest is skipped"
        if self.text_bytes > MOST_TEXT:
            return f"it unzips to more than {MOST_TEXT:,} bytes: the rest is skipped"
        return None

    def _text(self) -> Iterator[bytes]:
        unzip = zlib.decompressobj(GZIP)
        while zipped := self._file.read(_READ_BYTES):
            while zipped:
                if unzip.eof:  # gzip files may be concatenated
                    unzip = zlib.decompressobj(GZIP)
                before = unzip.copy()
                try:
                    yield unzip.decompress(zipped, _TEXT_BYTES)
                except zlib.error as error:
                    yield from _to_the_error(before, zipped)
                    self.damage = f"it cannot be unzipped from here on ({error})"
                    return
                zipped = unzip.unconsumed_tail or unzip.unused_data
                self.cut_off = not unzip.eof
        yield unzip.flush()


class _PartialLine:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        if piece:
            self._pieces.append(piece)
            self.size += len(piece)

    def whole(self) -> bytes:
        line = b"".join(self._pieces)
        self._pieces.clear()
        self.size = 0
        return line


def _to_the_error(unzip: zlib._Decompress, zipped: bytes) -> Iterator[bytes]:
    """Yield the text before an error, which the call that fails would lose."""
    for at in range(len(zipped)):
        try:
            yield unzip.decompress(zipped[at : at + 1])
        except zlib.error:
            return
