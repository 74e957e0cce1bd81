"""Takes off throttles that were left behind; each is shown before, and what is left after."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import click
import msgspec

from ktui.cli.context.claim import claiming, refuse_another
from ktui.cli.context.cluster import Cluster
from ktui.cli.context.errors import BAD_INPUT, FAILED
from ktui.cli.doctor.throttle_scan import (
    NOT_SEEN,
    WATCHED_S,
    Again,
    FoundThrottle,
    Stands,
    ThrottleScan,
    claims_of,
    look_at_throttles,
    stirring,
    topic_names,
)
from ktui.cli.output.json_form import SCHEMA_VERSION, encode
from ktui.cli.output.table import table
from ktui.cluster.clock import SystemClock
from ktui.cluster.ports import (
    ClusterReader,
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    Setting,
    Verdict,
    WriteResult,
)
from ktui.cluster.text import clean
from ktui.cluster.throttle_settings import REPLICAS, parse_throttled_list
from ktui.execution.host.state_dir import StateDir

MOST_SHOWN = 400
"""Characters of a list that people are shown; --json has all."""

NOT_AT_REST = (
    "a run that is not seen from here may need what looks left behind. Wait until all is at rest, "
    "or take it off all the same with --yes"
)


class FoundThrottleJson(msgspec.Struct, frozen=True, kw_only=True):
    """One throttle, as it was found."""

    scope: ConfigScope
    name: str
    key: str
    values: tuple[str, ...]
    why: str | None
    """Why it is kept, or is left though it was to be taken off."""


class ClearedJson(msgspec.Struct, frozen=True, kw_only=True):
    """What `ktui doctor --clear-throttles --json` prints."""

    schema_version: int
    cluster: str
    dry_run: bool
    taken_off: tuple[FoundThrottleJson, ...]
    """With `dry_run`, those that would be."""
    kept: tuple[FoundThrottleJson, ...]
    """Needed, or not set on the resource itself."""
    left: tuple[FoundThrottleJson, ...]
    """Those that were to be taken off, and are there still."""
    unread: tuple[str, ...]
    not_at_rest: tuple[str, ...]
    """What moved or changed while they were watched."""


class Cleared(msgspec.Struct, frozen=True):
    """What came of it."""

    look: ThrottleScan
    left: Mapping[FoundThrottle, str]
    """Those that are there still, and why."""
    stirring: tuple[str, ...] = ()
    """What moved or changed while they were watched, as sentences."""

    @property
    def stray(self) -> list[FoundThrottle]:
        """Those that nobody needs."""
        return [t for t in self.look.throttles if t.stands is Stands.LEFT_BEHIND]

    @property
    def kept(self) -> list[FoundThrottle]:
        """All others."""
        return [t for t in self.look.throttles if t.stands is not Stands.LEFT_BEHIND]

    def code(self) -> int:
        """Give the exit code."""
        if NOT_AT_REST in self.left.values():
            return BAD_INPUT
        if self.left or self.look.unread:
            return FAILED
        used = (Stands.MOVING, Stands.LIVE_RUN, Stands.WAITING_RUN)
        needed = any(throttle.stands in used for throttle in self.kept)
        return BAD_INPUT if needed and not self.stray else 0


def _reason(throttle: FoundThrottle) -> str:
    """Say why a throttle is kept."""
    match throttle.stands:
        case Stands.LIVE_RUN:
            return f"run {throttle.run}, which is live, uses it: ktui throttle {throttle.run} none"
        case Stands.WAITING_RUN:
            return f"run {throttle.run} has set it: ktui resume {throttle.run} puts it back"
        case Stands.MOVING:
            return "a move in flight may need it"
        case Stands.LOG_DIRS:
            return "it binds moves between log dirs, which are not seen"
        case Stands.INHERITED:
            return f"it is not set here: {throttle.setting.source}"
        case Stands.LEFT_BEHIND:
            return ""


def found_text(cleared: Cleared) -> Iterable[str]:
    """Show each throttle, before anything is done about it."""
    for sentence in cleared.look.unread:
        yield f"could not look: {sentence}"
    if cleared.stray:
        rows = [_row(throttle) for throttle in cleared.stray]
        yield "left behind:\n" + table(("ON", "SETTING", "VALUE"), rows)
    if cleared.kept:
        kept = [(*_row(throttle), _reason(throttle)) for throttle in cleared.kept]
        yield "kept:\n" + table(("ON", "SETTING", "VALUE", "WHY"), kept)
    if not cleared.look.throttles:
        yield "no replication throttle is set"


def _row(throttle: FoundThrottle) -> tuple[str, str, str]:
    value = clean(throttle.value)
    if len(value) > MOST_SHOWN:
        value = f"{value[:MOST_SHOWN]}… ({len(throttle.values):,} entries)"
    return throttle.where, throttle.key, value


def outcome_text(cleared: Cleared, *, dry_run: bool) -> str:
    """Say what came of it."""
    if not cleared.stray:
        return "nothing was left behind; nothing was changed"
    if NOT_AT_REST in cleared.left.values():
        return f"nothing was changed: {NOT_AT_REST}"
    if dry_run:
        return "nothing was changed"
    if not cleared.left:
        return "taken off, and read back: nothing of it is left"
    lines = [
        f"  {throttle.where} {throttle.key}: {clean(why)}" for throttle, why in cleared.left.items()
    ]
    return "\n".join(["there still:", *lines])


def cleared_json(cluster: str, cleared: Cleared, *, dry_run: bool) -> ClearedJson:
    """Put it in its JSON form."""
    return ClearedJson(
        schema_version=SCHEMA_VERSION,
        cluster=cluster,
        dry_run=dry_run,
        taken_off=tuple(_one(t) for t in cleared.stray if t not in cleared.left),
        kept=tuple(_one(t, _reason(t)) for t in cleared.kept),
        left=tuple(_one(t, why) for t, why in cleared.left.items()),
        unread=cleared.look.unread,
        not_at_rest=cleared.stirring,
    )


def _one(throttle: FoundThrottle, why: str | None = None) -> FoundThrottleJson:
    return FoundThrottleJson(
        scope=throttle.resource.scope,
        name=throttle.resource.name,
        key=throttle.key,
        values=throttle.values,
        why=why,
    )


READ_BACK_S = 5.0
"""For so long brokers are asked again whether a change has come to them."""
READ_AGAIN_S = 0.1
_OTHER = "it was changed meanwhile, or is needed by now, and is left to whoever did that"
_UNANSWERED = WriteResult(Verdict.UNKNOWN)

CLEARING = "ktui doctor --clear-throttles"
"""What a claim names in place of a run."""

_BLANKS = (("", ""), (" ", ""), ("", " "), (" ", " "))


async def clear(
    cluster: Cluster,
    state: StateDir,
    *,
    dry_run: bool,
    json: bool,
    yes: bool = False,
    take_over: bool = False,
) -> int:
    """Take off what was left behind in a cluster, and print it; gives the exit code.

    Args:
        cluster: where.
        state: whose runs may need a throttle.
        dry_run: whether nothing is to be taken off.
        json: whether one JSON object is printed, and nobody is asked.
        yes: whether it is to be taken off also while something moves or changes.
        take_over: whether the cluster is taken from another state directory that owns it.

    Raises:
        RunRefused: another state directory owns the cluster, and may need them.
        ClusterError: it cannot be told what is needed; nothing was changed.
        StateDirProblem: the same.
    """
    reader = cluster.reader()
    try:
        names, hidden = await topic_names(reader)
        described = await reader.describe_cluster()
        how = claiming(cluster, state, described.cluster_id, CLEARING, take_over=take_over)
        if how is not None and not dry_run:
            await refuse_another(how)
        again = partial(look_at_throttles, reader, described, names, claims_of(state))
        look = await again()
        look = msgspec.structs.replace(look, unread=(*hidden, *look.unread))
        cleared = Cleared(look, {})
        if not json:
            click.echo("\n\n".join(found_text(cleared)))
        if cleared.stray:
            cleared = await _at_rest(cleared, again, json=json, yes=yes, dry_run=dry_run)
        if cleared.stray and not cleared.left and not dry_run:
            if how is not None:  # the operator may have been asked, and have taken hours
                await refuse_another(how)
            now = await again()
            other = {t: _OTHER for t in cleared.stray if t not in now.throttles}
            same = [throttle for throttle in cleared.stray if throttle not in other]
            left = other | await _take_off(cluster, reader, same)
            cleared = msgspec.structs.replace(cleared, left=left)
    finally:
        await reader.aclose()
    if json:
        click.echo(encode(cleared_json(cluster.name, cleared, dry_run=dry_run)))
    else:
        click.echo(f"\n{outcome_text(cleared, dry_run=dry_run)}")
    return cleared.code()


async def _at_rest(
    cleared: Cleared, again: Again, *, json: bool, yes: bool, dry_run: bool
) -> Cleared:
    """See over some seconds whether all is at rest; where it is not, leave everything or ask."""
    if not json:
        click.echo(f"\n{NOT_SEEN}.\nWatching for {WATCHED_S:.0f} s whether anything moves ...")
    seen = await stirring(cleared.look, again, SystemClock())
    cleared = msgspec.structs.replace(cleared, stirring=seen)
    if not seen:
        return cleared
    if not json:
        click.echo("\n".join(("", "not at rest:", *(f"  {sentence}" for sentence in seen))))
    if yes or (not json and not dry_run and _asked()):
        return cleared
    return msgspec.structs.replace(cleared, left=dict.fromkeys(cleared.stray, NOT_AT_REST))


def _asked() -> bool:
    """Ask, where there is someone to ask."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return click.confirm("A run that is not seen may need them. Take them off all the same?")


