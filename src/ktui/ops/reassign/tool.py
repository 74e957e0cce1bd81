"""The words, the order and the files of kafka-reassign-partitions, as scripts know them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from ktui.cluster.partition import Brokers, Reassignment, Replica, TopicPartition
from ktui.cluster.text import clean
from ktui.execution import RunProblem
from ktui.inputfile import Unreadable, read_input, read_pipe
from ktui.planning.plan import ANY_LOG_DIR, LARGEST, MOST_BYTES, VERSION

T = TypeVar("T")


class ReassignProblem(RunProblem):
    """An action cannot be carried out. The message is that of kafka-reassign-partitions."""


class ActionFailed(Exception):
    """An action has failed, in part or as a whole. The message is all that is printed."""


_JAVA = "org.apache.kafka.common.errors"
UNKNOWN_BROKER = "Unknown broker id {names}"
UNKNOWN_TOPIC = f"{_JAVA}.UnknownTopicOrPartitionException: Topic {{names}} not found."
UNKNOWN_PARTITIONS = (
    f"{_JAVA}.UnknownTopicOrPartitionException: Unable to find partition: {{names}}"
)
UNSUPPORTED_BY_CONTROLLER = (
    f"{_JAVA}.UnsupportedEndpointTypeException: This Admin API is not yet supported when "
    "communicating directly with the controller quorum."
)
EXISTING_REASSIGNMENT = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to "
    "override this and create a new partition assignment in addition to the existing one. The "
    "--additional flag can also be used to change the throttle by resubmitting the current "
    "reassignment."
)
THROTTLE_WARNING = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed."
)
THROTTLE_SET = "The inter-broker throttle limit was set to {} B/s"
LOG_DIR_THROTTLE_SET = "The replica-alter-dir throttle limit was set to {} B/s"
BROKERS_CLEARED = "Clearing broker-level throttles on broker{s} {names}"
TOPICS_CLEARED = "Clearing topic-level throttles on topic{s} {names}"
STARTED = "Successfully started partition reassignment{s} for {names}"
NOT_STARTED = "Error reassigning partition(s):"
CANCELLED = "Successfully cancelled partition reassignment{s} for: {names}"
NOT_CANCELLED = "Error cancelling partition reassignment{s} for:"
NOTHING_TO_CANCEL = "None of the specified partition reassignments are active."
NO_MOVES_TO_CANCEL = "None of the specified partition moves are active."
"""Kafka's tool prints this without a line end: its next line follows on the same one."""
MOVES_TIMED_OUT = "Timed out before log directory move{s} could be started for: {names}"
MOVE_FAILED = "Failed to alter dir for {names}"


def in_order(things: Iterable[T]) -> list[T]:
    """Sort brokers, topics, partitions or replicas as Java does, text by its UTF-16 code units."""
    return sorted(things, key=_rank)


def _rank(thing: object) -> tuple[Any, ...]:
    match thing:
        case TopicPartition(topic=topic, partition=partition):
            return (*_rank(topic), partition)
        case Replica(tp=tp, broker=broker):
            return (broker, *_rank(tp))
        case str():
            return (thing.encode("utf-16-be", "surrogatepass"),)
    return (thing,)


def name_of(thing: object) -> str:
    """Return Kafka's notation, in which a replica is `topic-partition-broker`."""
    return clean(f"{thing.tp}-{thing.broker}" if isinstance(thing, Replica) else str(thing))


def line(words: str, things: Collection[object], comma: str = ",") -> str:
    """Return a line about brokers, topics, partitions or replicas: their {names}, and an {s}."""
    names = comma.join(map(name_of, in_order(things)))
    return words.format(s="" if len(things) == 1 else "s", names=names)


def errors_text(words: str, errors: Mapping[TopicPartition, str]) -> str:
    """Return the partitions of which something failed, each with its error."""
    return "\n".join(
        [line(words, errors), *(f"{name_of(t)}: {errors[t]}" for t in in_order(errors))]
    )


def reassignments_text(listed: Mapping[TopicPartition, Reassignment]) -> str:
    """Return the output of --list."""
    if not listed:
        return "No partition reassignments found."
    lines = (_reassignment_line(tp, listed[tp]) for tp in in_order(listed))
    return "\n".join(["Current partition reassignments:", *lines])


def _reassignment_line(tp: TopicPartition, listed: Reassignment) -> str:
    changes = (("adding", listed.adding), ("removing", listed.removing))
    parts = [f" {word}: {_ids(brokers)}." for word, brokers in changes if brokers]
    return f"{name_of(tp)}: replicas: {_ids(listed.replicas)}.{''.join(parts)}"


