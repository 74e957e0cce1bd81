"""The throttles that are set: as findings of `ktui doctor`, and removed by --clear-throttles."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import click
import msgspec

from ktui.cli.context.claim import OwnerChoice, check_owner
from ktui.cli.context.cluster import Cluster
from ktui.cli.context.terminal import BAD_INPUT, FAILED, NOT_ALL_DONE, can_ask
from ktui.cli.doctor_findings import DoctorFinding, good, name_some, note, warning
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import ConfigSource, Setting
from ktui.cluster.settings import ALL, REPLICAS
from ktui.cluster.text import clean
from ktui.columns import column, table_of
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.throttle_status import inherited_value_text, name_resources
from ktui.ops.leftovers import (
    NOT_SEEN,
    WATCHED_S,
    FoundThrottle,
    Leftovers,
    ThrottleReason,
    ThrottleScan,
    catching_up_sentences,
    who_catches_up,
)
from ktui.planning.plan import join_named, join_some

CLEAR = (
    "`ktui doctor --clear-throttles --dry-run` shows each throttle; without --dry-run it removes "
    "them."
)


def judge_throttles(scan: ThrottleScan) -> list[DoctorFinding]:
    """Return the findings, the worst first."""
    found = [throttle for throttle in scan.throttles if not throttle.down]
    findings = [
        *(warning(f"could not read: {sentence}") for sentence in scan.unread),
        *_down(scan.down),
        *_catching_up(scan),
        *_of_runs([t for t in found if t.reason is ThrottleReason.WAITING_RUN]),
        *_rates(
            [t for t in found if t.reason is ThrottleReason.LEFT_BEHIND and t.key not in REPLICAS]
        ),
        *_lists([t for t in found if t.reason is ThrottleReason.LEFT_BEHIND and t.key in REPLICAS]),
        *_log_dirs([t for t in found if t.reason is ThrottleReason.LOG_DIRS]),
        *_inherited([t for t in found if t.reason is ThrottleReason.INHERITED]),
    ]
    return findings or [good("no replication throttle is left behind")]


def _down(down: Sequence[int]) -> Iterator[DoctorFinding]:
    if down:
        yield warning(
            f"could not read {_unread_brokers(down)}",
            "A rate that is set there binds again once the broker is back. "
            "`ktui doctor --clear-throttles` deletes it through a controller, if nobody needs it.",
        )


def _unread_brokers(down: Sequence[int]) -> str:
    verb = "is" if len(down) == 1 else "are"
    return f"the throttles of {join_named('broker', down, most=20)}, which {verb} down"


def _catching_up(scan: ThrottleScan) -> Iterator[DoctorFinding]:
    for sentence in catching_up_sentences(scan):
        fix = (
            "So this throttle is in use. Once the replicas are in sync, `ktui doctor "
            "--clear-throttles` removes it."
        )
        yield note(sentence, fix)


def _of_runs(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    for run in sorted({throttle.run for throttle in found}):
        where = name_resources([(t.resource, t.key) for t in found if t.run == run])
        yield warning(
            f"run {run} has no engine, and its throttle is still set on {where}",
            f"`ktui resume {run}` continues the run, and restores the previous settings. An "
            "exported run restores them where it is imported. See each value with "
            f"`ktui throttle {run}`.",
        )


def _rates(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    for key in sorted({throttle.key for throttle in found}):
        rated = [_rated(throttle) for throttle in found if throttle.key == key]
        yield warning(
            f"{key} is set on {join_some(rated, most=5)}, and nothing moves",
            f"An earlier move left it behind, or a run is between two steps. {CLEAR}",
        )


def _rated(throttle: FoundThrottle) -> str:
    return f"{throttle.where} ({throttle.shown})"


def _lists(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    everything = sorted({t.resource.name for t in found if ALL in t.values})
    listed = sorted({t.resource.name for t in found if ALL not in t.values})
    fix = f"A listed replica that is in sync stalls producers at every leader change. {CLEAR}"
    if everything:
        what = (
            f"every replica of {name_some('topic', everything)} is throttled (*), and nothing moves"
        )
        yield warning(what, fix)
    if listed:
        named = name_some("topic", listed)
        what = f"throttled replicas that are not being added are listed for {named}"
        yield warning(what, fix)


def _log_dirs(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    if found:
        yield note(
            f"{found[0].key} is set on {join_some(map(_rated, found), most=5)}",
            "It limits moves between the log dirs of a broker, which ktui cannot see. If none is "
            "in flight, delete it with kafka-configs --entity-type brokers.",
        )


def _inherited(found: Sequence[FoundThrottle]) -> Iterator[DoctorFinding]:
    alike: dict[tuple[str, Setting], list[int]] = {}
    for throttle in found:
        alike.setdefault((throttle.key, throttle.setting), []).append(int(throttle.resource.name))
    for (key, setting), brokers in alike.items():
        fix = "delete it with kafka-configs --entity-type brokers --entity-default."
        if setting.source is ConfigSource.FILE:
            fix = "take it out of server.properties, and restart."
        yield note(
            f"{key} is {clean(inherited_value_text(setting))} on {name_some('broker', brokers)}",
            f"It limits every listed replica, now and later. --clear-throttles keeps it: {fix}",
        )


MOST_SHOWN = 400  # characters of a list that the text output shows; --json has the whole list

NOT_AT_REST = (
    "a run that ktui cannot see from here may need these throttles. Wait until nothing moves, or "
    "remove them anyway with --yes"
)
_CHANGED = "somebody has changed it meanwhile, or it is needed now. ktui leaves it alone"
CLEARING = "ktui doctor --clear-throttles"


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


class ClearResult(msgspec.Struct, frozen=True):
    """The result of `--clear-throttles`."""

    scan: ThrottleScan
    left: Mapping[FoundThrottle, str]
    changes: tuple[str, ...] = ()  # sentences about the moves and changes seen during the watch
    dry_run: bool = False

    @property
    def stray(self) -> list[FoundThrottle]:
        return [t for t in self.scan.throttles if t.reason is ThrottleReason.LEFT_BEHIND]

    @property
    def kept(self) -> list[FoundThrottle]:
        return [t for t in self.scan.throttles if t.reason is not ThrottleReason.LEFT_BEHIND]

    def code(self) -> int:
        """Return the exit code: 0, 1 if something remains, 2 if refused, 3 if not all is known."""
        if NOT_AT_REST in self.left.values():
            return BAD_INPUT
        if any(not throttle.down for throttle in self.left):
            return FAILED
        # a broker is down that may have throttles, which nobody has deleted
        unseen = any(t.down for t in (self.scan.throttles if self.dry_run else self.kept))
        if self.left or self.scan.unread or unseen:
            return NOT_ALL_DONE
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
        yield f"could not read: {_unread_brokers(cleared.scan.down)}"
    if cleared.stray:
        yield f"left behind:\n{table_of(_COLUMNS, cleared.stray)}"
    if cleared.kept:
        down = cleared.scan.down
        why = column("WHY", lambda throttle: _reason(throttle, down))
        yield f"kept:\n{table_of((*_COLUMNS, why), cleared.kept)}"
    for sentence in catching_up_sentences(cleared.scan):
        yield f"{sentence}. Once in sync: {CLEARING}"
    if all(throttle.down for throttle in cleared.scan.throttles):
        yield "no replication throttle is set" + (" elsewhere" if cleared.scan.down else "")


def _value(throttle: FoundThrottle) -> str:
    value = clean(throttle.value)
    if len(value) > MOST_SHOWN:
        value = f"{value[:MOST_SHOWN]}… ({len(throttle.values):,} entries)"
    return value


_COLUMNS = (
    column("ON", lambda throttle: throttle.where),
    column("SETTING", lambda throttle: throttle.key),
    column("VALUE", _value),
)


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


def cleared_json(cluster: str, cleared: ClearResult) -> dict[str, object]:
    """Return the JSON form of the result. `why` says why a throttle is kept, or is still set."""
    down = cleared.scan.down
    return {
        "schema_version": SCHEMA_VERSION,
        "cluster": cluster,
        "dry_run": cleared.dry_run,
        "taken_off": [_throttle_json(t) for t in cleared.stray if t not in cleared.left],
        "kept": [_throttle_json(t, _reason(t, down)) for t in cleared.kept],
        "left": [_throttle_json(t, why) for t, why in cleared.left.items()],
        "unread": [*cleared.scan.unread, *([_unread_brokers(down)] if down else ())],
        "not_at_rest": cleared.changes,
    }


def _throttle_json(throttle: FoundThrottle, why: str | None = None) -> dict[str, object]:
    scope, name = throttle.resource.scope, throttle.resource.name
    return {
        "scope": scope,
        "name": name,
        "key": throttle.key,
        "values": throttle.values,
        "why": why,
    }


async def clear(
    cluster: Cluster,
    state: StateDir,
    *,
    dry_run: bool,
    json: bool,
    yes: bool = False,
    take_over: bool = False,
) -> int:
    """Remove the throttles that were left behind, print the result, and return the exit code.

    With `json` nobody is asked, and with `yes` they go even while something moves or changes.
    ClusterError: ktui cannot find out which throttles are needed; nothing was changed.
    """
    async with cluster.ports() as (reader, writer):
        leftovers = Leftovers(reader, state, SystemClock())
        cluster_id, ownership = (await reader.describe_cluster()).cluster_id, OwnerChoice(take_over)
        if not dry_run:
            await check_owner(cluster, state, cluster_id, CLEARING, ownership)
        cleared = ClearResult(await leftovers.scan(), {}, dry_run=dry_run)
        if not json:
            click.echo("\n\n".join(found_text(cleared)))
        if cleared.stray:
            cleared = await _at_rest(cleared, leftovers, json=json, yes=yes)
        if cleared.stray and not cleared.left and not dry_run:
            # the operator may have taken hours to answer
            await check_owner(cluster, state, cluster_id, CLEARING, ownership)
            current = await leftovers.scan()
            changed = {t: _CHANGED for t in cleared.stray if t not in current.throttles}
            unchanged = [throttle for throttle in cleared.stray if throttle not in changed]
            left = changed | await leftovers.remove(writer, unchanged)
            cleared = msgspec.structs.replace(cleared, left=left)
    if json:
        click.echo(encode(cleared_json(cluster.name, cleared)))
    else:
        click.echo(f"\n{outcome_text(cleared)}")
    return cleared.code()


async def _at_rest(
    cleared: ClearResult, leftovers: Leftovers, *, json: bool, yes: bool
) -> ClearResult:
    """Watch the cluster for some seconds; if it is not at rest, ask or leave everything."""
    if not json:
        click.echo(f"\n{NOT_SEEN}.\nWatching for {WATCHED_S:.0f} s for moves and changes ...")
    changes = await leftovers.watch(cleared.scan)
    cleared = msgspec.structs.replace(cleared, changes=changes)
    if not changes:
        return cleared
    if not json:
        click.echo("\n".join(("", "not at rest:", *(f"  {sentence}" for sentence in changes))))
    if yes or (not json and not cleared.dry_run and _confirmed()):
        return cleared
    return msgspec.structs.replace(cleared, left=dict.fromkeys(cleared.stray, NOT_AT_REST))


def _confirmed() -> bool:
    if not can_ask():
        return False
    return click.confirm("A run that ktui cannot see may need these throttles. Remove them anyway?")
