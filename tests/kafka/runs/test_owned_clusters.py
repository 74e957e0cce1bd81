"""State directories compete for a real cluster, through deaths and missing permissions."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # its documented names
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from ktui.cluster.clock import SystemClock
from ktui.cluster.ownership import OwnedByOthers, OwnedHere, OwnerUnknown, Unowned
from ktui.execution.run.events import Answered, EngineLeft, StepBegun
from ktui.kafka.claim import Coordinators, KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests.groups import join_request
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose
from ktui.kafka.workload import delete_topics
from ktui.lab import security
from ktui.lab.layout import Lab
from support.cli.shell import Done, Shell, ended
from support.contract.world import until
from support.journals.journals import Owners, owner
from support.kafka.labs import Outage
from support.kafka.slow_topic import PARTITIONS, SlowTopic

SLOW = ("--headless", "--partitions", "1", "--poll", "200ms")


def a_shell(lab: Lab, folder: Path) -> Iterator[Shell]:
    folder.mkdir()
    shell = Shell(lab, folder)
    yield shell
    shell.close()


@pytest.fixture
def ada(lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    yield from a_shell(lab, tmp_path / "ada")


@pytest.fixture
def bob(lab: Lab, tmp_path: Path) -> Iterator[Shell]:
    yield from a_shell(lab, tmp_path / "bob")


@pytest.fixture
def topic(lab: Lab, topic_name: str, ada: Shell, bob: Shell) -> Iterator[SlowTopic]:
    topic = SlowTopic(lab, topic_name)
    yield topic
    topic.let_go()
    ada.close()
    bob.close()
    delete_topics(topic.connection, [topic_name])


def doctor(shell: Shell) -> str:
    """Return the first line of the doctor about the owner of the cluster."""
    done = shell.ktui("doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    what: str = json.loads(done.stdout)["findings"]["ownership"][0]["what"]
    return what


def assert_refused(done: Done, run: str) -> None:
    assert done.returncode == 2, done.stderr
    assert f"(run {run}, since " in done.stderr
    assert "--take-over" in done.stderr


def test_a_live_run_notices_a_takeover_of_its_cluster_and_sends_nothing_more(
    ada: Shell, bob: Shell, topic: SlowTopic
) -> None:
    plan = ada.plan("drain", topic.targets)
    first_run = ada.begin("start", plan, *SLOW)
    ada.wait_for("drain", Answered)
    assert_refused(bob.ktui("start", plan, *SLOW, "--name", "mine"), "drain")
    assert not bob.state.runs.exists()
    assert "drain, since" in doctor(bob)
    assert doctor(ada).startswith("this state directory owns the cluster")
    sent = len(ada.events("drain", Answered))

    taking_over = bob.begin("start", plan, *SLOW, "--name", "mine", "--take-over")
    left = ended(first_run)

    assert left.returncode == 130, left.stderr
    assert "has taken over the cluster: this engine sends nothing more" in left.stderr
    assert "(run mine, since " in ada.events("drain", EngineLeft)[-1].reason
    assert len(ada.events("drain", Answered)) == sent
    assert_refused(ada.ktui("resume", "drain", "--headless"), "mine")
    topic.let_go()
    assert ended(taking_over).returncode in (0, 3)
    assert doctor(ada) == "nobody owns the cluster"
    assert ada.ktui("resume", "drain", "--headless").returncode in (0, 3)


def test_a_run_with_a_killed_engine_keeps_the_cluster_for_its_state_directory(
    ada: Shell, bob: Shell, topic: SlowTopic
) -> None:
    plan = ada.plan("drain", topic.targets)
    first_run = ada.begin("start", plan, *SLOW)
    ada.wait_for("drain", Answered)
    os.kill(ada.owner("drain").pid, signal.SIGKILL)
    ended(first_run)

    assert_refused(bob.ktui("start", plan, *SLOW, "--name", "mine"), "drain")
    topic.let_go()
    resumed = ada.ktui("resume", "drain", "--headless")

    assert resumed.returncode == 0, resumed.stderr
    assert doctor(bob) == "nobody owns the cluster"


def test_a_run_moves_to_another_state_directory_with_its_steps_in_flight(
    ada: Shell, bob: Shell, topic: SlowTopic, tmp_path: Path
) -> None:
    plan, file = ada.plan("drain", topic.targets), str(tmp_path / "drain.run")
    first_run = ada.begin("start", plan, *SLOW)
    ada.wait_for("drain", Answered)
    first_run.send_signal(signal.SIGTERM)
    assert ended(first_run).returncode == 130
    assert ada.unowned("drain")  # the follower waits for the engine's exit, but not for long

    exported = ada.ktui("runs", "export", "drain", file)
    imported = bob.ktui("runs", "import", file)

    assert exported.returncode == 0, exported.stderr
    assert "1 step in flight goes on in Kafka" in exported.stdout
    assert imported.returncode == 0, imported.stderr
    assert_refused(ada.ktui("start", plan, *SLOW, "--name", "mine"), "drain")
    topic.let_go()
    resumed = bob.ktui("resume", "drain", "--headless")
    assert resumed.returncode == 0, resumed.stderr
    begun = [each for each in bob.events("drain", StepBegun) if each.adding]
    assert sorted(each.partition for each in begun) == list(range(PARTITIONS))
    assert "was exported to" in ada.ktui("resume", "drain", "--headless").stderr
    assert doctor(ada) == "nobody owns the cluster"


ADA, BOB = owner("ada"), owner("bob")
TESTING = Purpose("testing")


@pytest.fixture
async def owners(bootstrap: str, topic_name: str) -> AsyncIterator[Owners]:
    connection = Connection.to(bootstrap)
    owners = Owners(lambda: KafkaGroups(connection), SystemClock(), topic_name)
    yield owners
    await owners.aclose()


@pytest.fixture
async def coordinators(bootstrap: str) -> AsyncIterator[Coordinators]:
    wire = Wire(Connection.to(bootstrap))
    yield Coordinators(wire, TESTING)
    await wire.aclose()


async def test_ownership_survives_a_dead_coordinator_and_is_unknown_until_a_new_one(
    owners: Owners, coordinators: Coordinators, topic_name: str, outage: Outage
) -> None:
    ada = owners.claim_of(ADA)
    await ada.claim(take_over=False)
    coordinator = await coordinators.find(f"ktui-{topic_name}", 10.0)
    outage.kill(coordinator)

    assert isinstance(await ada.check(), OwnerUnknown)

    async def ours_again() -> bool:
        return await ada.check() == OwnedHere(ADA)

    await until(ours_again)
    bob = owners.claim_of(BOB)

    async def is_seen_alive() -> bool:  # answered by a coordinator of its own
        await ada.check()
        standing = await bob.claim(take_over=False)
        assert isinstance(standing, OwnedByOthers)
        return standing == OwnedByOthers(ADA, lives=True)

    await until(is_seen_alive)


async def test_an_owner_rejoins_after_a_stranger_joins_its_group(
    owners: Owners, coordinators: Coordinators, topic_name: str
) -> None:
    ada = owners.claim_of(ADA)
    await ada.claim(take_over=False)
    group = f"ktui-{topic_name}"

    def stranger() -> Any:
        request = join_request(group, b"", 30.0, "")
        request.group_instance_id = "stranger"
        return request

    joining = asyncio.create_task(coordinators.ask(TESTING, group, stranger, lambda a: a, 20.0))

    async def has_joined() -> bool:
        assert await ada.check() == OwnedHere(ADA)
        return joining.done()

    await until(has_joined)
    assert joining.result().generation_id > 1
    assert await ada.check() == OwnedHere(ADA)
    assert await owners.claim_of(BOB).read() == OwnedByOthers(ADA, lives=True)


def named(lab: Lab, user: str) -> Connection:
    return Connection.of(security.librdkafka_settings(lab, user), where=f"{user} of the lab")


@pytest.fixture
def granted(secured_lab: Lab) -> Iterator[Any]:
    """Grants the lab's user `nobody` an operation on all ktui groups; revoked at the end."""
    admin = AdminClient({**security.librdkafka_settings(secured_lab), "log_level": 0})
    principal = (ResourceType.GROUP, "ktui-", ResourcePatternType.PREFIXED, "User:nobody", "*")

    def grant(operation: AclOperation) -> None:
        acl = AclBinding(*principal, operation, AclPermissionType.ALLOW)
        for done in admin.create_acls([acl]).values():
            done.result(20)

    yield grant
    every = AclBindingFilter(*principal, AclOperation.ANY, AclPermissionType.ANY)
    for done in admin.delete_acls([every]).values():
        done.result(20)