async def _take_off(
    cluster: Cluster, reader: ClusterReader, stray: Sequence[FoundThrottle]
) -> dict[FoundThrottle, str]:
    """Take throttles off; give those that are there still, and why.

    A broker that is asked knows of a change a moment after it was answered: that is waited for.
    """
    if not stray:
        return {}
    clock, writer = SystemClock(), cluster.writer()
    try:
        answers = await writer.alter_configs([_change(throttle) for throttle in stray])
        until_s = clock.monotonic() + READ_BACK_S
        while True:
            now = await _read(reader, stray)
            there = [throttle for throttle in stray if _is_there(now, throttle)]
            emptied = [t for t in stray if t.key in REPLICAS and _own(now, t) == ""]
            await _delete(writer, emptied)
            results = {t: answers.get(t.resource, _UNANSWERED) for t in there}
            refused = all(result.verdict is Verdict.REFUSED for result in results.values())
            if (refused and not emptied) or clock.monotonic() >= until_s:
                return {throttle: _why(result) for throttle, result in results.items()}
            await clock.sleep(READ_AGAIN_S)
    finally:
        await writer.aclose()


def _change(throttle: FoundThrottle) -> ConfigChange:
    """Give what takes it off: what someone else puts to a list meanwhile stays there.

    A list written with blanks keeps them, and Kafka tells it without: each entry goes every way.
    """
    resource, key = throttle.resource, throttle.key
    if key not in REPLICAS:
        return ConfigChange(resource, key, ConfigOp.DELETE)
    listed = sorted(parse_throttled_list(throttle.value))
    every_way = (f"{before}{each}{after}" for each in listed for before, after in _BLANKS)
    return ConfigChange(resource, key, ConfigOp.SUBTRACT, ",".join(every_way))


