"""Decode segments into rows in Spark's executors; lines that no table can hold are quarantined."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import Replica, TopicPartition
from ktui.pipeline.lake.engine import schema_on
from ktui.pipeline.lake.schema import LONG, TEXT, column, struct_of
from ktui.pipeline.lake.tables import LINES, QUARANTINE, SAMPLES
from ktui.recording.codec import BrokenSequence, Decoder
from ktui.recording.reading import BadLine, GoodLine, read_lines
from ktui.recording.segments import AnyLine, Head, LostPollLine, PollLine, RunLine, to_ms

NO_HEAD = "unknown"
SEGMENT_DIGITS = 16
_SHOWN = 200  # the characters of a bad line that are kept
_AT_ONCE = 10_000
MOST_SAMPLES = 50_000_000
"""The limit for one segment: a poll may say in a few bytes that all partitions are unchanged."""
_LONGEST_ID = 200
"""The most characters of a cluster's id, as quoted for a folder's name; Kafka's ids have 22."""
_NO_ID = ("", "__HIVE_DEFAULT_PARTITION__")
"""Spark reads a folder with such a name as one without a cluster."""
_NO_FIGURE = "a figure in it is larger than a table holds"

NEWER = struct_of(
    column("segment", TEXT, "the first 16 digits of the file's SHA-256"),
    column("file", TEXT),
    column("version", LONG, "of its format"),
    column("reason", TEXT),
)
"""A segment in a format that this ktui does not know."""
FILE = struct_of(column("file", TEXT), column("sha256", TEXT))

_LATER = ("date", "at", "shadowed")
RAW_SAMPLE = struct_of(*(field for field in SAMPLES.schema if field.name not in _LATER))
"""A sample before normalisation: all its times are of the monotonic clock, in ms."""
KINDS: Mapping[str, StructType] = {
    "line": LINES.schema,
    "sample": RAW_SAMPLE,
    "quarantine": QUARANTINE.schema,
    "newer": NEWER,
    "file": FILE,
}
DECODED = struct_of(
    column("kind", TEXT, "the one of the other columns that is not null"),
    *(column(name, schema, null=True) for name, schema in KINDS.items()),
)

LineRow = tuple[Any, ...]


class SegmentSelection(msgspec.Struct, frozen=True):
    """Selects the segments of some clusters with any line in a time span."""

    since_ms: int | None = None  # wall time in ms since 1970, UTC; None for no bound
    until_ms: int | None = None
    clusters: frozenset[str] = frozenset()

    def wants(self, head: Head | None, at: Iterable[int]) -> bool:
        if self.clusters and (head is None or head.cluster_id not in self.clusters):
            return False
        times = list(at)
        if not times:
            return self.since_ms is None and self.until_ms is None
        early = self.since_ms is not None and max(times) < self.since_ms
        late = self.until_ms is not None and min(times) > self.until_ms
        return not (early or late)


ALL = SegmentSelection()


def decode(choice: SegmentSelection = ALL) -> Callable[[DataFrame], DataFrame]:
    """Return a function that decodes files (`path`, `content`) into rows of DECODED.

    Each row has a `file`, alone where `choice` leaves the file out; a `line`, or its problem in
    `quarantine`; a `sample` of a poll and partition; or `newer`, for a segment in a newer format.
    """
    schema = to_arrow_schema(DECODED)

    def decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.select(["path", "content"]).to_pylist():
                yield from _batches(file["path"], file["content"], choice, schema)

    def apply(files: DataFrame) -> DataFrame:
        return files.select("path", "content").mapInArrow(decoded, schema_on(files, DECODED))

    return apply


