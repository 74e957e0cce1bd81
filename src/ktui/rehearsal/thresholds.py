"""Thresholds of a rehearsal: what a plan must not exceed on any of its twins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from ktui.quantities import as_bytes, as_duration, as_rate
from ktui.rehearsal.summary import BrokerUse
from ktui.rehearsal.twin import Pace
from ktui.rehearsal.twins import RehearsedTwin

MAX_TIME, MAX_INFLOW, MIN_ROOM = "--max-time", "--max-inflow", "--min-room"
TO_THE_END = "to the end"
"""The name of the threshold that always holds: every partition comes to its target."""


class Thresholds(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds that were named; None for those that were not."""

    max_time_s: float | None = None
    max_inflow: float | None = None
    """Bytes a second copied into any broker."""
    min_room: int | None = None
    """Free bytes on the disk of each broker of the plan, or that something is copied into."""
    min_room_share: float | None = None
    """The same as a share of the disk."""


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """One threshold, with the twin that comes closest to it."""

    threshold: str
    """The option, or `to the end`."""
    holds: bool
    pace: Pace
    found: str
    """What the twin showed, for people."""


def check(twins: Sequence[RehearsedTwin], thresholds: Thresholds) -> tuple[Checked, ...]:
    """Hold a rehearsal against thresholds. A threshold holds if it does on each twin."""
    return tuple(_checks(twins, thresholds))


def _checks(twins: Sequence[RehearsedTwin], wanted: Thresholds) -> Iterator[Checked]:
    yield _to_the_end(twins)
    if (longest := wanted.max_time_s) is not None:
        slowest = max(twins, key=lambda twin: twin.summary.time_s)
        time_s = slowest.summary.time_s
        found = f"{as_duration(time_s)}, at most {as_duration(longest)}"
        yield Checked(
            threshold=MAX_TIME,
            holds=slowest.summary.complete and time_s <= longest,
            pace=slowest.pace,
            found=found if slowest.summary.complete else f"not done after {as_duration(time_s)}",
        )
    if (most := wanted.max_inflow) is not None:
        twin, broker = _worst(twins, lambda use: -use.inflow)
        found = f"{as_rate(broker.inflow)} into broker {broker.broker}, at most {as_rate(most)}"
        holds = broker.inflow <= most * _ROUNDING
        yield Checked(threshold=MAX_INFLOW, holds=holds, pace=twin.pace, found=found)
    if (least := wanted.min_room) is not None:
        twin, broker = _worst(twins, lambda use: float(use.room))
        found = f"{as_bytes(broker.room)} on broker {broker.broker}, at least {as_bytes(least)}"
        yield Checked(threshold=MIN_ROOM, holds=broker.room >= least, pace=twin.pace, found=found)
    if (share := wanted.min_room_share) is not None:
        twin, broker = _worst(twins, _room_share)
        has = _room_share(broker)
        found = f"{has:.1%} of broker {broker.broker}'s disk, at least {share:.1%}"
        yield Checked(threshold=MIN_ROOM, holds=has >= share, pace=twin.pace, found=found)


_ROUNDING = 1 + 1e-9


def _to_the_end(twins: Sequence[RehearsedTwin]) -> Checked:
    worst = min(twins, key=lambda twin: twin.summary.done)
    summary = worst.summary
    found = f"{summary.done:,} of {summary.partitions:,} partitions at their target"
    why = f": {'; '.join(summary.why)}" if summary.why else ""
    return Checked(
        threshold=TO_THE_END, holds=summary.complete, pace=worst.pace, found=f"{found}{why}"
    )


def _room_share(use: BrokerUse) -> float:
    return use.room / use.disk if use.disk else 0.0


def _worst(
    twins: Sequence[RehearsedTwin], rank: Callable[[BrokerUse], float]
) -> tuple[RehearsedTwin, BrokerUse]:
    return min(
        ((twin, use) for twin in twins for use in twin.summary.brokers),
        key=lambda pair: rank(pair[1]),
    )