def _ids(brokers: Collection[int]) -> str:
    return ",".join(map(str, brokers))


def moves_started_text(log_dirs: Mapping[Replica, str]) -> str:
    """Return the replicas that began to move to a log dir; each line ends with a blank."""
    return "\n".join(
        f"Successfully started moving log directory to {clean(log_dirs[replica])} for replica "
        f"{name_of(replica.tp)} with broker {replica.broker} "
        for replica in in_order(log_dirs)
    )


class Verified(NamedTuple):
    """What --verify finds of a partition, or of a replica for which a file names a log dir."""

    line: str
    done: bool  # whether nothing moves, wherever the replicas are


def verified_partitions(
    targets: Mapping[TopicPartition, Brokers],
    listed: Collection[TopicPartition],
    described: Mapping[TopicPartition, Brokers],
) -> dict[TopicPartition, Verified]:
    """Verify each partition of a file, in the order of the lines."""
    found = {}
    for tp in in_order(targets):
        name, current, target = name_of(tp), described.get(tp, ()), targets[tp]
        if tp in listed:
            words = f"Reassignment of partition {name} is still in progress."
        elif current == target:
            words = f"Reassignment of partition {name} is completed."
        else:
            words = (
                f"There is no active reassignment of partition {name}, "
                f"but replica set is {_ids(current)} rather than {_ids(target)}."
            )
        found[tp] = Verified(words, tp not in listed)
    return found


def verified_log_dirs(
    targets: Mapping[Replica, str],
    current: Mapping[Replica, str | None],
    future: Mapping[Replica, str],
) -> dict[Replica, Verified]:
    """Verify each replica for which a file names a log dir, in the order of the lines.

    Args:
        current: the log dir of each replica; None where no live log dir has the replica. A replica
            whose broker did not answer for it is not in there.
    """
    found = {}
    for replica in in_order(targets):
        known, now, coming = replica in current, current.get(replica), future.get(replica)
        words, done = _log_dir(replica, targets[replica], now, coming, known=known)
        found[replica] = Verified(words, done)
    return found


def _log_dir(
    replica: Replica, target: str, now: str | None, coming: str | None, *, known: bool
) -> tuple[str, bool]:
    move = f"Reassignment of replica {name_of(replica)}"
    partition, broker = f"Partition {name_of(replica.tp)}", f"on broker {replica.broker}"
    if not known:
        return f"{partition} cannot be found in any live log directory {broker}.", False
    if now is None:
        offline = "There is likely an offline log directory on the broker."
        return f"{partition} is not found in any live log dir {broker}. {offline}", False
    if coming == target:
        return f"{move} is still in progress.", False
    if coming is not None:
        away = f"{clean(coming)} instead of {clean(target)}"
        return f"{partition} {broker} is being moved to log dir {away}.", False
    if now == target:
        return f"{move} completed successfully.", True
    stays = f"from log dir {clean(now)} to {clean(target)}"
    return f"{partition} {broker} is not being moved {stays}.", True


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
    topics = tuple(_checked(_field(_checked(row, _OBJECT), "topic"), _STRING) for row in rows)
    if repeated := ", ".join(in_order(_repeated(topics))):
        raise ReassignProblem(
            f"List of topics to reassign contains duplicate entries: [{clean(repeated)}]"
        )
    return topics


def parse_broker_list(text: str) -> Brokers:
    """Parse broker ids such as `0,1,2`, without blanks; commas at the end are ignored."""
    listed = text.rstrip(",")
    if text and not listed:
        return ()
    brokers = tuple(map(_parse_id, listed.split(",")))
    if repeated := sorted(_repeated(brokers)):
        raise ReassignProblem(f"Broker list contains duplicate entries: {repeated}")
    return brokers


def _parse_id(text: str) -> int:
    if not re.fullmatch(r"[+-]?0*[0-9]{1,10}", text) or not -LARGEST - 1 <= int(text) <= LARGEST:
        raise ReassignProblem(f'For input string: "{clean(text)}"')
    return int(text)


def check_executable(file: ReassignmentFile) -> None:
    """Check what --execute needs beyond a file that can be parsed."""
    if not file.rows:
        raise ReassignProblem("Partition reassignment list cannot be empty")
    if not all(row.replicas for row in file.rows):
        raise ReassignProblem("Partition replica list cannot be empty")
    if tps := _repeated(row.tp for row in file.rows):
        twice = "Partition reassignment contains duplicate topic partitions: {names}"
        raise ReassignProblem(line(twice, tps))
    doubled = [(name_of(row.tp), sorted(_repeated(row.replicas))) for row in file.rows]
    if problems := [
        f"{tp} contains multiple entries for {_ids(ids)}" for tp, ids in doubled if ids
    ]:
        raise ReassignProblem(
            f"Partition replica lists may not contain duplicate entries: {'. '.join(problems)}"
        )


