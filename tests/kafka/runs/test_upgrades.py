"""A cluster is upgraded, node by node, during a run and during the removal of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import Ended, JournalEntry, StateEntered, StepBegun, StepOver
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.workload import create_topic, fill
from ktui.lab import control
from ktui.lab.layout import VERSIONS, Lab
from ktui.lab.nodes import wait_for
from ktui.lab.security import librdkafka_settings
from ktui.lab.up import LabRequest
from support.cli.shell import Shell, ended
from support.contract.world import until
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
from support.schedules.nodes import Nodes, finalize, in_turn, restarted_on, with_version

pytestmark = [pytest.mark.soak, pytest.mark.kafka]

OLD, NEW = VERSIONS[-1], VERSIONS[0]
RUN, MOVED, GROWS = "upgraded", "moved", "then-grows"
WAYS = [((1, 2), (2, 3)), ((2, 3), (3, 1)), ((3, 1), (1, 2)), ((2, 1), (1, 3))] * 4
DOWN, MIB = 2, 1024 * 1024
GROWN = (1, DOWN, 3)
THREE = LabRequest(brokers=3, controllers=3, version=OLD)

FOUR = LabRequest(brokers=4, controllers=3, version="4.3.1")
REFUSES = "4.4.0"  # refuses targets with cordoned brokers, which the release before accepts
REMOVED = 4
DEMOTE, DRAIN = f"demote-{REMOVED}", f"drain-{REMOVED}"
LAYOUTS: dict[str, list[tuple[int, ...]]] = {
    "threes": [(REMOVED, 1, 2), (2, REMOVED, 3), (3, 1, REMOVED)] * 3,
    "twos": [(REMOVED, 1), (2, REMOVED)] * 3,
    "ones": [(REMOVED,)] * 3,
}
VERB = ("broker", "remove", str(REMOVED), "--yes")
REMOVE = (
    *(*VERB, "--until-empty"),
    *("--partitions", "1", "--throttle", "150kB", "--poll", "500ms"),
)


@pytest.fixture
def old_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    yield from a_lab(tmp_path / "lab", request.param)


@pytest.fixture
def shell(old_lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(old_lab, tmp_path)
    yield shell
    shell.close()


@pytest.mark.parametrize("old_lab", [THREE], indirect=True)
async def test_a_run_continues_through_a_rolling_upgrade_and_then_follows_the_newer_rules(
    old_lab: Lab, shell: Shell
) -> None:
    connection = Connection.of(librdkafka_settings(old_lab), where="the lab")
    create_topic(connection, MOVED, [before for before, _ in WAYS])
    create_topic(connection, GROWS, [(1, DOWN)])
    fill(connection, MOVED, range(len(WAYS)), bytes_each=2 * MIB)
    newer = with_version(old_lab, NEW)
    with AckedMessages(connection, MOVED, len(WAYS), every_s=0.02, group="readers") as messages:
        assert wait_for(lambda: bool(messages.read), seconds=60)
        before = all_settings(connection)
        start(shell)
        over_before = len(shell.events(RUN, StepOver))
        for node in in_turn(old_lab):
            await restarted_on(newer, node)
        over_meanwhile = len(shell.events(RUN, StepOver)) - over_before
        assert not all_are_done(shell)
        assert shell.ktui("throttle", RUN, "none").returncode == 0
        assert wait_for(lambda: all_are_done(shell), seconds=180), shell.log(RUN)

        # A kept replica is down: before 4.3 no step would complete, so none begins.
        await asyncio.to_thread(Nodes(newer).kill, DOWN)
        await until(lambda: is_out_of_sync(connection))
        assert shell.ktui("continue", RUN, "--topic", GROWS).returncode == 0
        await wait_for_entry(shell, is_blocked)
        assert not [step for step in shell.events(RUN, StepBegun) if step.topic == GROWS]
        finalize(newer, NEW.rpartition(".")[0])
        await wait_for_entry(shell, has_grown)
        control.start(newer, DOWN)
        shell.wait_for(RUN, Ended)

    assert not messages.missing
    assert len(messages.acknowledged) > 0
    assert over_meanwhile > 0, "no step was over while nodes were restarted"
    (counts,) = [ended.counts for ended in shell.events(RUN, Ended)]
    assert counts == {State.DONE: len(WAYS) + 1}
    decisions = assert_rules_kept(newer, shell, [RUN], [MOVED, GROWS])
    assert decisions > len(WAYS)
    found = await described(connection, MOVED) | await described(connection, GROWS)
    expected: dict[TopicPartition, tuple[int, ...]]
    expected = {TopicPartition(MOVED, n): after for n, (_, after) in enumerate(WAYS)}
    expected[TopicPartition(GROWS, 0)] = GROWN
    assert {tp: state.replicas for tp, state in found.items()} == expected
    assert not left_over(connection, before, "throttled")


def start(shell: Shell) -> None:
    """Start a run of one partition at a time, slow enough to last through the upgrade."""
    targets = [
        {"topic": MOVED, "partition": number, "replicas": list(after)}
        for number, (_, after) in enumerate(WAYS)
    ]
    grows = {"topic": GROWS, "partition": 0, "replicas": list(GROWN)}
    words = ("--partitions", "1", "--throttle", "150kB", "--poll", "500ms", "--headless")
    factor = "--allow-replication-factor-change"
    shell.begin("start", shell.plan(RUN, [*targets, grows]), factor, *words)
    shell.wait_for(RUN, StepBegun)
    assert shell.ktui("pause", RUN, "--topic", GROWS).returncode == 0


def all_are_done(shell: Shell) -> bool:
    """Whether every partition that is not held back has reached its target."""
    return Run(RUN).fold(shell.entries(RUN)).counts[State.DONE] == len(WAYS)


async def wait_for_entry(shell: Shell, moment: Callable[[JournalEntry], bool]) -> None:
    async def seen() -> bool:
        return any(map(moment, shell.entries(RUN)))

    await until(seen, limit_s=180)


async def is_out_of_sync(connection: Connection) -> bool:
    (state,) = (await described(connection, GROWS)).values()
    return DOWN not in state.isr and DOWN in state.offline


def is_blocked(entry: JournalEntry) -> bool:
    event = entry.event
    return (
        isinstance(event, StateEntered)
        and (event.topic, event.state) == (GROWS, State.BLOCKED)
        and f"broker {DOWN}" in event.reason
    )


def has_grown(entry: JournalEntry) -> bool:
    return isinstance(entry.event, StepOver) and entry.event.topic == GROWS


@pytest.mark.parametrize("old_lab", [FOUR], indirect=True)
async def test_a_removal_lasts_through_an_upgrade_to_a_kafka_that_refuses_its_broker_and_is_undone(
    old_lab: Lab, shell: Shell
) -> None:
    connection = Connection.of(librdkafka_settings(old_lab), where="the lab")
    for topic, lists in LAYOUTS.items():
        create_topic(connection, topic, lists)
        fill(connection, topic, range(len(lists)), bytes_each=2 * MIB)
    newer = with_version(old_lab, REFUSES)
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
    assert_rules_kept(newer, shell, [DEMOTE, DRAIN], [*LAYOUTS])
    for topic, (first_replicas, *_) in LAYOUTS.items():
        for state in (await described(connection, topic)).values():
            assert REMOVED not in state.replicas
            assert len(state.replicas) == len(first_replicas)
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


def assert_rules_kept(lab: Lab, shell: Shell, runs: Sequence[str], topics: Sequence[str]) -> int:
    """Check runs by the controllers' log and their recordings; return how many decisions."""
    decisions, entries = 0, []
    for name in runs:
        entries += shell.entries(name)
        looks = recorded_looks(shell.run_dir(name).recording)
        brokers = [broker.id for broker in lab.brokers]
        replayed = Replayed(shell.entries(name), looks, brokers, 1)
        assert not list(replayed.problems()), name
        decisions += replayed.rules.decisions
    for topic, log in read_log(lab, topics).items():
        assert not against_intents(log, intents(entries))
        assert lost_in_sync(log, 1) == ([], [])
        assert not log.unclean, topic
    return decisions
