"""What a plan that was made does, and leaves undone: for people, and as JSON for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from ktui.cli.output.json_form import SCHEMA_VERSION, FailureJson, encode, failure_json
from ktui.cli.output.plan_report import finding_lines
from ktui.cli.output.table import table_of
from ktui.cluster.errors import Failure
from ktui.cluster.text import clean
from ktui.columns import Column
from ktui.planning.intents.before_after import (
    BeforeAfter,
    BrokerBeforeAfter,
    Holding,
    RackBeforeAfter,
)
from ktui.planning.intents.layout import UNKNOWN_BYTES
from ktui.planning.intents.made_plan import (
    REASONS,
    Left,
    MadePlan,
    Why,
    Wishes,
    left_name,
    reason_of,
)
from ktui.planning.names import join_some
from ktui.planning.plan import VERSION, PartitionTarget
from ktui.preview.preview import PlanPreview, sizes_phrase
from ktui.preview.text import room_lines, time_text
from ktui.quantities import as_bytes, as_count

_WHY = {
    **REASONS,
    Why.RACK: f"{REASONS[Why.RACK]}; --no-rack-aware allows that",
    Why.MAX_MOVES: "--max-moves is reached",
    Why.MAX_BYTES: "--max-bytes would be exceeded",
    Why.MAX_LEADER_CHANGES: "--max-leader-changes is reached",
}
"""The same reasons, with the options that they are about."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A plan that was made and checked."""

    words: str
    """What was wanted: drain broker 3."""
    amount: Callable[[int], str]
    """Formats how far a broker stays off what is wanted of it."""
    wishes: Wishes
    made: MadePlan
    failures: tuple[Failure, ...]
    """The brokers whose log dirs could not be read."""
    change: BeforeAfter
    preview: PlanPreview
    start: str
    """The command that starts a run of the plan."""


class PlanJson(msgspec.Struct, frozen=True):
    """The plan, in the format of Kafka's own tool."""

    version: int
    partitions: tuple[PartitionTarget, ...]


class MadeJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui plan drain --json`, and of every other verb that makes a plan."""

    schema_version: int
    intention: str
    plan: PlanJson
    replicas: int
    """The replicas that are copied to a broker."""
    bytes: int
    leaders: int
    """The partitions that get another preferred leader."""
    sizes_unknown: int
    """The partitions of the cluster whose size no broker reports."""
    rack_aware: bool
    """Whether partitions are kept on as many racks as they are on."""
    brokers: tuple[BrokerBeforeAfter, ...]
    racks: tuple[RackBeforeAfter, ...]
    left: tuple[Left, ...]
    """What stays as it is: a replica, a partition, or what a broker has too much or too little."""
    failures: tuple[FailureJson, ...]
    """The brokers whose log dirs could not be read."""
    start: str
    """The command that starts a run of the plan."""
    preview: PlanPreview
    """As `ktui plan check --json` has it."""


def made_json(made: Made) -> str:
    """Return a plan that was made as one JSON object."""
    change = made.change
    shape = MadeJson(
        schema_version=SCHEMA_VERSION,
        intention=made.words,
        plan=PlanJson(VERSION, made.made.plan.partitions),
        replicas=change.replicas,
        bytes=change.bytes,
        leaders=change.leaders,
        sizes_unknown=change.sizes_unknown,
        rack_aware=made.wishes.rack_aware,
        brokers=change.brokers,
        racks=change.racks,
        left=tuple(made.made.left),
        failures=tuple(map(failure_json, made.failures)),
        start=made.start,
        preview=made.preview,
    )
    return encode(shape)


def made_text(made: Made) -> str:
    """Report what moves, before and after, room, time, and what is left undone."""
    preview = made.preview
    blocks = [
        [_headline(made)],
        finding_lines(preview),
        before_after_lines(made.change),
        room_lines(preview),
        [f"time  {time_text(preview)}"] if preview.moves else [],
        left_lines(made.made.left, made.amount),
        [f"start it: {made.start}"],
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _headline(made: Made) -> str:
    change = made.change
    copied = (
        f"{as_count(change.replicas, 'replica')} to copy ({as_bytes(change.bytes)})"
        if change.replicas
        else "nothing to copy"
    )
    leaders = f"{as_count(change.leaders, 'preferred leader')} to change"
    partitions = as_count(len(made.made.plan.partitions), "partition")
    return f"{made.words}: {partitions}, {copied}, {leaders}"


def _figure(heading: str, words: Callable[[Holding], str], *, after: bool = False) -> Column[str]:
    return Column(
        heading=heading, cell=lambda each: words(each.after if after else each.before), right=True
    )


def _count(name: str) -> Callable[[Holding], str]:
    return lambda holding: f"{getattr(holding, name):,}"


def _bytes(holding: Holding) -> str:
    return as_bytes(holding.bytes)


_BROKER = Column[str](heading="BROKER", cell=lambda each: str(each.broker), right=True)
_RACK = Column[str](heading="RACK", cell=lambda each: clean(each.rack or ""))
_FIGURES = tuple(
    _figure("AFTER" if after else heading, words, after=after)
    for heading, words in (
        ("REPLICAS", _count("replicas")),
        ("BYTES", _bytes),
        ("LEADERS", _count("leaders")),
    )
    for after in (False, True)
)


def before_after_lines(change: BeforeAfter) -> list[str]:
    """Show what every broker has before and after, and every rack."""
    racked = (_RACK,) if change.racks else ()
    lines = table_of((_BROKER, *racked, *_FIGURES), change.brokers).splitlines()
    if change.racks:
        lines += ["", *table_of((_RACK, *_FIGURES), change.racks).splitlines()]
    if change.sizes_unknown:
        unknown = sizes_phrase(change.sizes_unknown)
        lines.append(f"{unknown} not known: each counts as {as_bytes(UNKNOWN_BYTES)}")
    return lines


def left_lines(left: Iterable[Left], amount: Callable[[int], str]) -> list[str]:
    """Return what stays undone, one line for each reason."""
    by_why: dict[str, list[str]] = {}
    for each in left:
        by_why.setdefault(reason_of(each, _WHY), []).append(_left_in_words(each, amount))
    return [f"not done: {join_some(named)}: {why}" for why, named in by_why.items()]


def _left_in_words(left: Left, amount: Callable[[int], str]) -> str:
    of_broker = left.tp is None and left.amount
    return left_name(left) + (f" (off by {amount(left.amount)})" if of_broker else "")
