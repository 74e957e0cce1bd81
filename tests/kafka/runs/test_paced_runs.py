"""Paced runs on real brokers, checked against the controller's own record."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import SetLimits
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import LimitsChanged, StepBegun
from ktui.execution.run.states import State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import assign_round_robin
from ktui.lab.layout import Lab
from ktui.pacing.limits import Limits, Shape
from support.kafka.acked_messages import AckedMessages
from support.kafka.metadata_log import PartitionRecord, alters, elected, partition_records
from support.kafka.real_runs import RealRun
from support.kafka.slow_topic import filled_topic
from support.rule_book import Taken, full_limits

MIB = 1024 * 1024
Replicas = tuple[int, ...]
OLD, NEW = (1, 2, 3, 4, 5), (6, 7, 8, 9, 10)  # the example of KIP-435, which takes ten brokers
PARTITIONS = 24
EVERY_EVENTS = 6  # so many events are between two changes of limits
LIFTED: dict[str, int | str | None] = dict.fromkeys(
    ("replicas", "partitions", "replica-movements"), "none"
)


def moved_while_used(
    lab: Lab, folder: Path, topic: str, old: Replicas, new: Replicas, limits: Limits
) -> list[PartitionRecord]:
    """Move a partition to other brokers while it is written to."""
    connection = Connection.to(lab.bootstrap_servers)
    with filled_topic(connection, topic, [old], bytes_each=MIB):
        run = RealRun(lab, folder, {TopicPartition(topic, 0): new}, limits, poll_s=0.2)
        with AckedMessages(connection, topic, 1, every_s=0.02) as messages:
            ended = asyncio.run(run.to_its_end())
        assert ended.counts[State.DONE] == 1
        assert messages.acknowledged
        assert not messages.missing
        assert not messages.failed
        return partition_records(lab, topic)


def bumps(records: list[PartitionRecord]) -> int:
    """Count the changes that raised the leader epoch."""
    return sum(record.leader is not None for record in records if not record.created)


def test_kip_435_takes_exactly_its_steps(lab: Lab, topic_name: str, tmp_path: Path) -> None:
    limits = Limits(replicas=1, shape=Shape.KIP_435)
    records = moved_while_used(lab, tmp_path, topic_name, (1, 2), (3, 4), limits)

    assert [alter.target for alter in alters(records)] == [(3, 1, 2), (3, 2), (3, 4)]
    assert elected(records) == [3]
    assert bumps(records) == 3


def test_the_gentle_shape_raises_the_leader_epoch_once(
    lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, shape=Shape.GENTLE)
    records = moved_while_used(lab, tmp_path, topic_name, (1, 2), (3, 4), limits)

    assert [alter.target for alter in alters(records)] == [(1, 2, 3), (1, 2, 3, 4), (3, 4)]
    assert bumps(records) == 1
    assert [record.leader for record in records if record.leader is not None][-1] == 3


@pytest.mark.soak
def test_the_example_of_kip_435_takes_exactly_the_steps_of_the_proposal(
    ten_lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    limits = Limits(replicas=2, shape=Shape.KIP_435)
    records = moved_while_used(ten_lab, tmp_path, topic_name, OLD, NEW, limits)

    assert [alter.target for alter in alters(records)] == [
        (6, 1, 2, 3, 4, 5),
        (6, 7, 3, 4, 5),
        (6, 7, 8, 9, 5),
        (6, 7, 8, 9, 10),
    ]
    assert elected(records) == [6]
    assert bumps(records) == 4


@pytest.mark.soak
def test_the_gentle_shape_raises_the_leader_epoch_once_in_the_example_of_kip_435(
    ten_lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    limits = Limits(replicas=2, shape=Shape.GENTLE)
    records = moved_while_used(ten_lab, tmp_path, topic_name, OLD, NEW, limits)

    assert [alter.target for alter in alters(records)] == [
        (*OLD, 6, 7),
        (*OLD, 6, 7, 8, 9),
        (*OLD, *NEW),
        NEW,
    ]
    assert bumps(records) == 1
    assert [record.leader for record in records if record.leader is not None][-1] == 6


def test_limits_changed_twenty_times_mid_run_bind_every_decision_after_them(
    lab: Lab, topic_name: str, tmp_path: Path
) -> None:
    connection, topic = Connection.to(lab.bootstrap_servers), topic_name
    targets = {
        TopicPartition(topic, n): tuple(replicas)
        for n, replicas in enumerate(assign_round_robin(PARTITIONS, 3, (4, 5, 1, 2, 3)))
    }
    start = Limits(replicas=1, partitions=2, replica_movements=3)
    before = assign_round_robin(PARTITIONS, 3, (1, 2, 3, 4, 5))
    with filled_topic(connection, topic, before, bytes_each=MIB // 8):
        run = RealRun(lab, tmp_path, targets, start, poll_s=0.2)

        changes = asyncio.run(_with_changing_limits(run, random.Random(435), 20))  # noqa: S311 - a seed

        assert changes == 20
        assert run.run.counts[State.DONE] == PARTITIONS
        _assert_within_limits(partition_records(lab, topic), targets, _limits_of_each_step(run))


def _assert_within_limits(
    records: Iterable[PartitionRecord],
    targets: Mapping[TopicPartition, Replicas],
    in_force: Mapping[tuple[TopicPartition, Replicas], Limits],
) -> None:
    """Assert that no step exceeded the limits in force when it was submitted."""
    replicas: dict[TopicPartition, Replicas] = {}
    adding: dict[TopicPartition, Replicas] = {}
    begun: set[TopicPartition] = set()
    added: set[TopicPartition] = set()
    for record in records:
        tp = record.tp
        replicas[tp] = record.replicas or replicas[tp]
        adding[tp] = adding.get(tp, ()) if record.adding is None else record.adding
        if record.adding and record.replicas:
            requested = tuple(b for b in record.replicas if b not in (record.removing or ()))
            limits = in_force[tp, requested]
            assert len(record.adding) <= (limits.replicas or 99)
            moving = {each: more for each, more in adding.items() if more and each != tp}
            between = set() if tp in begun else begun - added - moving.keys()
            beside = [Taken(tp=each, adds=more, holds_place=True) for each, more in moving.items()]
            beside += [Taken(tp=each, holds_place=True) for each in between]
            taken = Taken(tp=tp, adds=record.adding, holds_place=True)
            assert not full_limits(limits, taken, beside, {})
            begun.add(tp)
        elif not adding[tp] and {*targets[tp]} <= {*replicas[tp]}:
            added.add(tp)
    assert begun == added == targets.keys()


async def _with_changing_limits(run: RealRun, chance: random.Random, count: int) -> int:
    """Run an engine while limits change with almost every decision; the last lifts them."""
    await run.start()
    engine = asyncio.create_task(run.execute())
    changes, last_seen = 0, 0
    while not engine.done():
        await asyncio.sleep(0.05)
        with Journal.open(run.path, run.clock) as journal:
            if changes < count and journal.last_seq() >= last_seen + EVERY_EVENTS:
                last_seen = journal.last_seq()
                changes += 1
                options = LIFTED if changes == count else _some_limits(chance)
                journal.ask(SetLimits(options), "another shell")
    await engine
    return changes


def _some_limits(chance: random.Random) -> dict[str, int | str | None]:
    return {
        "replicas": chance.choice((1, 2, 3, "none")),
        "partitions": chance.choice((1, 2, 4, 8)),
        "replica-movements": chance.choice((3, 4, 9, "none")),
    }


def _limits_of_each_step(run: RealRun) -> dict[tuple[TopicPartition, tuple[int, ...]], Limits]:
    limits, found = run.limits, {}
    for event in run.events:
        if isinstance(event, LimitsChanged):
            limits = event.new
        elif isinstance(event, StepBegun):
            found[event.tp, event.replicas] = limits
    return found
