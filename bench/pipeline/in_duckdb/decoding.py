"""Decode segments into Parquet files of their lines and samples, one process a core."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ktui.cluster.observation import Observation, Reading
from ktui.cluster.partition import Replica, TopicPartition
from ktui.recording.codec import Decoder
from ktui.recording.reading import BadLine, GoodLine, read_lines
from ktui.recording.segments import Head, LostPollLine, PollLine, RunLine, files_under, to_ms

Row = tuple[Any, ...]
_ONCE = 50_000
"""The rows that are held before they are written."""
_BROKERS = pa.list_(pa.int32())
LINES = pa.schema(
    {
        "cluster_id": pa.string(),
        "session": pa.string(),
        "seq": pa.int64(),
        "segment": pa.string(),
        "line": pa.int32(),
        "sha": pa.string(),
        "kind": pa.string(),
        "at_ms": pa.int64(),
        "ms": pa.int64(),
        "decoded": pa.bool_(),
        "took_ms": pa.int64(),
        "controller": pa.int32(),
        "brokers": _BROKERS,
        "alive": _BROKERS,
        "reassigning": pa.int32(),
        "failures": pa.list_(pa.string()),
        "run": pa.string(),
        "run_id": pa.string(),
        "entry": pa.int64(),
        "event": pa.string(),
        "reason": pa.string(),
        "program": pa.string(),
    }
)


def _figures(**names: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct({"broker": pa.int32(), **names}))


SAMPLES = pa.schema(
    {
        "cluster_id": pa.string(),
        "session": pa.string(),
        "seq": pa.int64(),
        "took_ms": pa.int64(),
        "topic": pa.string(),
        "topic_id": pa.string(),
        "partition": pa.int32(),
        "replicas": _BROKERS,
        "isr": _BROKERS,
        "leader": pa.int32(),
        "leader_epoch": pa.int32(),
        "adding": _BROKERS,
        "removing": _BROKERS,
        "offline": _BROKERS,
        "elr": _BROKERS,
        "described": pa.bool_(),
        "ends": _figures(end=pa.int64(), read_ms=pa.int64()),
        "log_start": pa.int64(),
        "log_start_read_ms": pa.int64(),
        "sizes": _figures(bytes=pa.int64(), read_ms=pa.int64()),
        "rates": _figures(follower=pa.int64(), leader=pa.int64()),
        "down": _BROKERS,
        "ms": pa.int64(),
        "segment": pa.string(),
        "line": pa.int32(),
    }
)
"""The samples with times of the recorder's monotonic clock, ms."""


def decode(recordings: Path, folder: Path) -> None:
    """Decode all segments under a folder into `lines` and `samples` of another one.

    Raises:
        SystemExit: a line is damaged; the other tables would not be those of the lake.
    """
    files = list(enumerate(files_under(recordings)))
    for name in ("lines", "samples"):
        (folder / name).mkdir(parents=True)
    with ProcessPoolExecutor() as processes:
        list(processes.map(partial(_decode_file, folder), files))


def _decode_file(folder: Path, file: tuple[int, Path]) -> None:
    number, path = file
    content = path.read_bytes()
    lines: list[Row] = []
    samples: list[Row] = []
    with pq.ParquetWriter(folder / "samples" / f"{number}.parquet", SAMPLES) as writer:
        for line, of_line in _rows(path, content):
            lines.append(line)
            samples += of_line
            if len(samples) >= _ONCE:
                writer.write_table(_table(samples, SAMPLES))
                samples.clear()
        writer.write_table(_table(samples, SAMPLES))
    pq.write_table(_table(lines, LINES), folder / "lines" / f"{number}.parquet")


def _table(rows: list[Row], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [() for _ in schema]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _rows(path: Path, content: bytes) -> Iterator[tuple[Row, Iterable[Row]]]:
    """Yield each line of a segment with its samples."""
    segment = hashlib.sha256(content).hexdigest()[:16]
    head, decoder = None, Decoder("")
    for each in read_lines(content):
        if isinstance(each, BadLine):
            raise SystemExit(f"not measured: {path}:{each.number}: {each.reason}")
        line = each.line
        if isinstance(line, Head):
            head, decoder = line, Decoder(line.cluster_id)
        elif head is None:
            raise SystemExit(f"not measured: {path}: there is no head")
        seen = decoder.observation(line) if isinstance(line, PollLine) else None
        where = (segment, each.number)
        row = _line(head, each, where, seen)
        of_line = () if seen is None else _samples(head, seen, (line.ms, *where), line.seq)
        yield row, of_line


def _line(head: Head, good: GoodLine, where: Row, seen: Observation | None) -> Row:
    line = good.line
    poll: Row = (None,) * 6
    run: Row = (None,) * 4
    if seen is not None:
        poll = (
            to_ms(seen.took_s),
            seen.controller,
            sorted(seen.brokers),
            sorted(seen.online),
            len(seen.reassigning),
            [failure.sentence for failure in seen.failures],
        )
    if isinstance(line, RunLine):
        run = (line.run, line.run_id, line.entry, bytes(line.event).decode())
    reason = line.reason if isinstance(line, LostPollLine) else None
    kind, sha = str(line.__struct_config__.tag), hashlib.sha256(good.text).hexdigest()
    names = (head.cluster_id, head.session, line.seq)
    program = line.program if isinstance(line, Head) else None
    return (*names, *where, sha, kind, line.at, line.ms, True, *poll, *run, reason, program)


def _samples(head: Head, seen: Observation, where: Row, seq: int) -> Iterator[Row]:
    ends, sizes, alive = _by_partition(seen.ends), _by_partition(seen.sizes), seen.online
    rates = {
        broker: (broker, config.follower_throttle_rate, config.leader_throttle_rate)
        for broker, config in seen.broker_configs.items()
        if (config.follower_throttle_rate, config.leader_throttle_rate) != (None, None)
    }
    poll = (head.cluster_id, head.session, seq, to_ms(seen.took_s))
    for tp, state in seen.partitions.items():
        start = seen.starts.get(tp)
        yield (
            *poll,
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
            [rates[broker] for broker in sorted(state.replicas) if broker in rates],
            [broker for broker in state.replicas if broker not in alive],
            *where,
        )


def _by_partition(
    figures: Mapping[Replica, Reading],
) -> Mapping[TopicPartition, list[tuple[int, int, int]]]:
    found: defaultdict[TopicPartition, list[tuple[int, int, int]]] = defaultdict(list)
    for replica, reading in figures.items():
        found[replica.tp].append((replica.broker, reading.value, to_ms(reading.at_s)))
    return found
