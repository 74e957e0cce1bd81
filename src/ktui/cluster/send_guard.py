"""The ownership check that an engine makes before each request that changes the cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from ktui.cluster.clock import Clock, wait_at_most
from ktui.cluster.ownership import (
    GOES_ON,
    ClaimStatus,
    ClusterClaim,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    Unowned,
)

log = logging.getLogger(__name__)

ANSWER_STALE_S = 5.0  # seconds for which an ownership check allows a request to leave
LATE_S = 3.0  # seconds to wait for an answer before the owner counts as unknown
_UNKNOWN_FOR_S = 2.0  # before it is checked again: each check may wait for seconds
_CHECK_EVERY_S = 4.0

T = TypeVar("T")


class Guard(Protocol):
    """A check whether an engine may send requests."""

    @property
    def lost(self) -> str | None:
        """The reason why the engine no longer sends; None while it may own the cluster."""
        ...

    @property
    def unknown(self) -> str | None:
        """The reason why no new step begins; None if the owner could be read."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether the next check is due, so that others see that the engine is alive."""
        ...

    async def ask(self) -> None: ...

    async def beside(self, work: Coroutine[Any, Any, T]) -> T: ...

    def why_not(self, *, begins_step: bool) -> str | None:
        """The reason why the last answer forbids sending, as a sentence; None if it is allowed.

        Only what begins a step waits for an unknown owner: what ends something is still sent.
        """
        ...


class Unguarded:
    """The guard of an engine that checks no ownership."""

    lost: str | None = None
    unknown: str | None = None
    is_due = False

    async def ask(self) -> None:
        """Do nothing."""

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        return await work

    def why_not(self, *, begins_step: bool) -> str | None:  # noqa: ARG002 - all may be sent
        return None


class SendGuard:
    """Decides by the claim whether an engine may send. The first check makes the claim.

    An engine that has lost the cluster never sends again, even if its directory owns the cluster
    later: this run must not undo another owner's changes. `ktui resume` starts a new engine.
    """

    def __init__(self, claim: ClusterClaim, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
        self._checking: asyncio.Task[None] | None = None
        self._asked_s = 0.0
        self._unknown_until_s = 0.0
        self._lost: str | None = None
        self._standing: ClaimStatus | None = None

    @property
    def standing(self) -> ClaimStatus | None:
        return self._standing

    @property
    def lost(self) -> str | None:
        return self._lost

    @property
    def unknown(self) -> str | None:
        if isinstance(self._standing, OwnerUnknown):
            return f"no new step begins: {self._standing}. {GOES_ON}"
        return None

    @property
    def is_due(self) -> bool:
        return self._clock.monotonic() - self._asked_s >= _CHECK_EVERY_S

    async def ask(self) -> None:
        if self._lost is not None:
            return
        now_s = self._clock.monotonic()
        if isinstance(self._standing, OwnerUnknown) and now_s < self._unknown_until_s:
            return
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._check())
        checking = self._checking
        await wait_at_most(LATE_S, checking, self._clock)
        if not checking.done():
            before = self._standing
            late = OwnerUnknown(f"no answer within {LATE_S:.0f} s")
            self._judge(before if isinstance(before, OwnerUnknown) else late, now_s)

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        asking = asyncio.ensure_future(self.ask())
        try:
            return await work
        finally:
            await asking

    def why_not(self, *, begins_step: bool) -> str | None:
        if self._lost is not None:
            return self._lost
        if isinstance(self._standing, OwnerUnknown):
            return self.unknown if begins_step else None
        age_s = self._clock.monotonic() - self._asked_s
        if self._standing is None or age_s > ANSWER_STALE_S:
            return "the owner of the cluster was last checked too long ago"
        return None

    async def _check(self) -> None:
        asked_s = self._clock.monotonic()
        try:
            if self._standing is None:
                standing = await self._claim.claim(take_over=False)
            else:
                standing = await self._claim.check()
        except Exception as error:
            log.exception("the answer about the owner of the cluster cannot be read")
            standing = OwnerUnknown(f"an answer cannot be read: {type(error).__name__}: {error}")
        finally:
            self._checking = None
        self._judge(standing, asked_s)

    def _judge(self, standing: ClaimStatus, asked_s: float) -> None:
        self._standing, self._asked_s = standing, asked_s
        match standing:
            case OwnerUnknown():
                self._unknown_until_s = self._clock.monotonic() + _UNKNOWN_FOR_S
            case OwnedByOthers(owner):
                new_owner = owner or "another state directory"
                self._lost = (
                    f"{new_owner} has taken over the cluster: this engine sends nothing more"
                )
            case Unowned():
                self._lost = (
                    "the claim on the cluster has lapsed, or was removed: this engine sends "
                    "nothing more"
                )
            case OwnedHere():
                pass
