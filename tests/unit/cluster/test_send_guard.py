"""Whether an engine may send, by what it is told about who owns the cluster."""

from __future__ import annotations

import asyncio

import pytest

from ktui.cluster.ownership import ClaimStatus, OwnedByOthers, OwnedHere, OwnerUnknown, Unowned
from ktui.cluster.send_guard import ANSWER_STALE_S, LATE_S, SendGuard
from ktui.simulated.clock import VirtualClock
from support.journals.owners import owner

ADA, BOB = owner("ada"), owner("bob")


class Told:
    """A claim that answers as it is told to."""

    def __init__(self, *standings: ClaimStatus) -> None:
        self._standings = list(standings)
        self.checks = 0
        self.silent = False

    async def check(self) -> ClaimStatus:
        self.checks += 1
        if self.silent:
            await asyncio.Event().wait()
        return self._standings.pop(0) if len(self._standings) > 1 else self._standings[0]

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        assert not take_over
        return await self.check()


async def may_send(guard: SendGuard, *, begins_step: bool) -> str | None:
    """Ask, and judge the answer at once, as an engine does."""
    await guard.ask()
    return guard.why_not(begins_step=begins_step)


def guarded(told: Told, clock: VirtualClock | None = None) -> SendGuard:
    return SendGuard(told, clock or VirtualClock())  # type: ignore[arg-type]  # it only checks


async def test_an_owner_sends() -> None:
    guard = guarded(Told(OwnedHere(ADA)))

    assert await may_send(guard, begins_step=True) is None
    assert guard.standing == OwnedHere(ADA)


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (OwnedByOthers(BOB, lives=True), "bob on ops1"),
        (OwnedByOthers(None, lives=True), "another state directory"),
        (Unowned(), "lapsed"),
    ],
)
async def test_who_has_lost_the_cluster_sends_nothing_more_whoever_owns_it_later(
    standing: ClaimStatus, why: str
) -> None:
    told = Told(OwnedHere(ADA), standing, OwnedHere(ADA))
    guard = guarded(told)
    assert await may_send(guard, begins_step=True) is None

    ends_something = await may_send(guard, begins_step=False)

    assert ends_something is not None
    assert why in ends_something
    assert guard.lost == ends_something
    assert await may_send(guard, begins_step=True) == ends_something
    assert told.checks == 2


async def test_while_nobody_knows_who_owns_the_cluster_only_what_ends_things_is_sent() -> None:
    clock = VirtualClock()
    guard = guarded(Told(OwnerUnknown("the coordinator is down"), OwnedHere(ADA)), clock)

    begins = await may_send(guard, begins_step=True)

    assert begins is not None
    assert "the coordinator is down" in begins
    assert await may_send(guard, begins_step=False) is None
    assert guard.lost is None
    clock.pass_time(3.0)
    assert await may_send(guard, begins_step=True) is None


async def test_an_unknown_owner_is_not_asked_for_again_with_every_request() -> None:
    clock, told = VirtualClock(), Told(OwnerUnknown("the coordinator is down"))
    guard = guarded(told, clock)

    for _ in range(10):
        await may_send(guard, begins_step=False)
    asked_at_once = told.checks
    clock.pass_time(3.0)
    await may_send(guard, begins_step=False)

    assert (asked_at_once, told.checks) == (1, 2)


async def test_an_answer_counts_for_a_few_seconds_only() -> None:
    clock = VirtualClock()
    guard = guarded(Told(OwnedHere(ADA)), clock)
    assert guard.why_not(begins_step=False) is not None  # nobody was asked yet
    await guard.ask()

    clock.pass_time(ANSWER_STALE_S)
    assert guard.why_not(begins_step=True) is None
    assert guard.is_due
    clock.pass_time(0.1)

    assert "too long ago" in (guard.why_not(begins_step=True) or "")
    assert guard.why_not(begins_step=False) is not None


async def test_who_waits_for_an_answer_that_does_not_come_goes_on_with_what_ends_things() -> None:
    clock, told = VirtualClock(leaping=True), Told(OwnedHere(ADA))
    guard = guarded(told, clock)
    await guard.ask()
    told.silent = True

    async def work() -> str:
        return "done"

    assert await guard.beside(work()) == "done"

    assert clock.monotonic() == LATE_S
    assert "no answer within 3 s" in (guard.why_not(begins_step=True) or "")
    assert guard.why_not(begins_step=False) is None
    clock.pass_time(60.0)
    await guard.ask()
    assert told.checks == 2, "a question that is open still was asked again"


async def test_an_answer_that_nobody_expected_is_no_answer() -> None:
    class Odd(Told):
        async def check(self) -> ClaimStatus:
            raise KeyError("members")

    guard = guarded(Odd(OwnedHere(ADA)))

    assert "cannot be read: KeyError" in (await may_send(guard, begins_step=True) or "")
    assert guard.why_not(begins_step=False) is None
