"""Remove throttles that were left behind: show each one before, and what remains after."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial

import click
import msgspec

from ktui.cli.context.claim import check_no_other_owner, claim_request
from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BAD_INPUT, FAILED, UNREAD
from ktui.cli.context.terminal import can_ask
from ktui.cli.doctor.remove_throttles import remove_throttles
from ktui.cli.doctor.throttle_findings import (
    catching_up_sentences,
    unread_brokers,
    who_catches_up,
)
from ktui.cli.doctor.throttle_scan import (
    NOT_SEEN,
    WATCHED_S,
    FoundThrottle,
    ScanAgain,
    ThrottleReason,
    ThrottleScan,
    claims_reader,
    scan_throttles,
    scan_topics,
    watch_for_changes,
)
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import (
    ConfigScope,
)
from ktui.cluster.text import clean
from ktui.execution.host.state_dir import StateDir

MOST_SHOWN = 400
"""Characters of a list that the text output shows; --json has the whole list."""

NOT_AT_REST = (
    "a run that ktui cannot see from here may need these throttles. Wait until nothing moves, or "
    "remove them anyway with --yes"
)
_CHANGED = "somebody has changed it meanwhile, or it is needed now. ktui leaves it alone"
CLEARING = "ktui doctor --clear-throttles"
"""The name in an ownership claim, where a run would be."""


_REASONS = {
    ThrottleReason.MOVING: "a move in flight may need it",
    ThrottleReason.LOG_DIRS: "it limits moves between log dirs, which ktui cannot see",
}
_USED = (
    ThrottleReason.MOVING,
    ThrottleReason.CATCHING_UP,
    ThrottleReason.LIVE_RUN,
    ThrottleReason.WAITING_RUN,
)


class FoundThrottleJson(msgspec.Struct, frozen=True, kw_only=True):
    """One throttle, as found."""

    scope: ConfigScope
    name: str
    key: str
    values: tuple[str, ...]
    why: str | None
    """Why the throttle is kept, or why it could not be removed."""


class ClearedJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui doctor --clear-throttles --json`."""

    schema_version: int
    cluster: str
    dry_run: bool
    taken_off: tuple[FoundThrottleJson, ...]
    """The throttles removed; with `dry_run`, the ones to be removed."""
    kept: tuple[FoundThrottleJson, ...]
    """Throttles that are needed, or not set on the resource itself."""
    left: tuple[FoundThrottleJson, ...]
    """Throttles that were to be removed, and are still set."""
    unread: tuple[str, ...]
    not_at_rest: tuple[str, ...]
    """The moves and changes seen during the watch."""


class ClearResult(msgspec.Struct, frozen=True):
    """The result of `--clear-throttles`."""

    scan: ThrottleScan
    left: Mapping[FoundThrottle, str]
    """Throttles that are still set, and why."""
    changes: tuple[str, ...] = ()
    """Sentences about the moves and changes seen during the watch."""
    dry_run: bool = False

    @property
    def stray(self) -> list[FoundThrottle]:
        """The throttles that nobody needs."""
        return [t for t in self.scan.throttles if t.reason is ThrottleReason.LEFT_BEHIND]

    @property
    def kept(self) -> list[FoundThrottle]:
        """The throttles that are not stray."""
        return [t for t in self.scan.throttles if t.reason is not ThrottleReason.LEFT_BEHIND]

    @property
    def _unseen(self) -> bool:
        """Whether a broker is down that may have throttles, which nobody has deleted."""
        return any(t.down for t in (self.scan.throttles if self.dry_run else self.kept))

    def code(self) -> int:
        """Return the exit code: 0, 1 if something remains, 2 if refused, 3 if not all is known."""
        if NOT_AT_REST in self.left.values():
            return BAD_INPUT
        if any(not throttle.down for throttle in self.left):
            return FAILED
        if self.left or self.scan.unread or self._unseen:
            return UNREAD
        needed = any(throttle.reason in _USED for throttle in self.kept)
        return BAD_INPUT if needed and not self.stray else 0


def _reason(throttle: FoundThrottle, down: Collection[int]) -> str:
    match throttle.reason:
        case ThrottleReason.LIVE_RUN:
            return f"live run {throttle.run} uses it. To lift it: ktui throttle {throttle.run} none"
        case ThrottleReason.WAITING_RUN:
            return f"run {throttle.run} has set it. To restore it: ktui resume {throttle.run}"
        case ThrottleReason.CATCHING_UP:
            return who_catches_up(throttle.binds, down)
        case ThrottleReason.INHERITED:
            return f"it is not set here: {throttle.setting.source}"
        case _:
            return _REASONS.get(throttle.reason, "")


def found_text(cleared: ClearResult) -> Iterable[str]:
    """Describe each throttle, before any is removed."""
    for sentence in cleared.scan.unread:
        yield f"could not read: {sentence}"
    if cleared.scan.down:
        yield f"could not read: {unread_brokers(cleared.scan.down)}"
    if cleared.stray:
        rows = [_row(throttle) for throttle in cleared.stray]
        yield "left behind:\n" + table(("ON", "SETTING", "VALUE"), rows)
    if cleared.kept:
        down = cleared.scan.down
        kept = [(*_row(throttle), _reason(throttle, down)) for throttle in cleared.kept]
        yield "kept:\n" + table(("ON", "SETTING", "VALUE", "WHY"), kept)
    for sentence in catching_up_sentences(cleared.scan):
        yield f"{sentence}. Once in sync: {CLEARING}"
    if all(throttle.down for throttle in cleared.scan.throttles):
        yield "no replication throttle is set" + (" elsewhere" if cleared.scan.down else "")


