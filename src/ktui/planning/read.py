"""The slow pass over a plan's text, which finds every mistake and its position."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ktui.inputfile import TooLarge, Unreadable, read_input
from ktui.planning.json_cursor import (
    NOT_NUMBERS,
    BadPlan,
    FilePosition,
    JsonText,
    NotJson,
    Problem,
    Problems,
    decoded,
)
from ktui.planning.plan import (
    ANY_LOG_DIR,
    LARGEST,
    MOST_BYTES,
    MOST_PARTITIONS,
    VERSION,
    PartitionTarget,
    Plan,
    closest_names,
    join_all,
    log_dir_problem,
    shortened,
    topic_name_problem,
)

_FORM = '{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}'
_WHOLE = re.compile(r"-?[0-9]+")
_COMPARED = 100  # the most characters of an unknown key that are compared with known ones
_DIGITS = len(str(LARGEST))
_NEEDED = {
    "version": f'add "version": {VERSION}',
    "partitions": "name the partitions to move",
    "topic": "name the topic",
    "partition": "add the partition's number",
    "replicas": "name the brokers for the replicas",
}

Handler = Callable[[], object]


_Found = tuple[dict[str, int], dict[str, object]]  # by key: its offset, and what was read


class PlanText:
    """Parses a plan's text, and adds every mistake to `problems`."""

    def __init__(self, text: str, problems: Problems) -> None:
        self._json = JsonText(text, problems)
        self._problems = problems
        self._seen: dict[tuple[object, object], tuple[int, int]] = {}
        """The line and index at which each partition was first seen."""
        self._top = {"version": self._version, "partitions": self._partitions}
        self._of_partition: Mapping[str, Handler] = {
            "topic": self._topic,
            "partition": lambda: self._number("a partition's number"),
            "replicas": self._brokers,
            "log_dirs": self._log_dirs,
            "original_replicas": self._brokers,
        }

    def check(self) -> None:
        try:
            if self._opens("{", f"an object such as {_FORM}"):
                self._fields(self._top, optional=())
            self._json.end()
        except NotJson as stop:
            self._json.complain(stop.at, stop.problem)

    def _opens(self, mark: str, expected: str) -> bool:
        """Whether the value begins with `mark`; otherwise complain and skip the value."""
        if self._json.peek() == mark:
            return True
        at, raw = self._scalar()
        self._json.complain(at, f"expected {expected}, {_but_found(raw)}")
        return False

    def _fields(self, handlers: Mapping[str, Handler], optional: tuple[str, ...]) -> _Found:
        start, offsets, values = self._json.at, dict[str, int](), dict[str, object]()
        for key, at in self._json.members():
            handler = handlers.get(key)
            if handler is None:
                self._json.complain(at, _unknown(key[:_COMPARED], tuple(handlers)))
                self._json.skip()
                continue
            if key in offsets:
                first = self._problems.line(offsets[key])
                self._json.complain(at, f'"{key}" is given twice, first on line {first}; keep one')
            offsets[key] = at
            values[key] = handler()
        for key in handlers:
            if key not in offsets and key not in optional:
                self._json.complain(start, f'"{key}" is missing: {_NEEDED[key]}')
        return offsets, values

    def _version(self) -> None:
        at, raw = self._scalar()
        if raw != str(VERSION):
            self._json.complain(
                at, f"the version must be the number {VERSION}, {_but_found(raw)}; write {VERSION}"
            )

    def _partitions(self) -> None:
        if not self._opens("[", "a list of partitions"):
            return
        start = self._json.at
        count = 0
        for count, at in enumerate(self._json.elements(), start=1):
            if count > MOST_PARTITIONS:
                raise NotJson(at, f"more than {MOST_PARTITIONS:,} partitions: split the plan")
            self._partition(count - 1, at)
        if not count:
            self._json.complain(start, "the plan is empty: name at least one partition to move")

    def _partition(self, index: int, at: int) -> None:
        form = 'an object, {"topic": ..., "partition": ..., "replicas": [...]}'
        if not self._opens("{", form):
            return
        offsets, values = self._fields(self._of_partition, ("log_dirs", "original_replicas"))
        self._compare_lengths(values.get("replicas"), values.get("log_dirs"), offsets)
        key = (values.get("topic"), values.get("partition"))
        if None not in key:
            self._note_duplicate(key, index, at)

    def _compare_lengths(self, replicas: object, log_dirs: object, at: Mapping[str, int]) -> None:
        if isinstance(replicas, int) and isinstance(log_dirs, int) and replicas != log_dirs:
            self._problems.add(
                at["log_dirs"],
                [*self._json.path, "log_dirs"],
                f"log_dirs has {log_dirs}, replicas has {replicas}: "
                f'write "{ANY_LOG_DIR}" once for each, or leave log_dirs out',
            )

    def _note_duplicate(self, key: tuple[object, object], index: int, at: int) -> None:
        line, first = self._seen.setdefault(key, (self._problems.line(at), index))
        if first != index:
            self._json.complain(
                at,
                f"{shortened(str(key[0]))}-{key[1]} is in the plan twice, "
                f"first on line {line} as partitions[{first}]; keep one",
            )

    def _topic(self) -> str | None:
        at, raw = self._scalar()
        if not raw.startswith('"'):
            self._json.complain(at, f"expected a topic's name in double quotes, {_but_found(raw)}")
            return None
        name = decoded(raw)
        problem = topic_name_problem(name)
        if problem is not None:
            self._json.complain(at, problem)
        return name

    def _brokers(self) -> int | None:
        if not self._opens("[", "a list of broker ids, such as [1, 2, 3]"):
            return None
        start = self._json.at
        first: dict[int, int] = {}
        count = 0
        for count, at in enumerate(self._json.elements(), start=1):
            broker = self._number("a broker's id")
            if broker is None:
                continue
            if first.setdefault(broker, count - 1) != count - 1:
                self._json.complain(
                    at, f"broker {broker} is named twice, first at [{first[broker]}]; keep one"
                )
        if not count:
            self._json.complain(start, "the list is empty: name at least one broker")
        return count

    def _log_dirs(self) -> int | None:
        if not self._opens("[", f'a list, "{ANY_LOG_DIR}" or a path for each replica'):
            return None
        return sum(self._log_dir() for _ in self._json.elements())

    def _log_dir(self) -> int:
        """Parse one log dir; always 1, for the count."""
        at, raw = self._scalar()
        if not raw.startswith('"'):
            self._json.complain(
                at, f'expected "{ANY_LOG_DIR}" or a path in double quotes, {_but_found(raw)}'
            )
        elif problem := log_dir_problem(decoded(raw)):
            self._json.complain(at, problem)
        return 1

    def _number(self, what: str) -> int | None:
        at, raw = self._scalar()
        if _WHOLE.fullmatch(raw) and len(raw) <= _DIGITS and 0 <= int(raw) <= LARGEST:
            return int(raw)
        self._json.complain(
            at, f"{what} is a whole number from 0 to {LARGEST}, {_but_found(raw)}{_hint(raw)}"
        )
        return None

    def _scalar(self) -> tuple[int, str]:
        mark = self._json.peek()
        at = self._json.at
        if mark in "{[":
            self._json.skip()
            return at, mark
        return at, self._json.scalar()


