"""The files and lists that kafka-reassign-partitions takes, with its errors."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

import msgspec

from ktui.cli.reassign.printed import ReassignProblem, sorted_partitions, sorted_topics
from ktui.cluster.partition import Brokers, Replica, TopicPartition
from ktui.cluster.text import clean
from ktui.inputfile import Unreadable, read_input, read_pipe
from ktui.planning.plan import ANY_LOG_DIR, LARGEST, MOST_BYTES, VERSION

_SPACE = " \t\r\n"
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL)
_UNTERMINATED = "Unterminated string"
_TOO_DEEP = "The JSON is nested too deep"


class _JsonSyntaxProblem(ReassignProblem):
    """A text is not JSON."""


class _NotANumber(Exception):
    """NaN or an infinity, which Python reads and JSON does not have."""


def _refuse_constant(name: str) -> NoReturn:
    raise _NotANumber(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _parse_object(data: bytes) -> Mapping[str, Any]:
    """Parse the first JSON value of a file, which has to be an object."""
    text = data.decode(errors="replace")
    if not text:
        raise _JsonSyntaxProblem(
            "The input string shouldn't be empty\n at [Source: UNKNOWN; byte offset: #UNKNOWN]"
        )
    start = len(text) - len(text.lstrip(_SPACE))
    if start == len(text):
        raise ReassignProblem("Expected JSON object, received ")
    return _as_object(_first_value(text, start))


def _as_object(value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ReassignProblem(f"Expected JSON object, received {_as_json(value)}")
    return value


def _as_array(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ReassignProblem(f"Expected JSON array, received {_as_json(value)}")
    return value


def _as_string(value: object) -> str:
    if not isinstance(value, str):
        raise _unexpected("String", value)
    return value


def _as_integer(value: object) -> int:
    """Return a value that has to be an integer of 32 bits."""
    if type(value) is not int or not -LARGEST - 1 <= value <= LARGEST:
        raise _unexpected("Integer", value)
    return value


def needed(fields: Mapping[str, Any], name: str) -> object:
    """Return the value of a key that an object has to have."""
    if name not in fields:
        raise ReassignProblem(f"No such field exists: `{name}`")
    return fields[name]


def _as_values(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise _unexpected("JSON array", value)
    return value


def _unexpected(expected: str, value: object) -> ReassignProblem:
    return ReassignProblem(f"Expected `{expected}` value, received {_as_json(value)}")


def _as_json(value: object) -> str:
    try:
        return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except RecursionError:
        raise _JsonSyntaxProblem(_TOO_DEEP) from None


def _first_value(text: str, start: int) -> object:
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.msg.startswith(_UNTERMINATED) or not text[error.pos :].strip(_SPACE):
            raise _cut_off(text) from None
        why = error.msg[0].lower() + error.msg[1:].removesuffix(" at")
        raise _bad_character(text, error.pos, why) from None
    except _NotANumber as name:
        at = next(m.start() for m in _STRING_OR_CONSTANT.finditer(text) if m[0] == str(name))
        raise _bad_character(text, at, f"JSON has no {name}") from None
    except RecursionError:
        raise _JsonSyntaxProblem(_TOO_DEEP) from None
    except ValueError:
        raise _JsonSyntaxProblem("The JSON has a number of too many digits") from None
    return value


def _cut_off(text: str) -> _JsonSyntaxProblem:
    place = _place(text, len(text))
    return _JsonSyntaxProblem(f"Unexpected end-of-input at {place}: the JSON is not complete")


def _bad_character(text: str, at: int, why: str) -> _JsonSyntaxProblem:
    return _JsonSyntaxProblem(
        f"Unexpected character ({_described(text[at])}) at {_place(text, at)}: {why}"
    )


def _described(character: str) -> str:
    code = ord(character)
    if code < ord(" "):
        return f"(CTRL-CHAR, code {code})"
    wide = f" / 0x{code:x}" if code > 0xFF else ""  # noqa: PLR2004 - the end of Latin-1
    return f"'{clean(character)}' (code {code}{wide})"


def _place(text: str, at: int) -> str:
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"line {line}, column {column}"


T = TypeVar("T")


class ReassignmentRow(msgspec.Struct, frozen=True):
    """One row of a reassignment file."""

    tp: TopicPartition
    replicas: Brokers
    log_dirs: tuple[str | None, ...]  # one per replica; None where any log dir will do


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
    """Read a file that an option names."""
    try:
        return read_pipe(path, MOST_BYTES) if path.is_fifo() else read_input(path, MOST_BYTES)
    except Unreadable as why:
        raise ReassignProblem(f"Unable to read file {clean(str(path))}") from why


def parse_reassignments(data: bytes) -> ReassignmentFile:
    """Parse a reassignment file."""
    rows = _rows(_parse_object(data), "partitions")
    return ReassignmentFile(tuple(map(_reassignment_row, rows)))


def parse_topics(data: bytes) -> tuple[str, ...]:
    """Parse a file of topics to move; each is named once."""
    try:
        content = _parse_object(data)
    except _JsonSyntaxProblem:
        raise ReassignProblem("The input string is not a valid JSON") from None
    rows = _rows(content, "topics")
    topics = tuple(_as_string(needed(_as_object(row), "topic")) for row in rows)
    if repeated := ", ".join(sorted_topics(_repeated(topics))):
        raise ReassignProblem(
            f"List of topics to reassign contains duplicate entries: [{clean(repeated)}]"
        )
    return topics


def check_executable(file: ReassignmentFile) -> None:
    """Check what --execute needs beyond a file that can be parsed."""
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
    """Format an assignment as a reassignment file of one line."""
    rows = [_written_row(tp, replicas[tp], log_dirs) for tp in sorted_partitions(replicas)]
    return msgspec.json.encode(_WrittenFile(VERSION, rows)).decode()


def _rows(content: Mapping[str, Any], key: str) -> list[Any]:
    version = _as_integer(content.get("version", VERSION))
    if version != VERSION:
        raise ReassignProblem(f"Not supported version field value {version}")
    return _as_array(content.get(key, []))


def _reassignment_row(row: object) -> ReassignmentRow:
    fields = _as_object(row)
    tp = TopicPartition(
        _as_string(needed(fields, "topic")), _as_integer(needed(fields, "partition"))
    )
    replicas = tuple(map(_as_integer, _as_values(needed(fields, "replicas"))))
    if "log_dirs" not in fields:
        return ReassignmentRow(tp, replicas, (None,) * len(replicas))
    log_dirs = tuple(map(_as_string, _as_values(fields["log_dirs"])))
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


_INTEGER = re.compile(r"[+-]?0*[0-9]{1,10}")


def parse_broker_list(text: str) -> Brokers:
    """Parse broker ids such as `0,1,2`, without blanks; commas at the end are ignored."""
    listed = text.rstrip(",")
    if text and not listed:
        return ()
    brokers = tuple(map(_parse_id, listed.split(",")))
    if repeated := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
        raise ReassignProblem(f"Broker list contains duplicate entries: {repeated}")
    return brokers


def _parse_id(text: str) -> int:
    if not _INTEGER.fullmatch(text) or not -LARGEST - 1 <= int(text) <= LARGEST:
        raise ReassignProblem(f'For input string: "{clean(text)}"')
    return int(text)