async def _delete(writer: ClusterWriter, emptied: Iterable[FoundThrottle]) -> None:
    """Delete lists with nothing in them any more."""
    changes = [ConfigChange(t.resource, t.key, ConfigOp.DELETE) for t in emptied]
    if changes:
        await writer.alter_configs(changes)


Now = Mapping[ConfigResource, Mapping[str, Setting]]


async def _read(reader: ClusterReader, throttles: Sequence[FoundThrottle]) -> Now:
    keys = {throttle.key for throttle in throttles}
    return (await reader.settings({t.resource for t in throttles}, keys)).settings


def _setting(now: Now, throttle: FoundThrottle) -> Setting | None:
    return now.get(throttle.resource, {}).get(throttle.key)


def _own(now: Now, throttle: FoundThrottle) -> str | None:
    setting = _setting(now, throttle)
    return None if setting is None else setting.own


def _is_there(now: Now, throttle: FoundThrottle) -> bool:
    """Whether it stands still, or that cannot be told."""
    if throttle.resource not in now:
        return True
    own = _own(now, throttle)
    if throttle.key in REPLICAS:
        return not parse_throttled_list(own or "").isdisjoint(throttle.values)
    return own == throttle.value


def _why(result: WriteResult) -> str:
    if result.verdict is Verdict.UNKNOWN:
        return "Kafka's answer was lost"
    if result.verdict is Verdict.REFUSED:
        return ": ".join(filter(None, (result.code, result.message)))
    return "Kafka has taken it off, and it is there still, or again"
