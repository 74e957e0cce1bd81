"""What an engine asks before each request that changes anything."""

from __future__ import annotations

from ktui.cluster.clock import Clock
from ktui.cluster.ownership import ClusterClaim, Free, Others, Ours, Standing, Unknown

_UNKNOWN_FOR_S = 2.0
"""How long an unknown standing is not asked for again: each question may wait for seconds."""


class SendGuard:
    """Decides by the claim whether an engine may send.

    Once the cluster is lost it stays lost for this engine, whoever owns it later: what another
    owner did meanwhile is not this run's to undo. `ktui resume` starts anew.
    """

    def __init__(self, claim: ClusterClaim, clock: Clock) -> None:
        self._claim = claim
        self._clock = clock
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

    async def may_send(self, *, begins_step: bool) -> str | None:
        """Why nothing may be sent, as a sentence; None to go on.

        Args:
            begins_step: whether the request begins something new. What ends things (a cancel, a
                rollback, a throttle put back) also goes on while the owner cannot be asked.
        """
        if self._lost is None:
            await self._ask()
        if self._lost is not None:
            return self._lost
        if begins_step and isinstance(self._standing, Unknown):
            return f"no new step begins: {self._standing}"
        return None

    async def _ask(self) -> None:
        if isinstance(self._standing, Unknown) and self._clock.monotonic() < self._unknown_until_s:
            return
        self._standing = await self._claim.check()
        match self._standing:
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
            case Ours():
                pass
