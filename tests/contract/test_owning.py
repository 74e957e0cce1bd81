"""One state directory owns a cluster; others read who it is, and take it over only on purpose."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from ktui.cluster.group_claim import SESSIONS, GroupClaim, Sessions
from ktui.cluster.ownership import ClusterOwner, OwnedByOthers, OwnedHere, Unowned
from support.contract.world import World, until
from support.journals.owners import SINCE, Owners, owner

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


async def test_nobody_owns_a_cluster_until_it_is_claimed(owners: Owners) -> None:
    assert await owners.claim_of(ADA).look() == Unowned()


async def test_everybody_can_read_who_owns_a_cluster_since_when_and_that_it_lives(
    owners: Owners,
) -> None:
    await claimed(owners, ADA)

    assert await owners.claim_of(BOB).look() == OwnedByOthers(ADA, lives=True)


async def test_a_cluster_that_another_owns_is_refused_and_stays_with_its_owner(
    owners: Owners,
) -> None:
    ada = await claimed(owners, ADA)

    assert await owners.claim_of(BOB).claim(take_over=False) == OwnedByOthers(ADA, lives=True)

    assert await ada.check() == OwnedHere(ADA)


async def test_an_owner_that_is_taken_over_learns_it_at_its_next_check(owners: Owners) -> None:
    ada = await claimed(owners, ADA)
    bob = owners.claim_of(BOB)

    assert await bob.claim(take_over=True) == OwnedHere(BOB)

    assert await ada.check() == OwnedByOthers(BOB, lives=True)
    assert await bob.check() == OwnedHere(BOB)


async def test_an_old_owner_neither_takes_the_cluster_back_nor_releases_it_unawares(
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


async def test_engines_of_one_state_directory_share_what_it_owns(owners: Owners) -> None:
    first = await claimed(owners, ADA)
    later = owner("ada", run="another", since=SINCE + timedelta(hours=1))
    second = owners.claim_of(later)

    standing = await second.claim(take_over=False)

    assert isinstance(standing, OwnedHere)
    assert (standing.owner.run, standing.owner.since) == ("another", SINCE)
    assert await first.check() == standing
    assert await second.check() == standing


async def test_the_older_engine_of_a_directory_releases_nothing_that_the_newer_one_holds(
    owners: Owners,
) -> None:
    first = await claimed(owners, ADA)
    second = await claimed(owners, ADA)

    assert await first.release() is None

    assert await second.check() == OwnedHere(ADA)


async def test_of_two_that_claim_at_the_same_moment_one_owns_the_cluster(owners: Owners) -> None:
    ada, bob = owners.claim_of(ADA), owners.claim_of(BOB)

    await asyncio.gather(ada.claim(take_over=False), bob.claim(take_over=False))

    standings = [await ada.check(), await bob.check()]
    assert sorted(type(standing).__name__ for standing in standings) == [
        "OwnedByOthers",
        "OwnedHere",
    ]


async def test_an_owner_that_falls_silent_is_told_as_such_and_owns_until_its_claim_lapses(
    owners: Owners, world: World
) -> None:
    ada = await claimed(owners, ADA, Sessions(claim_s=(9.0,), engine_s=(6.0,)))
    bob = owners.claim_of(BOB)

    async def lives_no_more() -> bool:
        return await bob.look() == OwnedByOthers(ADA, lives=False)

    async def is_free() -> bool:
        return await bob.look() == Unowned()

    await until(lives_no_more, clock=world.clock)
    assert await bob.claim(take_over=False) == OwnedByOthers(ADA, lives=False)
    await until(is_free, clock=world.clock)
    assert await ada.check() == Unowned()  # and it does not take again what it had lost


async def test_a_longer_session_than_brokers_allow_gives_way_to_a_shorter_one(
    owners: Owners,
) -> None:
    await claimed(owners, ADA, Sessions(claim_s=(7_200.0, 60.0), engine_s=(1.0, 6.0)))


async def test_what_a_claim_creates_and_needs_can_be_read_before(owners: Owners) -> None:
    ada = owners.claim_of(ADA, cluster_id="LkZ8")

    preview = await ada.preview()

    assert preview.groups == ("ktui-LkZ8", "ktui-LkZ8-engine")
    assert "Read" in preview.permission


async def test_after_a_claim_nothing_is_left_to_create(owners: Owners) -> None:
    ada = await claimed(owners, ADA)

    preview = await ada.preview()

    assert (preview.makes_topic, preview.permitted) == (False, True)
