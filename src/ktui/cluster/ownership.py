"""Ownership of a cluster by the one state directory whose engines may change it.

A state directory owns a cluster, not a run: all engines of the directory share one claim. The claim
is advisory, since Kafka does not fence reassignments. It binds only programs that check for it;
docs/owning.md lists the gaps.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec


class ClusterOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A state directory, as it identifies itself on the cluster, readable by anyone with access."""

    state_dir: str
    """The directory's random id: equal ids mean the same owner."""
    user: str
    host: str
    run: str
    """The run whose engine made the claim."""
    since: datetime
    """The time at which the directory became the owner. Aware, UTC, by that host's clock."""

    def __str__(self) -> str:
        """The owner in words: "ada on ops1 (run orders, since 2026-11-21 14:02:31+00:00)"."""
        since = self.since.astimezone().isoformat(" ", timespec="seconds")
        return f"{self.user} on {self.host} (run {self.run}, since {since})"


class OwnedHere(msgspec.Struct, frozen=True):
    """This state directory owns the cluster."""

    owner: ClusterOwner
    lives: bool | None = True
    """Whether one of the owner's engines is alive; None where the cluster does not report it."""

    def __str__(self) -> str:
        """The ownership as a sentence."""
        return f"this state directory owns the cluster: {self.owner}"


class Unowned(msgspec.Struct, frozen=True):
    """Nobody owns the cluster."""

    def __str__(self) -> str:
        """The ownership as a sentence."""
        return "nobody owns the cluster"


class OwnedByOthers(msgspec.Struct, frozen=True):
    """Another state directory owns the cluster."""

    owner: ClusterOwner | None
    """None where the owner's note about itself cannot be read."""
    lives: bool | None
    """Whether one of the owner's engines is alive; None where the cluster does not report it."""

    def __str__(self) -> str:
        """The ownership as a sentence."""
        owner = self.owner or "an unidentified state directory"
        return f"{owner} owns the cluster; {_ENGINE_STATE[self.lives]}"


GOES_ON = "What moves goes on, and cancels, rollbacks and restored throttles are still sent"
"""What an engine does while it cannot read the owner."""


class OwnerUnknown(msgspec.Struct, frozen=True):
    """The owner of the cluster cannot be determined now."""

    reason: str
    denied: bool = False
    """Whether the principal lacks a permission, named in `reason`, so that a retry is no help."""

    def __str__(self) -> str:
        """The ownership as a sentence."""
        return f"the owner of the cluster is unknown: {self.reason}"


ClaimStatus = OwnedHere | Unowned | OwnedByOthers | OwnerUnknown

_ENGINE_STATE = {
    True: "its engine is alive",
    False: "its engine is silent",
    None: "it is not known whether its engine is alive",
}


class ClaimPreview(msgspec.Struct, frozen=True):
    """The groups and topic that a claim will create, and the permission that the claim needs."""

    groups: tuple[str, ...]
    """The consumer groups that a claim creates."""
    topic: str
    """Kafka's internal topic in which brokers store groups."""
    makes_topic: bool | None
    """Whether brokers will create that topic for the claim; None where unknown."""
    permission: str
    """The required permission, in Kafka's words."""
    permitted: bool | None
    """Whether the principal has the permission.

    None where brokers do not report that before the first claim.
    """


class ClusterClaim(Protocol):
    """One engine's part in its state directory's claim on a cluster.

    No method raises a `ClusterError`: an owner that cannot be read is `OwnerUnknown`, with the
    reason.
    """

    async def preview(self) -> ClaimPreview:
        """Preview what `claim` creates and needs, without changing anything on the cluster."""
        ...

    async def read(self) -> ClaimStatus:
        """Read who owns the cluster, without changing the cluster. Needs Describe on the groups."""
        ...

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        """Claim the cluster for this state directory, and return the ownership afterwards.

        Another owner is replaced only with `take_over`. Otherwise `OwnedByOthers` is returned and
        nothing changes. If the directory owns the cluster already, this engine takes over its
        claim; that needs no `take_over`. Needs Read on the groups.
        """
        ...

    async def check(self) -> ClaimStatus:
        """Check that this state directory still owns the cluster, and signal a live engine.

        Costs one request of a few milliseconds. Call `check` at each turn of an engine, even with
        nothing to send. An engine that stops calling counts as dead after 20 seconds, and its claim
        lapses after 30 minutes. `Unowned` means that our claim has lapsed or was removed by hand.
        An engine that could not claim before claims here, as soon as possible.
        """
        ...

    async def release(self) -> str | None:
        """Release the cluster at once. Only the last engine of a directory may call this.

        An engine replaced by another one of its directory holds nothing and releases nothing.

        Returns:
            The reason why the cluster is still claimed, or None.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection and thread; the claim stays. Idempotent."""
        ...
