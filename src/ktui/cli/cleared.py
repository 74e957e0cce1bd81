"""What became of throttles that were left behind, for people and for scripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ktui.cli.errors import BAD_INPUT, FAILED
from ktui.cli.partition_json import SCHEMA_VERSION
from ktui.cli.table import table
from ktui.cli.throttles_found import Stands, Throttle
from ktui.cli.throttles_look import Look
from ktui.cluster.ports import ConfigScope
from ktui.cluster.text import clean

MOST_SHOWN = 400
"""Characters of a list that people are shown; --json has all."""

NOT_AT_REST = (
    "a run that is not seen from here may need what looks left behind. Wait until all is at rest, "
    "or take it off all the same with --yes"
)


class ThrottleJson(msgspec.Struct, frozen=True, kw_only=True):
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
    taken_off: tuple[ThrottleJson, ...]
    """With `dry_run`, those that would be."""
    kept: tuple[ThrottleJson, ...]
    """Needed, or not set on the resource itself."""
    left: tuple[ThrottleJson, ...]
    """Those that were to be taken off, and are there still."""
    unread: tuple[str, ...]
    not_at_rest: tuple[str, ...]
    """What moved or changed while they were watched."""


class Cleared(msgspec.Struct, frozen=True):
    """What came of it."""

    look: Look
    left: Mapping[Throttle, str]
    """Those that are there still, and why."""
    stirring: tuple[str, ...] = ()
    """What moved or changed while they were watched, as sentences."""

    @property
    def stray(self) -> list[Throttle]:
        """Those that nobody needs."""
        return [t for t in self.look.throttles if t.stands is Stands.LEFT_BEHIND]

    @property
    def kept(self) -> list[Throttle]:
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


def _reason(throttle: Throttle) -> str:
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


def _row(throttle: Throttle) -> tuple[str, str, str]:
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


def _one(throttle: Throttle, why: str | None = None) -> ThrottleJson:
    return ThrottleJson(
        scope=throttle.resource.scope,
        name=throttle.resource.name,
        key=throttle.key,
        values=throttle.values,
        why=why,
    )
