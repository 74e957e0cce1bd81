"""What an engine asks before each request that changes anything."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from ktui.cluster.clock import Clock, first_of
from ktui.cluster.ownership import ClusterClaim, Free, Others, OwnedHere, Standing, Unknown

log = logging.getLogger(__name__)

ANSWER_STALE_S = 5.0
"""A request leaves within this time of when it was asked who owns the cluster, or not at all."""
LATE_S = 3.0
"""How long an answer is waited for before the owner counts as unknown."""
_UNKNOWN_FOR_S = 2.0
"""How long an unknown standing is not asked for again: each question may wait for seconds."""
_SIGN_S = 4.0

T = TypeVar("T")


class Guard(Protocol):
    """Decides whether an engine may send."""

    @property
    def lost(self) -> str | None:
        """Why the engine sends nothing any more; None while it may own the cluster."""
        ...

    @property
    def unknown(self) -> str | None:
        """Why no new step begins: the owner cannot be asked; None where it could be."""
        ...

    @property
    def is_due(self) -> bool:
        """Whether it is time for a question, so that others see that the engine lives."""
        ...

    async def ask(self) -> None:
        """Ask who owns the cluster."""
        ...

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something, and ask meanwhile."""
        ...

    def why_not(self, *, begins_step: bool) -> str | None:
        """Why nothing may be sent by the last answer, as a sentence; None to go on.

        Args:
            begins_step: whether the request begins something new. What ends things (a cancel, a
                rollback, a throttle put back) also goes on while the owner cannot be asked.
        """
        ...


class Unguarded:
    """The guard of an engine that asks nobody."""

    lost: str | None = None
    unknown: str | None = None
    is_due = False

    async def ask(self) -> None:
        """Ask nobody."""

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something."""
        return await work

    def why_not(self, *, begins_step: bool) -> str | None:  # noqa: ARG002 - each is let go
        """Return None: everything may be sent."""
        return None


class SendGuard:
    """Decides by the claim whether an engine may send. The first question makes the claim.

    Once the cluster is lost it stays lost for this engine, whoever owns it later: what another
    owner did meanwhile is not this run's to undo. `ktui resume` starts anew.
    """

    def __init__(self, claim: ClusterClaim, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
        self._checking: asyncio.Task[None] | None = None
        """A question that is not answered yet."""
        self._asked_s = 0.0
        """When the question of the last answer was asked."""
        self._unknown_until_s = 0.0
        self._lost: str | None = None
        self._standing: Standing | None = None

    @property
    def standing(self) -> Standing | None:
        """How things stood when last asked; None before that."""
        return self._standing

    @property
    def lost(self) -> str | None:
        """Why this engine sends nothing any more; None while it may own the cluster."""
        return self._lost

    @property
    def unknown(self) -> str | None:
        """Why no new step begins: the owner cannot be asked; None where it could be."""
        if isinstance(self._standing, Unknown):
            return f"no new step begins: {self._standing}"
        return None

    @property
    def is_due(self) -> bool:
        """Whether it is time for a question, so that others see that the engine lives."""
        return self._clock.monotonic() - self._asked_s >= _SIGN_S

    async def ask(self) -> None:
        """Ask who owns the cluster. A question that is still open is not asked twice."""
        if self._lost is not None:
            return
        now_s = self._clock.monotonic()
        if isinstance(self._standing, Unknown) and now_s < self._unknown_until_s:
            return
        if self._checking is None:
            self._checking = asyncio.ensure_future(self._check())
        checking = self._checking
        await first_of(asyncio.wait([checking]), self._clock.sleep(LATE_S))
        if not checking.done():
            self._judge(Unknown(f"no answer within {LATE_S:.0f} s"), now_s)

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """Await something, and ask meanwhile."""
        asking = asyncio.ensure_future(self.ask())
        try:
            return await work
        finally:
            await asking

    def why_not(self, *, begins_step: bool) -> str | None:
        """Why nothing may be sent by the last answer, as a sentence; None to go on."""
        if self._lost is not None:
            return self._lost
        if isinstance(self._standing, Unknown):
            return self.unknown if begins_step else None
        age_s = self._clock.monotonic() - self._asked_s
        if self._standing is None or age_s > ANSWER_STALE_S:
            return "it is too long ago that the cluster was asked who owns it"
        return None

    async def _check(self) -> None:
        asked_s = self._clock.monotonic()
        try:
            if self._standing is None:
                standing = await self._claim.claim(take_over=False)
            else:
                standing = await self._claim.check()
        except Exception as error:
            log.exception("the answer who owns the cluster cannot be read")
            standing = Unknown(f"an answer cannot be read: {type(error).__name__}: {error}")
        finally:
            self._checking = None
        self._judge(standing, asked_s)

    def _judge(self, standing: Standing, asked_s: float) -> None:
        self._standing, self._asked_s = standing, asked_s
        match standing:
            case Unknown():
                self._unknown_until_s = self._clock.monotonic() + _UNKNOWN_FOR_S
            case Others(owner):
                who = owner or "another state directory"
                self._lost = f"{who} has taken the cluster over: this engine sends nothing more"
            case Free():
                self._lost = (
                    "the claim on the cluster has lapsed, or was removed: this engine sends "
                    "nothing more"
                )
            case OwnedHere():
                pass
