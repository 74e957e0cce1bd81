"""What rehearsals predicted next to what was seen, and how far off they were."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from bench.rehearsal.figures import Figures, off, same_order
from ktui.quantities import as_bytes, as_rate
from ktui.simulated.scenario.file import RatesFrom

LEAST = 12
"""So many plans have to be compared for the medians to count."""
AIM_OFF, AIM_OUTSIDE = 0.15, 0.1


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One plan: its rehearsal, and the run."""

    version: str
    name: str
    rates: str
    """Where the rehearsal's copy rates are from."""
    slow_s: float
    fast_s: float
    predicted: Figures
    """Of the usual twin."""
    seen: Figures
    idle: float
    """The share of the CPUs' time that was idle during the run."""

    @property
    def within(self) -> bool:
        """Whether the run took a time between those of the fast twin and the slow one."""
        return self.fast_s <= self.seen.seconds <= self.slow_s

    @property
    def order(self) -> float | None:
        """How alike the orders of the first steps are: see `same_order`."""
        return same_order(self.predicted, self.seen)


def print_line(of: Compared) -> None:
    """Print one plan's row of the table."""
    predicted, seen = of.predicted, of.seen
    order = "-" if of.order is None else f"{of.order:.2f}"
    outside = "" if of.within else " OUTSIDE"
    print(
        f"{of.version} {of.name:<13} {of.rates:<8} "
        f"time {predicted.seconds:5.1f} ({of.fast_s:.1f} to {of.slow_s:.1f}) "
        f"/ {seen.seconds:5.1f} s {off(predicted.seconds, seen.seconds):+.0%}{outside}  "
        f"bytes {as_bytes(predicted.copied)} / {as_bytes(seen.copied)} "
        f"{off(predicted.copied, seen.copied):+.0%}  "
        f"peak {as_rate(predicted.peak)} / {as_rate(seen.peak)} "
        f"{off(predicted.peak, seen.peak):+.0%}  "
        f"extra {predicted.extra} / {seen.extra}  steps {predicted.steps} / {seen.steps}  "
        f"order {order}  stalls {_stalls(predicted)} / {_stalls(seen)}  "
        f"idle {of.idle:.0%}",
        flush=True,
    )


def _stalls(of: Figures) -> str:
    return ", ".join(sorted(f"{cause.value} {broker}" for cause, broker in of.stalls)) or "none"


def print_summary(compared: Sequence[Compared], left_out: Sequence[str]) -> None:
    """Print the medians, and how many runs were outside the range, for each source of copy rates.

    Raises:
        SystemExit: too few plans were compared with recorded rates.
    """
    print(f"{len(compared)} plans compared, {len(left_out)} left out {'; '.join(left_out)}")
    known = [each for each in compared if each.rates == RatesFrom.RECORDED]
    for title, group in (
        (f"rates recorded (aims: time {AIM_OFF:.0%}, at most {AIM_OUTSIDE:.0%} outside)", known),
        ("rates assumed", [each for each in compared if each not in known]),
    ):
        if group:
            print(f"{title}: {len(group)} plans")
            _print_group(group)
    if len(known) < LEAST:
        raise SystemExit(f"not measured: {len(known)} plans, and {LEAST} are needed")


def _print_group(group: Sequence[Compared]) -> None:
    pairs = [(each.predicted, each.seen) for each in group]
    _print_off("time", (off(p.seconds, s.seconds) for p, s in pairs))
    _print_off("bytes", (off(p.copied, s.copied) for p, s in pairs))
    _print_off("peak inflow", (off(p.peak, s.peak) for p, s in pairs))
    _print_off(
        "peak inflow of each broker",
        (
            off(p.inflow.get(broker, 0.0), rate)
            for p, s in pairs
            for broker, rate in s.inflow.items()
        ),
    )
    _print_off("extra replicas", (off(p.extra, s.extra) for p, s in pairs))
    one_by_one = [each for each in group if not each.seen.together]
    if one_by_one:
        equal = sum(each.order == 1 for each in one_by_one)
        print(f"  order equal in {equal} of {len(one_by_one)} that went one by one")
    ranks = [each.order for each in group if each.seen.together and each.order is not None]
    if ranks:
        print(
            f"  rank correlation of the others: median {statistics.median(ranks):.2f}, "
            f"least {min(ranks):.2f} of {len(ranks)}"
        )
    stalls = sum(p.stalls == s.stalls for p, s in pairs)
    print(f"  the same stalls in {stalls} of {len(group)}")
    outside = [f"{each.version} {each.name}" for each in group if not each.within]
    print(
        f"  {len(outside)} of {len(group)} outside slow to fast: {', '.join(outside) or 'none'}",
        flush=True,
    )


def _print_off(what: str, errors: Iterable[float]) -> None:
    found = sorted(map(abs, errors))
    print(f"  {what}: median error {statistics.median(found):.0%}, largest {found[-1]:.0%}")
