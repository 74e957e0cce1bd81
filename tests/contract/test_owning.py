"""One state directory owns a cluster; others can read the owner and take over only explicitly."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from ktui.cluster.clock import SystemClock
from ktui.cluster.group_claim import SESSIONS, GroupClaim, Sessions
from ktui.cluster.ownership import (
    ClusterOwner,
    HeartbeatAnswer,
    MemberDescription,
    OwnedByOthers,
    OwnedHere,
    Unowned,
)
from ktui.kafka.claim import KafkaGroups
from ktui.kafka.connection.connection import Connection
from support.contract.world import World, until
from support.journals.journals import SINCE, Owners, owner

ADA, BOB = owner("ada"), owner("bob", run="payments")


@pytest.fixture
async def owners(world: World, topic_name: str) -> AsyncIterator[Owners]:
    """The state directories of a cluster that nobody owns yet."""
    owners = Owners(world.memberships, world.clock, topic_name)
    yield owners
    await owners.aclose()


async def claimed(owners: Owners, me: ClusterOwner, sessions: Sessions = SESSIONS) -> GroupClaim:
    """An engine whose state directory owns the cluster."""
    claim = owners.claim_of(me, sessions)
    assert await claim.claim(take_over=False) == OwnedHere(me)
    return claim


async def test_a_description_of_a_group_is_current_until_its_member_changes(
    world: World, topic_name: str
) -> None:
    groups = world.memberships()
    empty = await groups.describe(topic_name)
    first = await groups.join(topic_name, b"", 60.0)
    held = await groups.describe(topic_name)

    assert not await groups.is_current(topic_name, empty)
    assert await groups.is_current(topic_name, held)
    assert first is not None
    assert await groups.heartbeat(topic_name, first) is HeartbeatAnswer.STAYS

    second = await groups.join(topic_name, b"", 60.0)
    assert not await groups.is_current(topic_name, held)

    assert second is not None
    await groups.leave(topic_name, second)
    assert await groups.is_current(topic_name, empty)
    await groups.aclose()


class AsConsumer:
    """What a program that reads every group as consumers makes of a member: version 0, strictly."""

    def __init__(self, member: MemberDescription) -> None:
        self.topics, self.user_data = self._read(member.metadata)
        self.partitions, self.assigned_data = self._read(member.assignment)

    def _read(self, raw: bytes) -> tuple[int, bytes]:
        stream = io.BytesIO(raw)
        version = int.from_bytes(stream.read(2), signed=True)
        entries = int.from_bytes(stream.read(4), signed=True)
        length = int.from_bytes(stream.read(4), signed=True)
        assert version == 0
        data = stream.read(length)
        assert len(data) == length
        assert stream.read() == b""
        return entries, data


async def test_whoever_reads_the_groups_as_consumers_finds_one_without_topics_and_partitions(
    owners: Owners, world: World
) -> None:
    ada = await claimed(owners, ADA)
    groups = world.memberships()

    for group in (await ada.preview()).groups:
        (member,) = (await groups.describe(group)).members
        seen = AsConsumer(member)
        assert (seen.topics, seen.partitions, seen.assigned_data) == (0, 0, b"")
        assert json.loads(seen.user_data)["host"] == "ops1"
    await groups.aclose()


@pytest.mark.kafka
async def test_kafka_python_describes_the_groups_of_a_live_claim(
    bootstrap: str, topic_name: str
) -> None:
    owners = Owners(lambda: KafkaGroups(Connection.to(bootstrap)), SystemClock(), topic_name)
    ada = await claimed(owners, ADA)
    names = (await ada.preview()).groups

    described = await asyncio.to_thread(_described, bootstrap, names)

    assert sorted(described) == sorted(names)
    for group in described.values():
        (member,) = group["members"]
        assert member["member_metadata"]["topics"] == []
        assert member["member_assignment"]["assigned_partitions"] == []
    await owners.aclose()


def _described(bootstrap: str, groups: tuple[str, ...]) -> dict[str, Any]:
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    try:
        described: dict[str, Any] = admin.describe_groups(list(groups))
        return described
    finally:
        admin.close()


async def test_a_cluster_has_no_owner_until_it_is_claimed(owners: Owners) -> None:
    assert await owners.claim_of(ADA).read() == Unowned()


async def test_anyone_can_read_the_owner_of_a_cluster_and_that_it_is_alive(
    owners: Owners,
) -> None:
    await claimed(owners, ADA)

    assert await owners.claim_of(BOB).read() == OwnedByOthers(ADA, lives=True)


async def test_a_claim_on_an_owned_cluster_is_refused_and_the_owner_keeps_it(
    owners: Owners,
) -> None:
    ada = await claimed(owners, ADA)

    assert await owners.claim_of(BOB).claim(take_over=False) == OwnedByOthers(ADA, lives=True)

    assert await ada.check() == OwnedHere(ADA)


async def test_an_owner_learns_of_a_takeover_at_its_next_check(owners: Owners) -> None:
    ada = await claimed(owners, ADA)
    bob = owners.claim_of(BOB)

    assert await bob.claim(take_over=True) == OwnedHere(BOB)

    assert await ada.check() == OwnedByOthers(BOB, lives=True)
    assert await bob.check() == OwnedHere(BOB)


async def test_a_former_owner_neither_reclaims_nor_releases_the_cluster(
    owners: Owners,
) -> None:
    ada = await claimed(owners, ADA)
    bob = owners.claim_of(BOB)
    await bob.claim(take_over=True)

    assert await ada.release() is None

    assert await ada.check() == OwnedByOthers(BOB, lives=True)
    assert await ada.claim(take_over=False) == OwnedByOthers(BOB, lives=True)
    assert await bob.check() == OwnedHere(BOB)


async def test_a_released_cluster_is_free_at_once(owners: Owners) -> None:
    ada = await claimed(owners, ADA)

    assert await ada.release() is None

    assert await owners.claim_of(BOB).claim(take_over=False) == OwnedHere(BOB)


async def test_engines_of_one_state_directory_share_its_ownership(owners: Owners) -> None:
    first = await claimed(owners, ADA)
    later = owner("ada", run="another", since=SINCE + timedelta(hours=1))
    second = owners.claim_of(later)

    standing = await second.claim(take_over=False)

    assert isinstance(standing, OwnedHere)
    assert (standing.owner.run, standing.owner.since) == ("another", SINCE)
    assert await first.check() == standing
    assert await second.check() == standing


async def test_an_older_engine_does_not_release_the_claim_of_a_newer_one(
    owners: Owners,
) -> None:
    first = await claimed(owners, ADA)
    second = await claimed(owners, ADA)

    assert await first.release() is None

    assert await second.check() == OwnedHere(ADA)


async def test_only_one_of_two_simultaneous_claims_owns_the_cluster(owners: Owners) -> None:
    ada, bob = owners.claim_of(ADA), owners.claim_of(BOB)

    await asyncio.gather(ada.claim(take_over=False), bob.claim(take_over=False))

    standings = [await ada.check(), await bob.check()]
    assert sorted(type(standing).__name__ for standing in standings) == [
        "OwnedByOthers",
        "OwnedHere",
    ]


async def test_a_silent_owner_is_shown_as_such_and_owns_until_its_claim_lapses(
    owners: Owners, world: World
) -> None:
    ada = await claimed(owners, ADA, Sessions(claim_s=(9.0,), engine_s=(6.0,)))
    bob = owners.claim_of(BOB)

    async def is_silent() -> bool:
        return await bob.read() == OwnedByOthers(ADA, lives=False)

    async def is_free() -> bool:
        return await bob.read() == Unowned()

    await until(is_silent, clock=world.clock)
    assert await bob.claim(take_over=False) == OwnedByOthers(ADA, lives=False)
    await until(is_free, clock=world.clock)
    assert await ada.check() == Unowned()  # and it does not reclaim the cluster it lost


async def test_a_session_longer_than_brokers_allow_falls_back_to_a_shorter_one(
    owners: Owners,
) -> None:
    await claimed(owners, ADA, Sessions(claim_s=(7_200.0, 60.0), engine_s=(1.0, 6.0)))


async def test_a_claim_can_be_previewed_with_its_groups_and_permission(owners: Owners) -> None:
    ada = owners.claim_of(ADA, cluster_id="LkZ8")

    preview = await ada.preview()

    assert preview.groups == ("ktui-LkZ8", "ktui-LkZ8-engine")
    assert "Read" in preview.permission


async def test_a_preview_after_a_claim_has_nothing_left_to_create(owners: Owners) -> None:
    ada = await claimed(owners, ADA)

    preview = await ada.preview()

    assert (preview.makes_topic, preview.permitted) == (False, True)
