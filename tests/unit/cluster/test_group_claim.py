"""Owning a cluster through outages, missing permissions and engines that die."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from math import inf
from typing import Any

import msgspec
import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import (
    INSTANCE,
    ClusterOwner,
    GroupDescription,
    HeartbeatAnswer,
    Member,
    MemberDescription,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    Unowned,
    subscription,
)
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.journals.journals import Owners, owner
from support.simulated.clusters import a_cluster, wait

ADA, BOB = owner("ada"), owner("bob")
CLUSTER = "prod"
HOUR_S = 3_600.0
ALL_BROKERS = range(1, 6)


@pytest.fixture
def cluster() -> SimulatedCluster:
    return a_cluster()


@pytest.fixture
async def owners(cluster: SimulatedCluster) -> AsyncIterator[Owners]:
    owners = Owners(cluster.memberships, cluster.clock, CLUSTER)
    yield owners
    await owners.aclose()


async def claimed(owners: Owners, me: ClusterOwner = ADA) -> GroupClaim:
    claim = owners.claim_of(me)
    assert await claim.claim(take_over=False) == OwnedHere(me)
    return claim


async def checked(
    cluster: SimulatedCluster, claims: Iterable[GroupClaim], for_s: float, every_s: float = 1.0
) -> None:
    """Let engines check every turn, and find each time that they own the cluster."""
    until_s = cluster.clock.monotonic() + for_s
    while cluster.clock.monotonic() < until_s:
        for claim in claims:
            assert isinstance(await claim.check(), OwnedHere)
        wait(cluster, every_s)


async def test_an_engine_that_checks_every_turn_owns_the_cluster_for_hours(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada = await claimed(owners)

    await checked(cluster, [ada], 2 * HOUR_S, every_s=4.0)

    assert await owners.claim_of(BOB).read() == OwnedByOthers(ADA, lives=True)


async def test_an_owner_with_a_dead_engine_owns_for_half_an_hour(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    await claimed(owners)
    bob = owners.claim_of(BOB)

    wait(cluster, 19.0)
    just_before = await bob.read()
    wait(cluster, 2.0)
    silent = await bob.read()
    wait(cluster, 1_770.0)
    still = await bob.read()
    wait(cluster, 10.0)

    assert just_before == OwnedByOthers(ADA, lives=True)
    assert silent == still == OwnedByOthers(ADA, lives=False)
    assert await bob.read() == Unowned()


async def test_a_resume_in_the_same_directory_needs_no_takeover(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    before = await claimed(owners)
    wait(cluster, 600.0)

    assert await owners.claim_of(ADA).claim(take_over=False) == OwnedHere(ADA)
    assert await before.check() == OwnedHere(ADA)


async def test_an_engine_away_for_too_long_does_not_reclaim_the_cluster_by_itself(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada = await claimed(owners)
    wait(cluster, HOUR_S)

    assert await ada.check() == Unowned()
    assert await ada.check() == Unowned()
    assert await ada.claim(take_over=False) == OwnedHere(ADA)


async def test_an_older_engine_keeps_the_cluster_when_a_newer_one_of_its_directory_dies(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    older = await claimed(owners)
    newer = await claimed(owners)
    await checked(cluster, [older, newer], 60.0)

    await checked(cluster, [older], 2 * HOUR_S, every_s=4.0)

    assert await owners.claim_of(BOB).read() == OwnedByOthers(ADA, lives=True)


async def test_the_owner_is_unknown_while_the_coordinator_is_down_and_then_unchanged(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada = await claimed(owners)
    coordinator = cluster.groups.coordinator(f"ktui-{CLUSTER}")
    assert coordinator is not None
    cluster.do(layout.Kill(coordinator))

    down = await ada.check()
    wait(cluster, cluster.spec.session_timeout_s + 1.0)

    assert isinstance(down, OwnerUnknown)
    assert f"broker {coordinator}" in down.reason
    assert not down.denied
    assert await ada.check() == OwnedHere(ADA)


async def test_an_owner_survives_an_outage_of_all_brokers(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada = await claimed(owners)
    for broker in ALL_BROKERS:
        cluster.do(layout.Kill(broker))
    wait(cluster, HOUR_S)
    away = await ada.check()
    for broker in ALL_BROKERS:
        cluster.do(layout.Start(broker))
    wait(cluster, 60.0)

    assert isinstance(away, OwnerUnknown)
    assert await ada.check() == OwnedHere(ADA)


async def test_a_denied_claim_names_the_missing_permission_and_succeeds_once_granted(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada = owners.claim_of(ADA)
    cluster.do(layout.Deny("join_group"))

    denied = await ada.claim(take_over=False)

    assert isinstance(denied, OwnerUnknown)
    assert denied.denied
    assert "Grant Read on the group" in denied.reason
    assert await ada.check() == denied
    cluster.do(layout.Allow("join_group"))
    assert await ada.check() == OwnedHere(ADA)


async def test_the_owner_is_unknown_without_describe_on_the_group(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    await claimed(owners)
    cluster.do(layout.Deny("describe_group"))

    assert isinstance(await owners.claim_of(BOB).claim(take_over=True), OwnerUnknown)


async def test_a_failed_release_returns_the_reason_and_keeps_the_cluster(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada = await claimed(owners)
    cluster.do(layout.Deny("join_group"))

    why = await ada.release()

    assert why is not None
    assert "GROUP_AUTHORIZATION_FAILED" in why
    assert await owners.claim_of(BOB).read() == OwnedByOthers(ADA, lives=True)


async def test_liveness_of_an_owner_is_unknown_while_its_coordinator_is_down(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    await claimed(owners)
    for_engines = cluster.groups.coordinator(f"ktui-{CLUSTER}-engine")
    assert for_engines is not None
    assert for_engines != cluster.groups.coordinator(f"ktui-{CLUSTER}")
    cluster.do(layout.Kill(for_engines))

    assert await owners.claim_of(BOB).read() == OwnedByOthers(ADA, lives=None)


NOTE = (
    b'{"state_dir":"d","user":"\\u001b[2Jmallory","host":"h","run":"r",'
    b'"since":"2026-11-22T09:30:00Z"}'
)


@pytest.mark.parametrize(
    ("note", "shown"),
    [
        (subscription(NOTE.replace(b"00Z", b"00")), "unidentified"),
        (NOTE, "unidentified"),
        (subscription(NOTE), r"\x1b[2Jmallory on h"),
        (subscription(NOTE)[:-1], "unidentified"),
        (subscription(NOTE) + b" ", "unidentified"),
        (b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff", "unidentified"),
        (b"\xff\x00", "unidentified"),
        (b"", "unidentified"),
    ],
)
async def test_foreign_group_metadata_is_shown_escaped_or_as_unidentified(
    cluster: SimulatedCluster, owners: Owners, note: bytes, shown: str
) -> None:
    await cluster.memberships().join(f"ktui-{CLUSTER}", note, 60.0)
    bob = owners.claim_of(BOB)

    standing = await bob.claim(take_over=False)

    assert isinstance(standing, OwnedByOthers)
    assert shown in str(standing)
    assert await bob.claim(take_over=True) == OwnedHere(BOB)


class GroupsInUse:
    """Groups used by another program, or stuck in an endless join."""

    def __init__(self, kind: str, *, settled: bool) -> None:
        self._seen = GroupDescription(kind, settled, (MemberDescription("x", INSTANCE, b""),))
        self.joins = 0

    async def describe(self, _group: str) -> GroupDescription:
        return self._seen

    async def is_current(self, _group: str, description: GroupDescription) -> bool:
        return description == self._seen

    async def join(self, *_: object) -> None:
        self.joins += 1


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (GroupsInUse("consumer", settled=True), "used by something else (consumer)"),
        (GroupsInUse("ktui", settled=False), "joining"),
    ],
)
async def test_a_group_used_by_another_program_is_left_alone(
    cluster: SimulatedCluster, groups: GroupsInUse, reason: str
) -> None:
    claim = GroupClaim(groups, CLUSTER, ADA, cluster.clock)  # type: ignore[arg-type]

    standing = await claim.claim(take_over=True)

    assert isinstance(standing, OwnerUnknown)
    assert reason in standing.reason
    assert groups.joins == 0


class LaggingGroups:
    """Groups of a cluster whose coordinator describes them as they were: its replicas lag."""

    def __init__(self, cluster: SimulatedCluster, shown: GroupDescription, reads: float) -> None:
        self._groups = cluster.memberships()
        self._shown = shown
        self._reads = reads  # how many more reads the replicas lag for

    def __getattr__(self, name: str) -> Any:
        return getattr(self._groups, name)

    async def describe(self, group: str) -> GroupDescription:
        self._reads -= 1
        return self._shown if self._reads >= 0 else await self._groups.describe(group)


async def test_an_owner_whom_brokers_do_not_show_yet_keeps_the_cluster(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    empty = await cluster.memberships().describe(f"ktui-{CLUSTER}")
    ada = await claimed(owners)
    bob = GroupClaim(LaggingGroups(cluster, empty, 5), CLUSTER, BOB, cluster.clock)

    assert await bob.claim(take_over=False) == OwnedByOthers(ADA, lives=True)

    assert await ada.check() == OwnedHere(ADA)


async def test_a_former_owner_whom_brokers_still_show_does_not_get_the_cluster_back(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    await claimed(owners)
    before = await cluster.memberships().describe(f"ktui-{CLUSTER}")
    bob = owners.claim_of(BOB)
    await bob.claim(take_over=True)
    ada = GroupClaim(LaggingGroups(cluster, before, 5), CLUSTER, ADA, cluster.clock)

    assert await ada.claim(take_over=False) == OwnedByOthers(BOB, lives=True)

    assert await bob.check() == OwnedHere(BOB)


async def test_the_owner_is_unknown_while_brokers_do_not_show_the_newest_member(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    empty = await cluster.memberships().describe(f"ktui-{CLUSTER}")
    ada = await claimed(owners)
    bob = GroupClaim(LaggingGroups(cluster, empty, inf), CLUSTER, BOB, cluster.clock)

    standing = await bob.claim(take_over=True)

    assert isinstance(standing, OwnerUnknown)
    assert "do not show the newest member" in standing.reason
    assert await ada.check() == OwnedHere(ADA)


class CountedGroups:
    """Groups of a simulated cluster that answer a moment late and count their requests."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._groups = cluster.memberships()
        self.asked: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._groups, name)

        async def late(group: str, *arguments: Any) -> Any:
            self.asked[f"{name} {group}"] += 1
            await asyncio.sleep(0)
            return await call(group, *arguments)

        return late


