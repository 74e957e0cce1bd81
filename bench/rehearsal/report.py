"""What rehearsals predicted next to what was seen, and how far off they were."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

import msgspec

from bench.rehearsal.figures import Figures, off, same_order
from ktui.quantities import as_bytes, as_rate

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
    """Print the medians, and how many runs were outside the range.

    Raises:
        SystemExit: too few plans were compared.
    """
    print(f"{len(compared)} plans compared, {len(left_out)} left out {'; '.join(left_out)}")
    _print_off("time", (off(each.predicted.seconds, each.seen.seconds) for each in compared))
    _print_off("bytes", (off(each.predicted.copied, each.seen.copied) for each in compared))
    _print_off("peak inflow", (off(each.predicted.peak, each.seen.peak) for each in compared))
    _print_off("extra replicas", (off(each.predicted.extra, each.seen.extra) for each in compared))
    one_by_one = [each for each in compared if not each.seen.together]
    equal = sum(each.order == 1 for each in one_by_one)
    ranks = [each.order for each in compared if each.seen.together and each.order is not None]
    print(f"order equal in {equal} of {len(one_by_one)} that went one by one")
    if ranks:
        print(
            f"rank correlation of the others: median {statistics.median(ranks):.2f}, "
            f"least {min(ranks):.2f} of {len(ranks)}"
        )
    stalls = sum(each.predicted.stalls == each.seen.stalls for each in compared)
    print(f"the same stalls in {stalls} of {len(compared)}")
    outside = [f"{each.version} {each.name}" for each in compared if not each.within]
    print(
        f"{len(outside)} of {len(compared)} outside slow to fast (aim at most {AIM_OUTSIDE:.0%}): "
        f"{', '.join(outside) or 'none'}"
    )
    if len(compared) < LEAST:
        raise SystemExit(f"not measured: {len(compared)} plans, and {LEAST} are needed")


def _print_off(what: str, errors: Iterable[float]) -> None:
    found = sorted(map(abs, errors))
    aim = f" (aim {AIM_OFF:.0%})" if what == "time" else ""
    if found:
        print(f"{what}: median error {statistics.median(found):.0%}{aim}, largest {found[-1]:.0%}")
