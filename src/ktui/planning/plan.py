"""A plan: target replicas for partitions, in the format of kafka-reassign-partitions."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import Annotated, Final

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.text import clean

VERSION = 1
MOST_BYTES = 128 * 1024 * 1024
MOST_PARTITIONS = 500_000
LARGEST = 2**31 - 1  # Kafka's broker ids and partition numbers are signed 32-bit integers
ANY_LOG_DIR: Final = "any"

PlanNumber = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
ReplicaList = Annotated[tuple[PlanNumber, ...], msgspec.Meta(min_length=1)]


class PartitionTarget(
    msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True, omit_defaults=True
):
    """The target replicas of one partition, with the preferred leader first."""

    topic: str
    partition: PlanNumber
    replicas: ReplicaList
    log_dirs: tuple[str, ...] = ()  # "any" or a path for each replica (KIP-113), or empty
    original_replicas: ReplicaList = ()  # those when the plan was made (KIP-236), or empty

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def named_log_dirs(self) -> Iterator[tuple[int, str]]:
        pairs = zip(self.replicas, self.log_dirs, strict=False)
        return ((broker, path) for broker, path in pairs if path != ANY_LOG_DIR)


class Plan(msgspec.Struct, frozen=True):
    """Targets in the order of the plan, with no partition twice."""

    partitions: tuple[PartitionTarget, ...]
    text: bytes = b""  # its file, in which messages locate partitions; empty if generated
    note: str = ""  # which part of the file is the plan, where the file holds more than a plan


def plan_as_json(plan: Plan) -> str:
    """Format the plan as JSON that Kafka's own tool reads too, one partition per line."""
    lines = ",\n".join(f"  {msgspec.json.encode(target).decode()}" for target in plan.partitions)
    return f'{{"version": {VERSION}, "partitions": [\n{lines}\n]}}\n'


LONGEST_TOPIC = 249
_LEGAL = re.compile(r"[A-Za-z0-9._-]*")
_LOG_DIR = re.compile(r"/[ -9;-z|~]*")
"""Without what the reading of plans counts: colons and braces outside the JSON's own."""
_SHOWN = 60


def topic_name_problem(name: str) -> str | None:
    """Return why no topic can have this name, or None; Kafka's own rule (Topic.validate)."""
    if not name:
        return "a topic's name cannot be empty"
    if name in {".", ".."}:
        return f'no topic can be named "{name}"'
    if len(name) > LONGEST_TOPIC:
        return f"a topic's name has at most {LONGEST_TOPIC} characters, this one {len(name):,}"
    if _LEGAL.fullmatch(name) is None:
        allowed = 'only letters A to Z, digits, ".", "_" and "-" are allowed in a name'
        return f'no topic can be named "{shortened(name)}": {allowed}'
    return None


def log_dir_problem(name: str) -> str | None:
    """Return why a plan cannot name this log dir, or None: it is "any", or a path of a broker."""
    if name == "any" or _LOG_DIR.fullmatch(name):
        return None
    if name.startswith("/"):
        return f'a log dir may have no ":", "{{", "}}" or non-ASCII character: {shortened(name)}'
    return f'a log dir is "any" or an absolute path of the broker, not "{shortened(name)}"'


def closest_names(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three known names that resemble this one, best first."""
    import difflib  # noqa: PLC0415 - slow to import, and only a mistake needs it

    return difflib.get_close_matches(name[:LONGEST_TOPIC], known)


def shortened(text: str) -> str:
    """Clean and shorten text from a file for use in a message."""
    start = clean(text[: _SHOWN + 1])
    return start if len(start) <= _SHOWN else f"{start[:_SHOWN]}…"


def join_all(names: Iterable[object], last: str = "and") -> str:
    """Join names as in a sentence: "a", "a and b", "a, b and c"."""
    words = [str(name) for name in names]
    if len(words) <= 1:
        return "".join(words)
    return f"{', '.join(words[:-1])} {last} {words[-1]}"


def join_some(names: Iterable[object], *, most: int = 3) -> str:
    """Name the first few and count the rest: "a, b, c and 9 more"."""
    words = list(names)
    rest = len(words) - most
    return join_all(words if rest <= 0 else [*words[:most], f"{rest:,} more"])


def join_named(noun: str, names: Collection[object], *, most: int = 3) -> str:
    """Name the first few after their noun: "broker 4", "brokers 4, 5 and 6"."""
    return f"{noun}{'' if len(names) == 1 else 's'} {join_some(names, most=most)}"
