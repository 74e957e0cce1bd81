"""Owning a real cluster while coordinators die, permissions are missing and others interfere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
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
from ktui.kafka.claim import Coordinators, KafkaGroups
from ktui.kafka.connection.connection import Connection
from ktui.kafka.requests.groups import join_request
from ktui.kafka.transport.client import Wire
from ktui.kafka.transport.translate_errors import Purpose
from ktui.lab import readiness
from ktui.lab.layout import Lab
from support.contract.world import until
from support.journals.journals import Owners, owner
from support.kafka.labs import Outage

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
    return Connection.of(readiness.librdkafka_settings(lab, user), where=f"{user} of the lab")


@pytest.fixture
def granted(secured_lab: Lab) -> Iterator[Any]:
    """Grants the lab's user `nobody` an operation on all ktui groups; revoked at the end."""
    admin = AdminClient({**readiness.librdkafka_settings(secured_lab), "log_level": 0})
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
