"""The command line's claim on a cluster, refused while another state directory owns it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from ktui.cli.context.option import Grouped, add_option
from ktui.cli.context.terminal import BadInput
from ktui.cluster.clock import Clock
from ktui.cluster.ownership import (
    ClaimPreview,
    ClaimStatus,
    ClusterClaim,
    ClusterOwner,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    SendGuard,
    Unowned,
)
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.catalog import throttles_left
from ktui.execution.host.ownership import live_runs, lock_starts, this_process
from ktui.execution.host.state_dir import STATE_DIR, StateDir, ensure_id, read_id
from ktui.planning.check.findings import Finding, FindingKind, Severity

if TYPE_CHECKING:  # its options are also those of verbs that load no client
    from ktui.cli.context.cluster import Cluster
    from ktui.kafka.reader import KafkaReader

NO_OWNERSHIP = "--no-ownership"
TAKE_OVER = "--take-over"

take_over_option = add_option(
    TAKE_OVER,
    "Take the cluster over from another state directory; its engines then send nothing more.",
)
no_ownership_option = add_option(
    NO_OWNERSHIP, "Do not check who owns the cluster, and do not keep others from it."
)


class OwnerChoice(NamedTuple):
    """What options say about the owner of a cluster."""

    take_over: bool = False  # whether a claim replaces another owner
    no_ownership: bool = False  # whether none is made


AS_CONTEXT = OwnerChoice()


ownership_options = Grouped("ownership", OwnerChoice, take_over_option, no_ownership_option)


log = logging.getLogger(__name__)

_WITHOUT = (
    f"To go on without owning the cluster, use {NO_OWNERSHIP}, or `ownership: off` for its context "
    "in config.yaml. Nothing then keeps others from the cluster"
)

CORDON_CLAIM = "ktui broker cordon"


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The claim that a run makes on its cluster."""

    cluster: Cluster
    cluster_id: str
    state: StateDir
    run: str  # the run that makes the claim; for a verb without a run, the verb
    take_over: bool = False  # whether the claim replaces another owner
    only_ends: bool = False
    """Whether the verb only ends things, and so goes on even while the owner is unknown."""

    def claim(self) -> ClusterClaim:
        """Return the claim of this state directory; it connects at its first call."""
        return self.cluster.claim(_owner(ensure_id(self.state), self.run), self.cluster_id)


def claim_request(
    cluster: Cluster,
    state: StateDir,
    cluster_id: str,
    run: str,
    ownership: OwnerChoice = AS_CONTEXT,
    *,
    only_ends: bool = False,
) -> ClaimRequest | None:
    """Return the claim of a run; None where options or its context turn ownership off."""
    if ownership.no_ownership or not cluster.context.ownership:
        if ownership.take_over:
            raise BadInput(
                f"{TAKE_OVER} excludes {NO_OWNERSHIP} and `ownership: off`. Use one of them"
            )
        return None
    return ClaimRequest(
        cluster=cluster,
        cluster_id=cluster_id,
        state=state,
        run=run,
        take_over=ownership.take_over,
        only_ends=only_ends,
    )


@contextmanager
def own_cluster(request: ClaimRequest, *, keep: bool = True) -> Iterator[None]:
    """Own a cluster before a run is created on it. If that fails, undo a new claim.

    The caller keeps other processes of the state directory from starting meanwhile. `keep`: a new
    claim stays after the block, for the run that was created in it.
    """
    newly_claimed = asyncio.run(_claim_newly(request))
    kept = False
    try:
        yield
        kept = keep
    finally:
        if newly_claimed and not kept and not live_runs(request.state, request.cluster_id):
            asyncio.run(release_cluster(request))


async def check_owner(
    cluster: Cluster,
    state: StateDir,
    cluster_id: str,
    verb: str,
    ownership: OwnerChoice = AS_CONTEXT,
) -> None:
    """Check that no other state directory owns a cluster, before a change to the cluster.

    With `take_over`, take the cluster over instead, for the half hour that a claim lasts.
    """
    request = claim_request(cluster, state, cluster_id, verb, ownership)
    if request is None:
        return
    async with aclosing(reading_claim(cluster, state, cluster_id)) as claim:
        standing = await claim.read()
    if isinstance(standing, OwnedByOthers) and request.take_over:
        await _claim_newly(request)
    else:
        _refuse(standing, only_ends=True)


def reading_claim(
    cluster: Cluster, state: StateDir, cluster_id: str, over: KafkaReader | None = None
) -> ClusterClaim:
    """Return a claim that only reads. A state directory without an id does not get one by it.

    It shares the connections of `over`, a reader, and is then not to be closed.
    """
    return cluster.claim(_owner(read_id(state) or "", ""), cluster_id, over)