async def test_viewing_the_owner_needs_only_describe_and_owning_needs_only_read_on_groups(
    secured_lab: Lab, granted: Any, topic_name: str
) -> None:
    groups = partial(KafkaGroups, named(secured_lab, "nobody"))
    owners = Owners(groups, SystemClock(), topic_name)
    admins = Owners(partial(KafkaGroups, named(secured_lab, "admin")), SystemClock(), "elsewhere")
    try:
        await admins.claim_of(BOB).claim(take_over=True)  # so that brokers keep groups
        ada = owners.claim_of(ADA)

        undescribed = await ada.read()
        assert isinstance(undescribed, OwnerUnknown)
        assert undescribed.denied
        assert "Grant Describe on the groups" in undescribed.reason
        assert (await ada.preview()).permitted is False

        granted(AclOperation.DESCRIBE)

        async def is_free() -> bool:
            return await ada.read() == Unowned()

        await until(is_free)
        refused = await ada.claim(take_over=False)
        assert isinstance(refused, OwnerUnknown)
        assert refused.denied
        assert "Grant Read on the groups" in refused.reason

        granted(AclOperation.READ)

        async def is_ours() -> bool:
            return await ada.check() == OwnedHere(ADA)

        await until(is_ours)
        assert await ada.release() is None
    finally:
        await owners.aclose()
        await admins.aclose()
