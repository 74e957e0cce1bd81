"""The JSON files that kafka-reassign-partitions reads and writes, version 1."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from ktui.cli.reassign.errors import ReassignProblem
from ktui.cli.reassign.files.json_tree import (
    JsonSyntaxProblem,
    as_array,
    as_integer,
    as_integers,
    as_object,
    as_string,
    as_strings,
    needed,
    parse_object,
)
from ktui.cli.reassign.printed.java_order import sorted_partitions, sorted_topics
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.text import clean
from ktui.inputfile import Unreadable, read_input, read_pipe
from ktui.planning.plan import ANY_LOG_DIR, MOST_BYTES, VERSION

T = TypeVar("T")


class ReassignmentRow(msgspec.Struct, frozen=True):
    """One row of a reassignment file."""

    tp: TopicPartition
    replicas: Brokers
    log_dirs: tuple[str | None, ...]
    """One per replica; None where any log dir will do."""


class ReassignmentFile(msgspec.Struct, frozen=True):
    """The rows of a reassignment file, in the file's order."""

    rows: tuple[ReassignmentRow, ...]

    @property
    def replicas(self) -> dict[TopicPartition, Brokers]:
        """The target replicas. The last row of a partition counts."""
        return {row.tp: row.replicas for row in self.rows}

    @property
    def log_dirs(self) -> dict[Replica, str]:
        """The target log dirs of the replicas that have one. The last one of a replica counts."""
        return {
            Replica(row.tp, broker): log_dir
            for row in self.rows
            for broker, log_dir in zip(row.replicas, row.log_dirs, strict=True)
            if log_dir is not None
        }


class _WrittenRow(msgspec.Struct):
    topic: str
    partition: int
    replicas: Brokers
    log_dirs: tuple[str, ...]


class _WrittenFile(msgspec.Struct):
    version: int
    partitions: list[_WrittenRow]


def read_file(path: Path) -> bytes:
    """Read a file that an option names.

    Raises:
        ReassignProblem: the file cannot be read; the cause is why.
    """
    try:
        return read_pipe(path, MOST_BYTES) if path.is_fifo() else read_input(path, MOST_BYTES)
    except Unreadable as why:
        raise ReassignProblem(f"Unable to read file {clean(str(path))}") from why


def parse_reassignments(data: bytes) -> ReassignmentFile:
    """Parse a reassignment file.

    Raises:
        ReassignProblem: the file cannot be used.
    """
    rows = _rows(parse_object(data), "partitions")
    return ReassignmentFile(tuple(map(_reassignment_row, rows)))


def parse_topics(data: bytes) -> tuple[str, ...]:
    """Parse a file of topics to move; each is named once.

    Raises:
        ReassignProblem: the file cannot be used.
    """
    try:
        content = parse_object(data)
    except JsonSyntaxProblem:
        raise ReassignProblem("The input string is not a valid JSON") from None
    rows = _rows(content, "topics")
    topics = tuple(as_string(needed(as_object(row), "topic")) for row in rows)
    if repeated := ", ".join(sorted_topics(_repeated(topics))):
        raise ReassignProblem(
            f"List of topics to reassign contains duplicate entries: [{clean(repeated)}]"
        )
    return topics


def check_executable(file: ReassignmentFile) -> None:
    """Check what --execute needs beyond a file that can be parsed.

    Raises:
        ReassignProblem: the file has no row, an empty list of replicas, or one thing twice.
    """
    if not file.rows:
        raise ReassignProblem("Partition reassignment list cannot be empty")
    if not all(row.replicas for row in file.rows):
        raise ReassignProblem("Partition replica list cannot be empty")
    if tps := sorted_partitions(_repeated(row.tp for row in file.rows)):
        raise ReassignProblem(
            "Partition reassignment contains duplicate topic partitions: "
            f"{clean(','.join(map(str, tps)))}"
        )
    doubled = [(row.tp, _repeated(row.replicas)) for row in file.rows]
    if problems := ". ".join(_multiple_entries(tp, brokers) for tp, brokers in doubled if brokers):
        raise ReassignProblem(
            f"Partition replica lists may not contain duplicate entries: {problems}"
        )


def format_assignment(
    replicas: Mapping[TopicPartition, Brokers],
    log_dirs: Mapping[Replica, str] = MappingProxyType({}),
) -> str:
    """Format an assignment as a reassignment file of one line.

    Args:
        replicas: the replicas of each partition.
        log_dirs: their log dirs, as far as known.
    """
    rows = [_written_row(tp, replicas[tp], log_dirs) for tp in sorted_partitions(replicas)]
    return msgspec.json.encode(_WrittenFile(VERSION, rows)).decode()


def _rows(content: Mapping[str, Any], key: str) -> list[Any]:
    version = as_integer(content.get("version", VERSION))
    if version != VERSION:
        raise ReassignProblem(f"Not supported version field value {version}")
    return as_array(content.get(key, []))


def _reassignment_row(row: object) -> ReassignmentRow:
    fields = as_object(row)
    tp = TopicPartition(as_string(needed(fields, "topic")), as_integer(needed(fields, "partition")))
    replicas = as_integers(needed(fields, "replicas"))
    if "log_dirs" not in fields:
        return ReassignmentRow(tp, replicas, (None,) * len(replicas))
    log_dirs = as_strings(fields["log_dirs"])
    if len(log_dirs) != len(replicas):
        raise ReassignProblem(
            f"Size of replicas list {_as_list(replicas)} is different from size of log dirs list "
            f"{_as_list(log_dirs)} for partition {clean(str(tp))}"
        )
    wishes = tuple(None if log_dir == ANY_LOG_DIR else log_dir for log_dir in log_dirs)
    return ReassignmentRow(tp, replicas, wishes)


def _repeated(values: Iterable[T]) -> list[T]:
    return [value for value, count in Counter(values).items() if count > 1]


def _as_list(values: Iterable[object]) -> str:
    return clean(f"[{', '.join(map(str, values))}]")


def _multiple_entries(tp: TopicPartition, brokers: Iterable[int]) -> str:
    return f"{clean(str(tp))} contains multiple entries for {','.join(map(str, sorted(brokers)))}"


def _written_row(
    tp: TopicPartition, replicas: Brokers, log_dirs: Mapping[Replica, str]
) -> _WrittenRow:
    dirs = tuple(log_dirs.get(Replica(tp, broker), ANY_LOG_DIR) for broker in replicas)
    return _WrittenRow(tp.topic, tp.partition, replicas, dirs)