async def owner_findings(request: ClaimRequest | None, reader: KafkaReader) -> tuple[Finding, ...]:
    """Return what a start would find out about the cluster's owner. Changes nothing."""
    if request is None:
        return ()
    claim = reading_claim(request.cluster, request.state, request.cluster_id, reader)
    standing, preview = await claim.read(), await claim.preview()
    warning = _warning(standing, request)
    if warning is not None:
        return (Finding(Severity.WARNING, FindingKind.OWNER, (), warning),)
    if isinstance(standing, Unowned) and preview.makes_topic:
        return (Finding(Severity.NOTE, FindingKind.OWNER, (), _topic_note(preview)),)
    return ()


def _warning(standing: ClaimStatus, request: ClaimRequest) -> str | None:
    match standing:
        case OwnedByOthers() if request.take_over:
            return (
                f"{standing}. A start takes the cluster over: their engines then send nothing more"
            )
        case OwnedByOthers():
            return f"{standing}{_advice_if_ours(standing)}. A start is refused without {TAKE_OVER}"
        case OwnerUnknown():
            return f"{standing}. A start is refused until the owner is known. {_WITHOUT}"
    return None


class ClusterHold:
    """An engine's hold on its cluster, from the engine's start to its end."""

    def __init__(self, request: ClaimRequest, clock: Clock) -> None:
        self._request = request
        self._claim = request.claim()
        self.guard = SendGuard(self._claim, clock)

    async def end(self, *, ended: bool) -> None:
        """Close the claim. At the run's end, release the cluster if no other run of ours needs it.

        A live run needs it, and so does a run that left its throttle behind.
        """
        try:
            if ended and self.guard.lost is None:
                why = await self._release()
                if why is not None:
                    log.warning("the cluster stays owned: %s", why)
        finally:
            await self._claim.aclose()

    async def _release(self) -> str | None:
        request = self._request
        try:
            with lock_starts(request.state, request.cluster_id) as live:
                others = any(other.name != request.run for other in live)
                if others or any(throttles_left(request.state, request.cluster_id, request.run)):
                    return None
                return await _release_claim(self._claim)
        except RunProblem as problem:
            return str(problem)


async def _claim_newly(request: ClaimRequest) -> bool:
    """Claim the cluster. Returns whether this state directory did not own it before."""
    async with aclosing(request.claim()) as claim:
        before, preview = await claim.read(), await claim.preview()
        if isinstance(before, Unowned) and preview.makes_topic:
            click.echo(f"note: {_topic_note(preview)}", err=True)
        standing = await claim.claim(take_over=request.take_over)
    _refuse(standing, only_ends=request.only_ends)
    return isinstance(standing, OwnedHere) and not isinstance(before, OwnedHere)


async def release_cluster(request: ClaimRequest) -> str | None:
    """Release a cluster; return the reason if it stays owned, else None.

    The caller keeps other processes of the state directory from starting meanwhile.
    """
    async with aclosing(request.claim()) as claim:
        return await _release_claim(claim)


async def _release_claim(claim: ClusterClaim) -> str | None:
    """Release our claim, also where another engine of ours had the heartbeats."""
    standing = await claim.read()
    if isinstance(standing, OwnedHere):
        standing = await claim.claim(take_over=False)
    if isinstance(standing, OwnedHere):
        return await claim.release()
    return None if isinstance(standing, Unowned) else str(standing)


def _topic_note(preview: ClaimPreview) -> str:
    return (
        f"no consumer group was ever used on this cluster. Owning it makes brokers "
        f"create {preview.topic}, with their own settings"
    )


def _refuse(standing: ClaimStatus, *, only_ends: bool) -> None:
    match standing:
        case OwnedByOthers():
            raise RunRefused(
                f"nothing was sent: {standing}{_advice_if_ours(standing)}. Two runs that do not "
                f"know of each other must not pace one cluster. To take it over, use {TAKE_OVER}: "
                "the owner's engines then send nothing more, and steps in flight go on in Kafka"
            )
        case OwnerUnknown() if not only_ends:
            raise RunRefused(f"nothing was sent: {standing}. {_WITHOUT}")
        case Unowned() if not only_ends:
            raise RunRefused(
                "nothing was sent: another state directory took the cluster and released it in "
                "this moment. Try again"
            )


def _advice_if_ours(others: OwnedByOthers) -> str:
    """Remind a user with two state directories that the other one is theirs."""
    me, owner = this_process(), others.owner
    if owner is None or (owner.user, owner.host) != (me.user, me.host):
        return ""
    return f". That is another state directory of yours here: use --state-dir or {STATE_DIR}"


def _owner(state_id: str, run: str) -> ClusterOwner:
    me = this_process()
    return ClusterOwner(state_dir=state_id, user=me.user, host=me.host, run=run, since=me.since)