async def test_an_engine_with_concurrent_checks_joins_once(cluster: SimulatedCluster) -> None:
    groups = CountedGroups(cluster)
    ada = GroupClaim(groups, CLUSTER, ADA, cluster.clock)

    standings = await asyncio.gather(ada.check(), ada.check(), ada.check())

    assert all(standing == OwnedHere(ADA) for standing in standings)
    assert groups.asked[f"join ktui-{CLUSTER}"] == 1


async def test_an_overlong_owner_name_is_cut(cluster: SimulatedCluster, owners: Owners) -> None:
    note = subscription(NOTE.replace(b"mallory", b"m" * 20_000))
    await cluster.memberships().join(f"ktui-{CLUSTER}", note, 60.0)

    assert len(str(await owners.claim_of(BOB).read())) < 400


async def test_a_claim_overtaken_by_another_reports_the_owner_at_once(
    cluster: SimulatedCluster,
) -> None:
    claims = [GroupClaim(CountedGroups(cluster), CLUSTER, me, cluster.clock) for me in (ADA, BOB)]

    standings = await asyncio.gather(*(claim.claim(take_over=False) for claim in claims))

    assert standings == [OwnedByOthers(BOB, lives=False), OwnedHere(BOB)]
    ada, bob = claims
    await bob.release()
    assert await ada.check() == Unowned()  # and it does not reclaim what it had lost


