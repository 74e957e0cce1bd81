"""Whether an engine may send, depending on the owner of the cluster."""

from __future__ import annotations

import asyncio

import pytest

from ktui.cluster.ownership import (
    ANSWER_STALE_S,
    LATE_S,
    ClaimStatus,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    SendGuard,
    Unowned,
)
from ktui.simulated.clock import VirtualClock
from support.journals.owners import owner

ADA, BOB = owner("ada"), owner("bob")


class ScriptedClaim:
    """A claim with scripted answers."""

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
    """Ask, and evaluate the answer at once, like an engine."""
    await guard.ask()
    return guard.why_not(begins_step=begins_step)


def guarded(scripted: ScriptedClaim, clock: VirtualClock | None = None) -> SendGuard:
    return SendGuard(scripted, clock or VirtualClock())  # type: ignore[arg-type]  # it only checks


async def test_an_owner_may_send() -> None:
    guard = guarded(ScriptedClaim(OwnedHere(ADA)))

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
async def test_an_engine_that_lost_the_cluster_never_sends_again(
    standing: ClaimStatus, why: str
) -> None:
    scripted = ScriptedClaim(OwnedHere(ADA), standing, OwnedHere(ADA))
    guard = guarded(scripted)
    assert await may_send(guard, begins_step=True) is None

    ends_something = await may_send(guard, begins_step=False)

    assert ends_something is not None
    assert why in ends_something
    assert guard.lost == ends_something
    assert await may_send(guard, begins_step=True) == ends_something
    assert scripted.checks == 2


async def test_only_requests_that_end_something_are_sent_while_the_owner_is_unknown() -> None:
    clock = VirtualClock()
    guard = guarded(ScriptedClaim(OwnerUnknown("the coordinator is down"), OwnedHere(ADA)), clock)

    begins = await may_send(guard, begins_step=True)

    assert begins is not None
    assert "the coordinator is down" in begins
    assert await may_send(guard, begins_step=False) is None
    assert guard.lost is None
    clock.pass_time(3.0)
    assert await may_send(guard, begins_step=True) is None


async def test_an_unknown_owner_is_not_checked_again_at_every_request() -> None:
    clock, scripted = VirtualClock(), ScriptedClaim(OwnerUnknown("the coordinator is down"))
    guard = guarded(scripted, clock)

    for _ in range(10):
        await may_send(guard, begins_step=False)
    checks_at_once = scripted.checks
    clock.pass_time(3.0)
    await may_send(guard, begins_step=False)

    assert (checks_at_once, scripted.checks) == (1, 2)


async def test_an_answer_is_valid_for_only_a_few_seconds() -> None:
    clock = VirtualClock()
    guard = guarded(ScriptedClaim(OwnedHere(ADA)), clock)
    assert guard.why_not(begins_step=False) is not None  # nobody was asked yet
    await guard.ask()

    clock.pass_time(ANSWER_STALE_S)
    assert guard.why_not(begins_step=True) is None
    assert guard.is_due
    clock.pass_time(0.1)

    assert "too long ago" in (guard.why_not(begins_step=True) or "")
    assert guard.why_not(begins_step=False) is not None


async def test_an_overdue_answer_still_allows_requests_that_end_something() -> None:
    clock, scripted = VirtualClock(leaping=True), ScriptedClaim(OwnedHere(ADA))
    guard = guarded(scripted, clock)
    await guard.ask()
    scripted.silent = True

    async def work() -> str:
        return "done"

    assert await guard.beside(work()) == "done"

    assert clock.monotonic() == LATE_S
    assert "no answer within 3 s" in (guard.why_not(begins_step=True) or "")
    assert guard.why_not(begins_step=False) is None
    clock.pass_time(60.0)
    await guard.ask()
    assert scripted.checks == 2, "an open question was asked again"


async def test_the_reason_for_an_unknown_owner_stays_while_the_next_answer_is_late() -> None:
    clock = VirtualClock(leaping=True)
    scripted = ScriptedClaim(OwnerUnknown("the partition of the claim is offline"))
    guard = guarded(scripted, clock)
    await guard.ask()
    scripted.silent = True
    clock.pass_time(3.0)

    await guard.ask()

    assert scripted.checks == 2
    assert "the partition of the claim is offline" in (guard.why_not(begins_step=True) or "")


async def test_an_unexpected_error_counts_as_no_answer() -> None:
    class Odd(ScriptedClaim):
        async def check(self) -> ClaimStatus:
            raise KeyError("members")

    guard = guarded(Odd(OwnedHere(ADA)))

    assert "cannot be read: KeyError" in (await may_send(guard, begins_step=True) or "")
    assert guard.why_not(begins_step=False) is None
