"""How the command line owns a cluster for its state directory, and refuses where another does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from typing import Any, TypeVar

import click
import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BadInput
from ktui.cluster.clock import Clock
from ktui.cluster.ownership import (
    ClaimPreview,
    ClaimStatus,
    ClusterClaim,
    ClusterOwner,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    Unowned,
)
from ktui.cluster.send_guard import SendGuard
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.catalog import throttles_left
from ktui.execution.host.ownership import live_runs, starting, this_process
from ktui.execution.host.state_dir import STATE_DIR, StateDir
from ktui.execution.host.state_id import known_id, own_id
from ktui.planning.check.findings import Finding, FindingKind, Severity

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

NO_OWNERSHIP = "--no-ownership"
TAKE_OVER = "--take-over"

_WITHOUT = (
    f"To go on without owning the cluster: {NO_OWNERSHIP}, or `ownership: off` for its context in "
    "config.yaml. Nobody is kept from the cluster then"
)

take_over_option = click.option(
    TAKE_OVER,
    is_flag=True,
    help="Take the cluster from another state directory, whose engines send nothing more then.",
)
no_ownership_option = click.option(
    NO_OWNERSHIP,
    is_flag=True,
    help="Do not ask who owns the cluster, and keep nobody from it.",
)


def ownership_options(function: F) -> F:
    """Add --take-over and --no-ownership."""
    return take_over_option(no_ownership_option(function))


class Claiming(msgspec.Struct, frozen=True, kw_only=True):
    """Who is to own a cluster, and how."""

    cluster: Cluster
    cluster_id: str
    state: StateDir
    run: str
    """The run that makes the claim."""
    take_over: bool = False
    """Whether another owner is replaced."""
    only_ends: bool = False
    """Whether it begins nothing, and so also goes on while the owner cannot be asked."""

    def claim(self) -> ClusterClaim:
        """Make the claim of this state directory; it connects at its first call.

        Raises:
            StateDirProblem: the state directory cannot be used.
        """
        return self.cluster.claim(_owner(own_id(self.state), self.run), self.cluster_id)


def claiming(
    cluster: Cluster,
    state: StateDir,
    cluster_id: str,
    run: str,
    *,
    off: bool = False,
    take_over: bool = False,
    only_ends: bool = False,
) -> Claiming | None:
    """Return how a run owns its cluster; None where it does not, by `off` or by its context.

    Raises:
        BadInput: it is to be taken over, and not to be owned.
    """
    if off or not cluster.context.ownership:
        if take_over:
            raise BadInput(f"{TAKE_OVER}: it goes without {NO_OWNERSHIP} and `ownership: off`")
        return None
    return Claiming(
        cluster=cluster,
        cluster_id=cluster_id,
        state=state,
        run=run,
        take_over=take_over,
        only_ends=only_ends,
    )


@contextmanager
def owned(how: Claiming) -> Iterator[None]:
    """Own a cluster before a run is made on it; if it is not made, all is as before.

    Whoever calls this keeps others of the state directory from starting meanwhile.

    Raises:
        RunRefused: another state directory owns it, or the owner cannot be asked.
    """
    made = asyncio.run(_made(how))
    try:
        yield
    except BaseException:
        if made and not live_runs(how.state, how.cluster_id):
            asyncio.run(given_up(how))
        raise


async def refuse_another(how: Claiming) -> None:
    """See that no other state directory owns a cluster, before something is changed on it.

    With `take_over` the cluster is taken from it, for the half hour that a claim lasts.

    Raises:
        RunRefused: another one owns it.
    """
    async with aclosing(look_claim(how.cluster, how.state, how.cluster_id)) as claim:
        standing = await claim.look()
    if isinstance(standing, OwnedByOthers) and how.take_over:
        await _made(how)
    else:
        _refuse(standing, only_ends=True)


def look_claim(cluster: Cluster, state: StateDir, cluster_id: str) -> ClusterClaim:
    """Make a claim for looking only: a state directory without an id gets none by it."""
    return cluster.claim(_owner(known_id(state) or "", ""), cluster_id)


async def owner_findings(how: Claiming | None) -> tuple[Finding, ...]:
    """Tell what a start would meet with that is to own its cluster. Changes nothing."""
    if how is None:
        return ()
    async with aclosing(look_claim(how.cluster, how.state, how.cluster_id)) as claim:
        standing, preview = await claim.look(), await claim.preview()
    warning = _warning(standing, how)
    if warning is not None:
        return (Finding(Severity.WARNING, FindingKind.OWNER, (), warning),)
    if isinstance(standing, Unowned) and preview.makes_topic:
        return (Finding(Severity.NOTE, FindingKind.OWNER, (), _will_be_made(preview)),)
    return ()


def _warning(standing: ClaimStatus, how: Claiming) -> str | None:
    match standing:
        case OwnedByOthers() if how.take_over:
            return f"{standing}. It is taken over: its engines send nothing more then"
        case OwnedByOthers():
            return f"{standing}{_of_us(standing)}. A start is refused without {TAKE_OVER}"
        case OwnerUnknown():
            return f"{standing}. A start is refused until that is known. {_WITHOUT}"
    return None


class ClusterHold:
    """An engine's hold on its cluster, from its start to its end.

    Args:
        how: who owns the cluster.
        clock: time.
    """

    def __init__(self, how: Claiming, clock: Clock) -> None:
        self._how = how
        self._claim = how.claim()
        self.guard = SendGuard(self._claim, clock)

    async def end(self, *, ended: bool) -> None:
        """Close it; at the run's end also release the cluster, if no other run of ours needs it.

        One that is live does, and one that has left its throttle.
        """
        try:
            if ended and self.guard.lost is None:
                why = await self._released()
                if why is not None:
                    log.warning("the cluster stays owned: %s", why)
        finally:
            await self._claim.aclose()

    async def _released(self) -> str | None:
        """Release the cluster; why it stays owned though nothing of ours is live, or None."""
        how = self._how
        try:
            with starting(how.state, how.cluster_id) as live:
                others = any(other.name != how.run for other in live)
                if others or any(throttles_left(how.state, how.cluster_id, how.run)):
                    return None
                return await _let_go(self._claim)
        except RunProblem as problem:
            return str(problem)


async def _made(how: Claiming) -> bool:
    """Claim the cluster; whether this state directory did not own it before."""
    async with aclosing(how.claim()) as claim:
        before, preview = await claim.look(), await claim.preview()
        if isinstance(before, Unowned) and preview.makes_topic:
            click.echo(f"note: {_will_be_made(preview)}", err=True)
        standing = await claim.claim(take_over=how.take_over)
    _refuse(standing, only_ends=how.only_ends)
    return isinstance(standing, OwnedHere) and not isinstance(before, OwnedHere)


async def given_up(how: Claiming) -> str | None:
    """Release a cluster; why it stays owned, or None.

    Whoever calls this keeps others of the state directory from starting meanwhile.
    """
    async with aclosing(how.claim()) as claim:
        return await _let_go(claim)


async def _let_go(claim: ClusterClaim) -> str | None:
    """Release what is ours, also where another engine of ours had the heartbeats."""
    standing = await claim.look()
    if isinstance(standing, OwnedHere):
        standing = await claim.claim(take_over=False)
    if isinstance(standing, OwnedHere):
        return await claim.release()
    return None if isinstance(standing, Unowned) else str(standing)


def _will_be_made(preview: ClaimPreview) -> str:
    return (
        f"no consumer group was ever used on this cluster: owning it has brokers create "
        f"{preview.topic}, with their own settings"
    )


def _refuse(standing: ClaimStatus, *, only_ends: bool) -> None:
    match standing:
        case OwnedByOthers():
            raise RunRefused(
                f"nothing was sent: {standing}{_of_us(standing)}. Two runs that know nothing of "
                f"each other must not pace one cluster. To take it over: {TAKE_OVER}; its engines "
                "send nothing more then, and what is in flight goes on"
            )
        case OwnerUnknown() if not only_ends:
            raise RunRefused(f"nothing was sent: {standing}. {_WITHOUT}")
        case Unowned() if not only_ends:
            raise RunRefused(
                "nothing was sent: another took the cluster and let go of it in this moment. "
                "Try again"
            )


def _of_us(others: OwnedByOthers) -> str:
    """Tell somebody who has two state directories that the other one is theirs."""
    me, owner = this_process(), others.owner
    if owner is None or (owner.user, owner.host) != (me.user, me.host):
        return ""
    return f". That is another state directory of this user here: --state-dir, or {STATE_DIR}"


def _owner(state_id: str, run: str) -> ClusterOwner:
    me = this_process()
    return ClusterOwner(state_dir=state_id, user=me.user, host=me.host, run=run, since=me.since)