@lru_cache(maxsize=100)
def _unknown(key: str, known: tuple[str, ...]) -> str:
    """Describe an unknown key. Cached: the same mistake tends to occur in every partition."""
    near = closest_names(key, known)
    hint = f'did you mean "{near[0]}"?' if near else f"known are {join_all(known)}"
    return f'unknown key "{shortened(key)}"; {hint}'


def _but_found(raw: str) -> str:
    if raw.startswith('"'):
        return f"not the text {shortened(raw)}"
    if raw in NOT_NUMBERS:
        return f"not {raw}, which JSON does not have"
    return {"{": "not an object", "[": "not a list"}.get(raw, f"not {shortened(raw)}")


def _hint(raw: str) -> str:
    if raw.startswith('"') and _WHOLE.fullmatch(raw[1:-1]):
        return "; remove the quotes"
    whole, _, rest = raw.partition(".")
    if rest and not rest.strip("0"):
        return f"; write {shortened(whole)}"
    return ""


_BOM = b"\xef\xbb\xbf"
_WIDE_BOMS = (b"\xff\xfe", b"\xfe\xff")
_CURRENT = b"Current partition replica assignment"
_PROPOSED = b"Proposed partition reassignment configuration"
_SAVE_THIS = b"Save this to use as the --reassignment-json-file option during rollback"
_OF_GENERATE = (
    "this is the output of --generate: the plan is its proposed assignment, not the current one"
)
_OF_EXECUTE = "this is the output of --execute: the plan is its current assignment, the way back"
_MADE_BY_CRUISE_CONTROL = (
    "these are proposals of Cruise Control, not a plan. Make one of them: jq '{version: 1, "
    "partitions: [.proposals[] | {topic: .topicPartition.topic, partition: "
    ".topicPartition.partition, replicas: .newReplicas}]}'"
)