def assignment_json(
    replicas: Mapping[TopicPartition, Brokers],
    log_dirs: Mapping[Replica, str] = MappingProxyType({}),
) -> str:
    """Format an assignment as a reassignment file of one line."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "replicas": replicas[tp],
            "log_dirs": [log_dirs.get(Replica(tp, b), ANY_LOG_DIR) for b in replicas[tp]],
        }
        for tp in in_order(replicas)
    ]
    return msgspec.json.encode({"version": VERSION, "partitions": rows}).decode()


def _rows(content: Mapping[str, Any], key: str) -> list[Any]:
    version = _integer(content.get("version", VERSION))
    if version != VERSION:
        raise ReassignProblem(f"Not supported version field value {version}")
    rows: list[Any] = _checked(content.get(key, []), _ARRAY)
    return rows


def _reassignment_row(row: object) -> ReassignmentRow:
    fields = _checked(row, _OBJECT)
    topic = _checked(_field(fields, "topic"), _STRING)
    tp = TopicPartition(topic, _integer(_field(fields, "partition")))
    replicas = tuple(map(_integer, _checked(_field(fields, "replicas"), _VALUES)))
    if "log_dirs" not in fields:
        return ReassignmentRow(tp, replicas, (None,) * len(replicas))
    log_dirs = tuple(_checked(each, _STRING) for each in _checked(fields["log_dirs"], _VALUES))
    if len(log_dirs) != len(replicas):
        brokers, dirs = (clean(f"[{', '.join(map(str, some))}]") for some in (replicas, log_dirs))
        raise ReassignProblem(
            f"Size of replicas list {brokers} is different from size of log dirs list {dirs} for "
            f"partition {name_of(tp)}"
        )
    wishes = tuple(None if log_dir == ANY_LOG_DIR else log_dir for log_dir in log_dirs)
    return ReassignmentRow(tp, replicas, wishes)


def _repeated(values: Iterable[T]) -> list[T]:
    return [value for value, count in Counter(values).items() if count > 1]


class _Expected(NamedTuple):
    kind: type
    words: str


_OBJECT, _ARRAY = _Expected(dict, "JSON object"), _Expected(list, "JSON array")
_VALUES, _STRING = _Expected(list, "`JSON array` value"), _Expected(str, "`String` value")


def _checked(value: Any, expected: _Expected) -> Any:
    if not isinstance(value, expected.kind):
        raise ReassignProblem(f"Expected {expected.words}, received {_as_json(value)}")
    return value


def _integer(value: object) -> int:
    """Return a value that has to be an integer of 32 bits."""
    if type(value) is not int or not -LARGEST - 1 <= value <= LARGEST:
        raise ReassignProblem(f"Expected `Integer` value, received {_as_json(value)}")
    return value


def _field(fields: Mapping[str, Any], name: str) -> Any:
    if name not in fields:
        raise ReassignProblem(f"No such field exists: `{name}`")
    return fields[name]


_SPACE = " \t\r\n"
_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity', re.DOTALL)
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
    fields: Mapping[str, Any] = _checked(_first_value(text, start), _OBJECT)
    return fields


def _as_json(value: object) -> str:
    try:
        return clean(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    except RecursionError:
        raise _JsonSyntaxProblem(_TOO_DEEP) from None


def _first_value(text: str, start: int) -> object:
    try:
        value, _ = _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        if error.msg.startswith("Unterminated string") or not text[error.pos :].strip(_SPACE):
            raise _JsonSyntaxProblem(
                f"Unexpected end-of-input at {_place(text, len(text))}: the JSON is not complete"
            ) from None
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


def _bad_character(text: str, at: int, why: str) -> _JsonSyntaxProblem:
    code = ord(text[at])
    wide = f" / 0x{code:x}" if code > 0xFF else ""  # noqa: PLR2004 - the end of Latin-1
    shown = f"'{clean(text[at])}' (code {code}{wide})"
    if code < ord(" "):
        shown = f"(CTRL-CHAR, code {code})"
    return _JsonSyntaxProblem(f"Unexpected character ({shown}) at {_place(text, at)}: {why}")


def _place(text: str, at: int) -> str:
    row, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
    return f"line {row}, column {column}"
