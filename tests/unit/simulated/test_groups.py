"""Consumer groups with one member on a simulated cluster, as on a real one."""

from __future__ import annotations

import pytest

from ktui.cluster.errors import Refused
from ktui.cluster.ownership import HeartbeatAnswer, Member
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from support.simulated.clusters import a_cluster, wait

GROUP = "ktui-prod"
SESSION_S = 60.0


async def joined(cluster: SimulatedCluster, member_id: str = "") -> Member:
    member = await cluster.memberships().join(GROUP, b"note", SESSION_S, member_id)
    assert member is not None
    return member


async def heard(cluster: SimulatedCluster, member: Member) -> HeartbeatAnswer:
    return await cluster.memberships().heartbeat(GROUP, member)


async def test_a_join_without_an_id_replaces_the_member_and_keeps_the_generation() -> None:
    cluster = a_cluster()
    first = await joined(cluster)

    second = await joined(cluster)

    assert second.id != first.id
    assert second.generation == first.generation
    assert await heard(cluster, first) is HeartbeatAnswer.GONE
    assert await heard(cluster, second) is HeartbeatAnswer.STAYS


async def test_a_replaced_member_can_neither_rejoin_by_its_id_nor_remove_its_successor() -> None:
    cluster = a_cluster()
    first = await joined(cluster)
    second = await joined(cluster)
    groups = cluster.memberships()

    assert await groups.join(GROUP, b"", SESSION_S, first.id) is None
    await groups.leave(GROUP, first)

    assert await heard(cluster, second) is HeartbeatAnswer.STAYS


async def test_a_member_that_rejoins_gets_the_next_generation() -> None:
    cluster = a_cluster()
    first = await joined(cluster)

    again = await joined(cluster, first.id)

    assert again == Member(first.id, first.generation + 1)
    assert await heard(cluster, first) is HeartbeatAnswer.GONE


@pytest.mark.parametrize("session_s", [5.999, 1_800.001])
async def test_a_session_outside_kafkas_limits_is_refused(session_s: float) -> None:
    with pytest.raises(Refused) as refused:
        await a_cluster().memberships().join(GROUP, b"", session_s)

    assert refused.value.code == "INVALID_SESSION_TIMEOUT"


async def test_a_new_coordinator_restarts_live_sessions_but_not_expired_ones() -> None:
    cluster = a_cluster(session_timeout_s=9.0)
    member = await joined(cluster)
    coordinator = cluster.groups.coordinator(GROUP)
    assert coordinator is not None
    wait(cluster, SESSION_S - 1.0)
    cluster.do(layout.Kill(coordinator))
    wait(cluster, SESSION_S - 1.0)  # the session restarts when the dead broker is fenced, at 9 s

    assert cluster.groups.coordinator(GROUP) != coordinator
    assert await heard(cluster, member) is HeartbeatAnswer.STAYS

    wait(cluster, SESSION_S)
    cluster.do(layout.Kill(cluster.groups.coordinator(GROUP) or 0))
    wait(cluster, 10.0)
    assert await heard(cluster, member) is HeartbeatAnswer.GONE