class _File(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    version: Literal[1]
    partitions: Annotated[tuple[PartitionTarget, ...], msgspec.Meta(min_length=1)]


_DECODER = msgspec.json.Decoder(_File)


def read_plan(source: bytes | Path) -> Plan:
    """Read a plan (kafka-reassign-partitions' JSON, version 1, with KIP-236's original_replicas).

    That tool's saved --execute or --generate is a plan, too. BadPlan has every problem at once.
    """
    path = source if isinstance(source, Path) else None
    try:
        data = _bytes_of(source) if isinstance(source, Path) else source
        text, note = _plan_of(data)
        return Plan(_partitions(text), text, note)
    except BadPlan as bad:
        raise BadPlan(bad.problems, bad.more, path) from None


def _bytes_of(path: Path) -> bytes:
    try:
        return read_input(path, MOST_BYTES)
    except TooLarge:
        raise _too_large() from None
    except Unreadable as why:
        raise _unplaced(f"cannot be read: {why}") from None


def _plan_of(data: bytes) -> tuple[bytes, str]:
    """Return the plan in a file, on the lines that it has there, and a note on the choice."""
    current = data.find(_CURRENT)
    if current < 0 or b"{" in data[:current]:
        return data, ""
    proposed = data.find(_PROPOSED, current)
    if proposed >= 0:
        start, end, note = proposed + len(_PROPOSED), len(data), _OF_GENERATE
    else:
        start, end, note = current + len(_CURRENT), data.find(_SAVE_THIS), _OF_EXECUTE
    before = b"\n" * data.count(b"\n", 0, start)
    return before + data[start : end if end >= 0 else None], note


def _partitions(data: bytes) -> tuple[PartitionTarget, ...]:
    if len(data) > MOST_BYTES:
        raise _too_large()
    reason = "not a plan that can be read"
    if data.count(b"{") <= MOST_PARTITIONS + 1:
        try:
            partitions = _DECODER.decode(data).partitions
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            reason = str(error)
        else:
            if _is_valid(partitions, data):
                return partitions
    raise find_problems(data) or _unplaced(reason)


def _too_large() -> BadPlan:
    limit = f"{MOST_BYTES // 1024**2} MiB"
    return _unplaced(f"larger than {limit}, the most that is read: split the plan")


def _is_valid(partitions: tuple[PartitionTarget, ...], data: bytes) -> bool:
    keys = 2
    for target in partitions:
        count = len(target.replicas)
        keys += 3 + bool(target.log_dirs) + bool(target.original_replicas)
        if (
            (count > 1 and len(set(target.replicas)) != count)
            or len(target.log_dirs) not in (0, count)
            or len(set(target.original_replicas)) != len(target.original_replicas)
        ):
            return False
    return (
        keys == data.count(b":")
        and len({(p.topic, p.partition) for p in partitions}) == len(partitions)
        and not any(topic_name_problem(topic) for topic in {p.topic for p in partitions})
        and not any(log_dir_problem(name) for name in {n for p in partitions for n in p.log_dirs})
    )


def find_problems(data: bytes) -> BadPlan | None:
    """Return every problem of a plan's bytes, or None if there is none."""
    start = len(_BOM) if data.startswith(_BOM) else 0
    try:
        text = data[start:].decode()
    except UnicodeDecodeError as error:
        return BadPlan((_not_utf8(data, start + error.start),))
    problems = Problems(text)
    if start:
        problems.add(0, (), "a byte order mark (bytes ef bb bf) begins the file: save it without")
    if not text or text.isspace():
        problems.add(0, (), "the file is empty")
    elif '"proposals"' in text and '"newReplicas"' in text:
        problems.add(0, (), _MADE_BY_CRUISE_CONTROL)
    else:
        PlanText(text, problems).check()
    return problems.error() if problems else None


def _not_utf8(data: bytes, at: int) -> Problem:
    before = data[:at]
    line_start = before.rfind(b"\n") + 1
    column = len(before[line_start:].decode(errors="replace")) + 1
    wide = ", and looks like UTF-16" if data.startswith(_WIDE_BOMS) else ""
    return Problem(
        FilePosition(before.count(b"\n") + 1, column, ""),
        f"not UTF-8{wide}: byte {at:,} is {data[at]:02x}; save the file as UTF-8",
    )


def _unplaced(sentence: str) -> BadPlan:
    return BadPlan((Problem(None, sentence),))