async def test_a_check_costs_one_request_plus_a_liveness_heartbeat_every_five_seconds(
    cluster: SimulatedCluster,
) -> None:
    groups = CountedGroups(cluster)
    ada = GroupClaim(groups, CLUSTER, ADA, cluster.clock)
    await ada.claim(take_over=False)
    groups.asked.clear()

    await checked(cluster, [ada], 60.0)

    assert groups.asked == {f"heartbeat ktui-{CLUSTER}": 60, f"heartbeat ktui-{CLUSTER}-engine": 11}


async def test_an_engine_that_hung_for_a_minute_is_shown_alive_again(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    ada, bob = await claimed(owners), owners.claim_of(BOB)
    wait(cluster, 60.0)
    hanging = await bob.read()

    await ada.check()

    assert hanging == OwnedByOthers(ADA, lives=False)
    assert await bob.read() == OwnedByOthers(ADA, lives=True)


class EnginesGroupHangs:
    """Groups of a simulated cluster of which the engines' one has a coordinator that hangs."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._groups = cluster.memberships()
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._groups, name)

    async def join(
        self, group: str, metadata: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        if group.endswith("-engine"):
            self.asked += 1
            await self._cluster.clock.sleep(20.0)
            raise Unreachable("joining")
        return await self._groups.join(group, metadata, session_s, member_id)


async def test_an_owner_is_known_at_once_while_the_sign_of_its_life_gets_no_answer() -> None:
    cluster = SimulatedCluster(a_cluster().spec, VirtualClock(leaping=True))
    groups = EnginesGroupHangs(cluster)
    ada = GroupClaim(groups, CLUSTER, ADA, cluster.clock)
    took_s = []

    for _ in range(15):
        begun_s = cluster.clock.monotonic()
        assert await ada.check() == OwnedHere(ADA)
        took_s.append(cluster.clock.monotonic() - begun_s)
        await cluster.clock.sleep(1.0)

    assert max(took_s) < 2.0
    assert groups.asked == 1, "a sign of life was given while another was open"
    await ada.aclose()


async def test_a_foreign_engine_is_no_proof_that_the_owner_is_alive(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    await claimed(owners)
    note = subscription(msgspec.json.encode(BOB))
    await cluster.memberships().join(f"ktui-{CLUSTER}", note, 60.0)

    assert await owners.claim_of(ADA).read() == OwnedByOthers(BOB, lives=False)


async def test_engines_keep_and_can_release_their_claim_while_liveness_is_unknown(
    cluster: SimulatedCluster, owners: Owners
) -> None:
    older, newer = await claimed(owners), await claimed(owners)
    cluster.do(layout.Kill(cluster.groups.coordinator(f"ktui-{CLUSTER}-engine") or 0))

    assert await older.check() == OwnedHere(ADA, lives=None)
    assert await newer.check() == OwnedHere(ADA)
    assert await newer.release() is None
    assert await owners.claim_of(BOB).read() == Unowned()


async def test_a_release_leaves_no_member_behind(cluster: SimulatedCluster, owners: Owners) -> None:
    ada = await claimed(owners)

    await ada.release()

    groups = cluster.memberships()
    for name in (await ada.preview()).groups:
        assert (await groups.describe(name)).members == ()


class MustRejoin:
    """Groups of a simulated cluster in which a member must rejoin once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._groups = cluster.memberships()
        self.rejoined: list[str] = []
        self.stirred = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._groups, name)

    async def heartbeat(self, group: str, member: Member) -> HeartbeatAnswer:
        return (
            HeartbeatAnswer.REJOIN if self.stirred else await self._groups.heartbeat(group, member)
        )

    async def join(
        self, group: str, note: bytes, session_s: float, member_id: str = ""
    ) -> Member | None:
        self.stirred = False
        self.rejoined.append(member_id)
        return await self._groups.join(group, note, session_s, member_id)


@pytest.mark.parametrize("taken_over", [False, True])
async def test_an_owner_that_must_rejoin_does_so_as_itself_and_replaces_nobody(
    cluster: SimulatedCluster,
    owners: Owners,
    taken_over: bool,  # noqa: FBT001 - both cases, in turn
) -> None:
    groups = MustRejoin(cluster)
    ada = GroupClaim(groups, CLUSTER, ADA, cluster.clock)
    await ada.claim(take_over=False)
    if taken_over:
        await owners.claim_of(BOB).claim(take_over=True)
    groups.rejoined.clear()
    groups.stirred = True

    standing = await ada.check()

    assert standing == (OwnedByOthers(BOB, lives=True) if taken_over else OwnedHere(ADA))
    assert len(groups.rejoined) == 1
    assert "" not in groups.rejoined
    assert await ada.check() == standing