def _batches(
    path: str, content: bytes, choice: SegmentSelection, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    rows: defaultdict[str, list[LineRow]] = defaultdict(list)
    for kind, row in rows_of(path, content, choice):
        rows[kind].append(row)
        if len(rows[kind]) == _AT_ONCE:
            yield from _pack(path, kind, rows.pop(kind), schema)
    for kind, rest in rows.items():
        yield from _pack(path, kind, rest, schema)


def _wanted(content: bytes, choice: SegmentSelection) -> bool:
    head: Head | None = None
    times: list[int] = []
    for each in read_lines(content):
        if isinstance(each, GoodLine):
            head = head or (each.line if isinstance(each.line, Head) else None)
            times = [min([*times, each.line.at]), max([*times, each.line.at])]
    return choice.wants(head, times)


def _pack(path: str, kind: str, rows: list[LineRow], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    try:
        yield _batch(kind, rows, schema)
    except (pa.ArrowException, OverflowError):
        if len(rows) == 1:
            yield _batch("quarantine", [_quarantined(path, kind, rows[0])], schema)
            return
        half = len(rows) // 2
        for part in (rows[:half], rows[half:]):
            yield from _pack(path, kind, part, schema)


def _quarantined(path: str, kind: str, row: LineRow) -> LineRow:
    named = dict(zip(KINDS[kind].names, row, strict=True))
    return (named["cluster_id"], path, named["segment"], named["line"], _NO_FIGURE, "")


def _batch(kind: str, rows: list[LineRow], schema: pa.Schema) -> pa.RecordBatch:
    columns: list[pa.Array] = []
    for field in schema:
        if field.name == "kind":
            columns.append(pa.array([kind] * len(rows), field.type))
        elif field.name == kind:
            parts = [
                pa.array(values, part.type)
                for values, part in zip(zip(*rows, strict=True), field.type, strict=True)
            ]
            columns.append(pa.StructArray.from_arrays(parts, fields=list(field.type)))
        else:
            columns.append(pa.nulls(len(rows), field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rows_of(
    path: str, content: bytes, choice: SegmentSelection = ALL
) -> Iterator[tuple[str, LineRow]]:
    """Yield the rows of a segment's file, each with its kind: a column of DECODED."""
    checksum = hashlib.sha256(content).hexdigest()
    yield "file", (path, checksum)
    if choice != ALL and not _wanted(content, choice):
        return
    segment, samples = _Segment(path, checksum), 0
    for each in read_lines(content):
        if isinstance(each, BadLine):
            if each.newer_version is not None and each.number == 1:
                yield segment.newer(each.newer_version, each.reason)
                return
            yield segment.bad(each.number, each.text, each.reason)
            continue
        reason = _no_folder(each.line)
        if reason is None and samples > MOST_SAMPLES:
            reason = f"it holds more than {MOST_SAMPLES:,} samples"
        if reason is not None:
            yield segment.bad(each.number, each.text, f"{reason}; the rest is left out")
            return
        for kind, row in segment.good(each):
            samples += kind == "sample"
            yield kind, row


def _no_folder(line: AnyLine) -> str | None:
    if not isinstance(line, Head):
        return None
    folder = quote(line.cluster_id, safe="")
    if folder in _NO_ID or len(folder) > _LONGEST_ID:
        return "its cluster's id can be no folder's name"
    return None


class _Segment:
    def __init__(self, path: str, checksum: str) -> None:
        self._path = path
        self._id = checksum[:SEGMENT_DIGITS]
        self._head: Head | None = None
        self._decoder = Decoder("")
        self._seen: set[tuple[str, int]] = set()

    def good(self, good: GoodLine) -> Iterator[tuple[str, LineRow]]:
        line = good.line
        if isinstance(line, Head):
            self._head, self._decoder = line, Decoder(line.cluster_id)
        if self._head is None:
            yield self.bad(good.number, good.text, "there is no head before it")
            return
        head, key = self._head, (self._head.session, line.seq)
        seen: Observation | None = None
        again = key in self._seen
        self._seen.add(key)
        if isinstance(line, PollLine) and not again:
            try:
                seen = self._decoder.observation(line)
            except BrokenSequence as error:
                yield self.bad(good.number, good.text, f"does not follow: {error}")
        where = (self._id, good.number)
        decoded = seen is not None or not isinstance(line, PollLine)
        yield "line", (*_line_row(head, good, where, decoded=decoded), *_extra(line, seen))
        if seen is not None:
            for row in _samples(head, line, seen, where):
                yield "sample", row

    def newer(self, version: int, reason: str) -> tuple[str, LineRow]:
        # no table has this version, not even if it were too large for a column
        return "newer", (self._id, self._path, min(version, 2**63 - 1), reason)

    def bad(self, number: int, text: bytes, reason: str) -> tuple[str, LineRow]:
        cluster = self._head.cluster_id if self._head is not None else NO_HEAD
        shown = text[: 4 * _SHOWN].decode(errors="replace")[:_SHOWN]
        return "quarantine", (cluster, self._path, self._id, number, reason, shown)


def _line_row(head: Head, good: GoodLine, where: tuple[str, int], *, decoded: bool) -> LineRow:
    line = good.line
    sha = hashlib.sha256(good.text).hexdigest()
    kind = str(line.__struct_config__.tag)
    return (head.cluster_id, head.session, line.seq, *where, sha, kind, line.at, line.ms, decoded)


def _extra(line: AnyLine, seen: Observation | None) -> LineRow:
    look: LineRow = (None,) * 6
    run: LineRow = (None,) * 4
    if seen is not None:
        brokers = sorted(seen.brokers)
        look = (
            to_ms(seen.took_s),
            seen.controller,
            brokers,
            sorted(seen.online),
            sum(state.reassigning for state in seen.partitions.values()),
            [failure.sentence for failure in seen.failures],
        )
    if isinstance(line, RunLine):
        event = bytes(line.event).decode(errors="replace")
        run = (line.run, line.run_id, line.entry, event)
    reason = line.reason if isinstance(line, LostPollLine) else None
    return (*look, *run, reason, line.program if isinstance(line, Head) else None)


def _samples(
    head: Head, line: AnyLine, seen: Observation, where: tuple[str, int]
) -> Iterator[LineRow]:
    ends, sizes = _by_partition(seen.ends), _by_partition(seen.sizes)
    throttled = {
        broker: (broker, config.follower_throttle_rate, config.leader_throttle_rate)
        for broker, config in seen.broker_configs.items()
        if (config.follower_throttle_rate, config.leader_throttle_rate) != (None, None)
    }
    alive = seen.online
    for tp, state in seen.partitions.items():
        start = seen.starts.get(tp)
        yield (
            head.cluster_id,
            head.session,
            line.seq,
            line.ms,  # t, until it is normalised
            to_ms(seen.took_s),
            tp.topic,
            state.topic_id,
            tp.partition,
            state.replicas,
            state.isr,
            state.leader,
            state.leader_epoch,
            state.adding,
            state.removing,
            state.offline,
            state.elr,
            state.described,
            sorted(ends.get(tp, ())),
            None if start is None else start.value,
            None if start is None else to_ms(start.at_s),
            sorted(sizes.get(tp, ())),
            [throttled[broker] for broker in sorted(state.replicas) if broker in throttled],
            [broker for broker in state.replicas if broker not in alive],
            line.ms,
            *where,
        )


def _by_partition(
    figures: Mapping[Replica, Reading],
) -> Mapping[TopicPartition, list[tuple[int, int, int]]]:
    found: defaultdict[TopicPartition, list[tuple[int, int, int]]] = defaultdict(list)
    for replica, reading in figures.items():
        found[replica.tp].append((replica.broker, reading.value, to_ms(reading.at_s)))
    return found
