"""What `ktui alter-topic` is asked for: options that are checked before anything is read."""

from __future__ import annotations

import re

import msgspec

from ktui.cli.context.errors import BadInput
from ktui.cluster.partition import Brokers
from ktui.cluster.text import clean
from ktui.planning.names import join_all, join_named, topic_name_problem
from ktui.planning.plan import LARGEST
from ktui.quantities import as_count

PARTITIONS, FACTOR, ASSIGNMENT = "--partitions", "--replication-factor", "--replica-assignment"
_INTEGER = re.compile(r"[0-9]{1,10}")
_FIX = "Give the brokers of every partition, such as 0:1:2,1:2:3"


class AlterRequest(msgspec.Struct, frozen=True):
    """The topic, and what it is to have; None leaves as it is."""

    topic: str
    count: int | None
    """The number of partitions."""
    factor: int | None
    """The replication factor."""
    assignment: tuple[Brokers, ...] | None
    """The replicas of every partition."""


def read_request(
    topic: str, count: int | None, factor: int | None, assignment: str | None
) -> AlterRequest:
    """Check the options against each other.

    Raises:
        BadInput: they cannot be used; names the option and the fix.
    """
    if problem := topic_name_problem(topic):
        raise BadInput(problem)
    if count is None and factor is None and assignment is None:
        choice = join_all([f"{PARTITIONS} N", f"{FACTOR} N", f"{ASSIGNMENT} LIST"], "or")
        raise BadInput(f"there is nothing to alter. Give {choice}")
    if assignment is None:
        return AlterRequest(topic, count, factor, None)
    if factor is not None:
        raise BadInput(f"{ASSIGNMENT} names every replica already. Give it without {FACTOR}")
    parsed = parse_assignment(assignment)
    if count not in (None, len(parsed)):
        partitions = as_count(len(parsed), "partition")
        raise BadInput(
            f"{PARTITIONS} {count}: {ASSIGNMENT} has {partitions}. Leave {PARTITIONS} out, or let "
            "both agree"
        )
    return AlterRequest(topic, len(parsed), None, parsed)


def parse_assignment(text: str) -> tuple[Brokers, ...]:
    """Parse the replicas of partitions as kafka-topics does: `0:1:2,1:2:3`.

    Raises:
        BadInput: a broker is no number or doubled, or partitions differ in their number of
            replicas.
    """
    parsed = tuple(_parse_brokers(n, part) for n, part in enumerate(text.split(",")))
    for number, brokers in enumerate(parsed):
        if len(brokers) != len(parsed[0]):
            raise BadInput(
                f"{ASSIGNMENT}: partition {number} has {as_count(len(brokers), 'replica')}, and "
                f"partition 0 has {len(parsed[0])}. Give each the same number"
            )
    return parsed


def _parse_brokers(number: int, text: str) -> Brokers:
    ids = [each.strip() for each in text.split(":")]
    for each in ids:
        if not _INTEGER.fullmatch(each) or int(each) > LARGEST:
            raise BadInput(
                f"{ASSIGNMENT}: partition {number}: {clean(each)!r} is not a broker id. {_FIX}"
            )
    brokers = tuple(map(int, ids))
    if doubled := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
        named = join_named("broker", doubled)
        raise BadInput(f"{ASSIGNMENT}: partition {number} has {named} twice. Name each once")
    return brokers