def _row(throttle: FoundThrottle) -> tuple[str, str, str]:
    value = clean(throttle.value)
    if len(value) > MOST_SHOWN:
        value = f"{value[:MOST_SHOWN]}… ({len(throttle.values):,} entries)"
    return throttle.where, throttle.key, value


def outcome_text(cleared: ClearResult) -> str:
    """Describe the result."""
    if not cleared.stray:
        return "nothing was left behind, so nothing was changed"
    if NOT_AT_REST in cleared.left.values():
        return f"nothing was changed: {NOT_AT_REST}"
    if cleared.dry_run:
        return "nothing was changed"
    lines = ["still set:"] if any(not throttle.down for throttle in cleared.left) else []
    lines += [f"  {t.where} {t.key}: {clean(why)}" for t, why in cleared.left.items() if not t.down]
    if not lines and any(not throttle.down for throttle in cleared.stray):
        where = " on what could be read" if cleared.scan.down or cleared.scan.unread else ""
        lines.append(f"removed. A read of the settings confirms that none is left{where}")
    lines += _unseen_outcomes(cleared)
    return "\n".join(lines)


def _unseen_outcomes(cleared: ClearResult) -> Iterator[str]:
    """Say of each broker that is down whether its rates are deleted."""
    left = {throttle.where: why for throttle, why in cleared.left.items() if throttle.down}
    for broker in dict.fromkeys(throttle.where for throttle in cleared.stray if throttle.down):
        if broker in left:
            yield (
                f"{broker} is down, and its rates could not be deleted: {clean(left[broker])}. If "
                "it has any, they bind again once it is back"
            )
        else:
            yield (
                f"{broker} is down: a controller has deleted its rates. Only the broker itself can "
                "confirm that, once it is back"
            )


def cleared_json(cluster: str, cleared: ClearResult) -> ClearedJson:
    """Return the JSON form of the result."""
    return ClearedJson(
        schema_version=SCHEMA_VERSION,
        cluster=cluster,
        dry_run=cleared.dry_run,
        taken_off=tuple(_throttle_json(t) for t in cleared.stray if t not in cleared.left),
        kept=tuple(_throttle_json(t, _reason(t, cleared.scan.down)) for t in cleared.kept),
        left=tuple(_throttle_json(t, why) for t, why in cleared.left.items()),
        unread=cleared.scan.unread
        + ((unread_brokers(cleared.scan.down),) if cleared.scan.down else ()),
        not_at_rest=cleared.changes,
    )


def _throttle_json(throttle: FoundThrottle, why: str | None = None) -> FoundThrottleJson:
    return FoundThrottleJson(
        scope=throttle.resource.scope,
        name=throttle.resource.name,
        key=throttle.key,
        values=throttle.values,
        why=why,
    )


async def clear(
    cluster: Cluster,
    state: StateDir,
    *,
    dry_run: bool,
    json: bool,
    yes: bool = False,
    take_over: bool = False,
) -> int:
    """Remove the throttles that were left behind in a cluster, and print the result.

    Args:
        cluster: the cluster.
        state: the state directory whose runs may need a throttle.
        dry_run: whether to change nothing.
        json: whether to print one JSON object and ask nobody.
        yes: whether to remove throttles even while something moves or changes.
        take_over: whether to take the cluster from another state directory that owns it.

    Returns:
        The exit code.

    Raises:
        RunRefused: another state directory owns the cluster, and may need the throttles.
        ClusterError: ktui cannot find out which throttles are needed; nothing was changed.
        StateDirProblem: the same, because the runs cannot be read.
    """
    reader = cluster.reader()
    try:
        topics = await scan_topics(reader)
        described = await reader.describe_cluster()
        claim = claim_request(cluster, state, described.cluster_id, CLEARING, take_over=take_over)
        if claim is not None and not dry_run:
            await check_no_other_owner(claim)
        scan_again = partial(scan_throttles, reader, topics, claims_reader(state))
        cleared = ClearResult(await scan_again(), {}, dry_run=dry_run)
        if not json:
            click.echo("\n\n".join(found_text(cleared)))
        if cleared.stray:
            cleared = await _at_rest(cleared, scan_again, json=json, yes=yes, dry_run=dry_run)
        if cleared.stray and not cleared.left and not dry_run:
            if claim is not None:  # the operator may have taken hours to answer
                await check_no_other_owner(claim)
            current = await scan_again()
            changed = {t: _CHANGED for t in cleared.stray if t not in current.throttles}
            unchanged = [throttle for throttle in cleared.stray if throttle not in changed]
            left = changed | await remove_throttles(cluster, reader, unchanged)
            cleared = msgspec.structs.replace(cleared, left=left)
    finally:
        await reader.aclose()
    if json:
        click.echo(encode(cleared_json(cluster.name, cleared)))
    else:
        click.echo(f"\n{outcome_text(cleared)}")
    return cleared.code()


async def _at_rest(
    cleared: ClearResult, scan_again: ScanAgain, *, json: bool, yes: bool, dry_run: bool
) -> ClearResult:
    """Watch the cluster for some seconds; if it is not at rest, ask or leave everything."""
    if not json:
        click.echo(f"\n{NOT_SEEN}.\nWatching for {WATCHED_S:.0f} s for moves and changes ...")
    changes = await watch_for_changes(cleared.scan, scan_again, SystemClock())
    cleared = msgspec.structs.replace(cleared, changes=changes)
    if not changes:
        return cleared
    if not json:
        click.echo("\n".join(("", "not at rest:", *(f"  {sentence}" for sentence in changes))))
    if yes or (not json and not dry_run and _confirmed()):
        return cleared
    return msgspec.structs.replace(cleared, left=dict.fromkeys(cleared.stray, NOT_AT_REST))


def _confirmed() -> bool:
    if not can_ask():
        return False
    return click.confirm("A run that ktui cannot see may need these throttles. Remove them anyway?")
