"""Reading of a plan's file: fast if the file is valid, with every mistake reported if not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from ktui.inputfile import TooLarge, Unreadable, read_input
from ktui.planning.names import log_dir_problem, topic_name_problem
from ktui.planning.plan import MOST_BYTES, MOST_PARTITIONS, PartitionTarget, Plan
from ktui.planning.read.diagnose import PlanText
from ktui.planning.read.problems import BadPlan, FilePosition, Problem, Problems

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

    Saved output of that tool's --execute or --generate, with its headings, is a plan, too.

    Raises:
        BadPlan: the plan cannot be used; holds every problem at once.
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
    """Whether the decoded values are valid and no key occurred twice.

    A valid plan has no colon in its strings, so it has as many colons as keys. A further colon
    means that a repeated key has overwritten an earlier one.
    """
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
