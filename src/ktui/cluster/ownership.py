"""Who owns a cluster: the one state directory whose engines may change it.

The directory owns, not a run: all its engines share one claim. The claim is advice. Kafka does not
fence reassignments, so it holds among those who ask; docs/owning.md names what it leaves open.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

import msgspec


class ClusterOwner(msgspec.Struct, frozen=True, kw_only=True):
    """A state directory, as it names itself on the cluster. Everybody who may look can read it."""

    state_dir: str
    """The directory's random id: who has the same one is the same owner."""
    user: str
    host: str
    run: str
    """The run whose engine made the claim."""
    since: datetime
    """When the directory began to own the cluster. Aware, UTC, by that host's clock."""

    def __str__(self) -> str:
        """For people: "ada on ops1 (run orders, since 2026-11-21 14:02:31+00:00)"."""
        since = self.since.astimezone().isoformat(" ", timespec="seconds")
        return f"{self.user} on {self.host} (run {self.run}, since {since})"


class OwnedHere(msgspec.Struct, frozen=True):
    """This state directory owns the cluster."""

    owner: ClusterOwner
    lives: bool | None = True
    """Whether one of its engines lives; None where the cluster does not tell."""

    def __str__(self) -> str:
        """One sentence for people."""
        return f"this state directory owns the cluster: {self.owner}"


class Free(msgspec.Struct, frozen=True):
    """Nobody owns the cluster."""

    def __str__(self) -> str:
        """One sentence for people."""
        return "nobody owns the cluster"


class Others(msgspec.Struct, frozen=True):
    """Another state directory owns the cluster."""

    owner: ClusterOwner | None
    """None where it does not name itself in a way that can be read."""
    lives: bool | None
    """Whether one of its engines lives; None where the cluster does not tell."""

    def __str__(self) -> str:
        """One sentence for people."""
        who = self.owner or "another state directory, which does not name itself,"
        return f"{who} owns the cluster; {_LIFE[self.lives]}"


class Unknown(msgspec.Struct, frozen=True):
    """Who owns the cluster cannot be asked now."""

    reason: str
    denied: bool = False
    """The principal lacks a permission, which `reason` names: asking again will not help."""

    def __str__(self) -> str:
        """One sentence for people."""
        return f"it is not known who owns the cluster: {self.reason}"


Standing = OwnedHere | Free | Others | Unknown

_LIFE = {
    True: "its engine lives",
    False: "its engine is silent",
    None: "whether its engine lives is not known",
}


class ClaimPreview(msgspec.Struct, frozen=True):
    """What a claim will create on the cluster, and the permission that it needs."""

    groups: tuple[str, ...]
    """The consumer groups that a claim makes."""
    topic: str
    """Kafka's own topic in which brokers keep groups."""
    makes_topic: bool | None
    """Whether brokers will create that topic for the claim; None where they do not tell."""
    permission: str
    """In Kafka's words."""
    permitted: bool | None
    """Whether the principal has it; None where brokers do not tell before the first claim."""


class ClusterClaim(Protocol):
    """One engine's hold on what its state directory owns.

    No method raises a `ClusterError`: what cannot be asked is `Unknown`, with the reason.
    """

    async def preview(self) -> ClaimPreview:
        """What `claim` will create and needs. Changes nothing on the cluster."""
        ...

    async def look(self) -> Standing:
        """Who owns the cluster. Changes nothing on it; needs Describe on the groups."""
        ...

    async def claim(self, *, take_over: bool) -> Standing:
        """Take the cluster for this state directory, and return how things stand then.

        Another owner is replaced only with `take_over`; without it, `Others` is returned and
        nothing is changed. What is ours already is taken by this engine, which needs no
        `take_over`. Needs Read on the groups.
        """
        ...

    async def check(self) -> Standing:
        """Whether this state directory still owns the cluster, and a sign that its engine lives.

        Cheap: one request of a few milliseconds. To be called at each turn of an engine, also
        where it has nothing to send: an engine that calls it no more is taken for dead after 20
        seconds, and its claim lapses after 30 minutes. `Free` means that ours has lapsed or was
        removed by hand. An engine that could not claim before does it here, as soon as it can.
        """
        ...

    async def release(self) -> str | None:
        """Let go of the cluster at once; why it stays ours, or None. Only for the last engine.

        An engine that another of its directory has replaced holds nothing and releases nothing.
        """
        ...

    async def aclose(self) -> None:
        """Close every connection and thread; the claim stays. Idempotent."""
        ...
