"""Whether an engine may send, by what it is told about who owns the cluster."""

from __future__ import annotations

import pytest

from ktui.cluster.ownership import Free, Others, Ours, Standing, Unknown
from ktui.cluster.send_guard import SendGuard
from ktui.simulated.clock import VirtualClock
from support.owners import owner

ADA, BOB = owner("ada"), owner("bob")


class Told:
    """A claim that answers as it is told to."""

    def __init__(self, *standings: Standing) -> None:
        self._standings = list(standings)
        self.checks = 0

    async def check(self) -> Standing:
        self.checks += 1
        return self._standings.pop(0) if len(self._standings) > 1 else self._standings[0]


def guarded(told: Told, clock: VirtualClock | None = None) -> SendGuard:
    return SendGuard(told, clock or VirtualClock())  # type: ignore[arg-type]  # it only checks


async def test_an_owner_sends() -> None:
    guard = guarded(Told(Ours(ADA)))

    assert await guard.may_send(begins_step=True) is None
    assert guard.standing == Ours(ADA)


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (Others(BOB, lives=True), "bob on ops1"),
        (Others(None, lives=True), "another state directory"),
        (Free(), "lapsed"),
    ],
)
async def test_who_has_lost_the_cluster_sends_nothing_more_whoever_owns_it_later(
    standing: Standing, why: str
) -> None:
    told = Told(Ours(ADA), standing, Ours(ADA))
    guard = guarded(told)
    assert await guard.may_send(begins_step=True) is None

    ends_something = await guard.may_send(begins_step=False)

    assert ends_something is not None
    assert why in ends_something
    assert guard.lost == ends_something
    assert await guard.may_send(begins_step=True) == ends_something
    assert told.checks == 2


async def test_while_nobody_knows_who_owns_the_cluster_only_what_ends_things_is_sent() -> None:
    clock = VirtualClock()
    guard = guarded(Told(Unknown("the coordinator is down"), Ours(ADA)), clock)

    begins = await guard.may_send(begins_step=True)

    assert begins is not None
    assert "the coordinator is down" in begins
    assert await guard.may_send(begins_step=False) is None
    assert guard.lost is None
    clock.pass_time(3.0)
    assert await guard.may_send(begins_step=True) is None


async def test_an_unknown_owner_is_not_asked_for_again_with_every_request() -> None:
    clock, told = VirtualClock(), Told(Unknown("the coordinator is down"))
    guard = guarded(told, clock)

    for _ in range(10):
        await guard.may_send(begins_step=False)
    asked_at_once = told.checks
    clock.pass_time(3.0)
    await guard.may_send(begins_step=False)

    assert (asked_at_once, told.checks) == (1, 2)
