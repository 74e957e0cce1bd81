"""A cluster is upgraded from a Kafka that accepts cordoned brokers in targets to one that refuses.

It happens in the middle of a broker's removal, whose cordon stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, fill
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.lab.readiness import librdkafka_settings
from ktui.lab.up import LabRequest
from support.cli.shell import Shell, ended
from support.kafka.acked_messages import AckedMessages
from support.kafka.labs import a_lab
from support.kafka.real_runs import Settings, all_settings, changed, described
from support.schedules.log_judge import (
    Replayed,
    against_intents,
    intents,
    lost_in_sync,
    read_log,
    recorded_looks,
)
from support.schedules.nodes import finalize, in_turn, restarted_on, with_version

pytestmark = [pytest.mark.soak, pytest.mark.kafka]

OLD, NEW = "4.3.1", "4.4.0"
BROKERS, REMOVED = (1, 2, 3, 4), 4
DEMOTE, DRAIN = f"demote-{REMOVED}", f"drain-{REMOVED}"
LAYOUTS: dict[str, list[tuple[int, ...]]] = {
    "threes": [(REMOVED, 1, 2), (2, REMOVED, 3), (3, 1, REMOVED)] * 3,
    "twos": [(REMOVED, 1), (2, REMOVED)] * 3,
    "ones": [(REMOVED,)] * 3,
}
MIB = 1024 * 1024
VERB = ("broker", "remove", str(REMOVED), "--yes")
REMOVE = (
    *(*VERB, "--until-empty"),
    *("--partitions", "1", "--throttle", "150kB", "--poll", "500ms"),
)


@pytest.fixture
def old_lab(tmp_path: Path) -> Iterator[Lab]:
    yield from a_lab(tmp_path / "lab", LabRequest(brokers=4, controllers=3, version=OLD))


@pytest.fixture
def shell(old_lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(old_lab, tmp_path)
    yield shell
    shell.close()


async def test_a_removal_lasts_through_an_upgrade_to_a_kafka_that_refuses_its_broker_and_is_undone(
    old_lab: Lab, shell: Shell
) -> None:
    connection = Connection.of(librdkafka_settings(old_lab), where="the lab")
    for topic, lists in LAYOUTS.items():
        create_topic(connection, topic, lists)
        fill(connection, topic, range(len(lists)), bytes_each=2 * MIB)
    newer = with_version(old_lab, NEW)
    before = all_settings(connection)
    with AckedMessages(connection, "threes", 9, every_s=0.02, group="readers") as messages:
        assert wait_for(lambda: bool(messages.read), seconds=60)
        removal = shell.begin(*REMOVE)
        shell.wait_for(DRAIN, StepBegun)
        for node in in_turn(old_lab):
            await restarted_on(newer, node)
        over_before = len(shell.events(DRAIN, StepOver))
        finalize(newer, "4.4")
        assert not Run(DRAIN).fold(shell.entries(DRAIN)).ended
        shell.wait_for(DRAIN, StepOver, over_before + 1)
        assert shell.ktui("throttle", DRAIN, "none").returncode == 0
        first = await asyncio.to_thread(ended, removal)

    assert first.returncode == 0, (first.stdout, first.stderr, shell.log(DRAIN))
    assert f"broker {REMOVED} may be stopped now" in first.stdout
    assert not messages.missing
    counts = Run(DRAIN).fold(shell.entries(DRAIN)).counts
    assert counts[State.DONE] == sum(counts.values()) > 0
    lists = first_lists(shell)
    assert any(REMOVED in replicas for replicas in lists)
    assert any(REMOVED not in replicas for replicas in lists), "none went straight"
    await assert_rules_kept(newer, shell, connection)
    assert not left_over(connection, before, "throttled")

    undone = await asyncio.to_thread(shell.ktui, *VERB, "--undo")

    assert undone.returncode == 0, (undone.stdout, undone.stderr)
    assert await lists_of(connection) == LAYOUTS
    assert not left_over(connection, before, "throttled", "cordoned")


def left_over(connection: Connection, before: Settings, *about: str) -> dict[str, str | None]:
    """Return the changed settings of some kinds; others differ from version to version."""
    differing = changed(connection, before).items()
    return {name: value for name, value in differing if any(word in name for word in about)}


async def lists_of(connection: Connection) -> dict[str, list[tuple[int, ...]]]:
    states = {topic: await described(connection, topic) for topic in LAYOUTS}
    return {
        topic: [found[TopicPartition(topic, number)].replicas for number in range(len(found))]
        for topic, found in states.items()
    }


def first_lists(shell: Shell) -> list[tuple[int, ...]]:
    """Return the first list that the drain has sent for each partition."""
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for step in shell.events(DRAIN, StepBegun):
        if step.alters:
            found.setdefault(step.tp, step.replicas)
    return list(found.values())


async def assert_rules_kept(lab: Lab, shell: Shell, connection: Connection) -> None:
    runs = [shell.entries(DEMOTE), shell.entries(DRAIN)]
    for name, entries in zip((DEMOTE, DRAIN), runs, strict=True):
        looks = recorded_looks(shell.run_dir(name).recording)
        assert not list(Replayed(entries, looks, BROKERS, 1).problems()), name
    sent = intents([entry for entries in runs for entry in entries])
    for topic, log in read_log(lab, [*LAYOUTS]).items():
        assert not against_intents(log, sent)
        assert lost_in_sync(log, 1) == ([], [])
        assert not log.unclean, topic
        for state in (await described(connection, topic)).values():
            assert REMOVED not in state.replicas
            assert len(state.replicas) == len(LAYOUTS[topic][0])
