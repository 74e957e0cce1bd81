"""Insights as text tables, the same on the command line and in the live view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ktui.insights.insights import ClusterInsights, EtaError, RunAdvice, SizeRate
from ktui.insights.prior import Prior, Spread
from ktui.pacing.limits import Limits, default_limits, limit_text
from ktui.quantities import UNKNOWN, as_bytes, as_count, as_duration, as_rate

Options = dict[str, str | int | None]
"""Values by option, without dashes; None lifts a limit."""
_OF_BROKERS = "brokers"
"""The limits of single brokers are no options of a new run."""


def limit_options(limits: Limits) -> Options:
    """Return the options that a new run needs for these limits, beside those of single brokers.

    Named are all that differ from what Kafka's own tool does, and from the defaults of `ktui start`
    with these named.
    """
    chosen = _by_option(limits)
    named = {name: value for name, value in chosen.items() if value != _KAFKAS[name]}
    defaults = _by_option(default_limits(named))
    return {
        name: value for name, value in chosen.items() if name in named or value != defaults[name]
    }


def options_text(limits: Mapping[str, str | int | None], throttle: str) -> str:
    """Format limits by option, and a throttle as `--throttle` takes it, for a command line."""
    named = {name: limit_text(name, value) for name, value in limits.items()}
    if throttle != "none":
        named["throttle"] = throttle
    return " ".join(f"--{name} {value}" for name, value in named.items())


def _by_option(limits: Limits) -> Options:
    fields = msgspec.to_builtins(limits)
    return {name.replace("_", "-"): fields[name] for name in fields if name != _OF_BROKERS}


_KAFKAS = _by_option(Limits())


NOTHING = (
    "No insights yet. Every run is recorded, and `ktui record` records other people's moves.\n"
    "Derive insights from the recordings: ktui pipeline run"
)
MOST_PAIRS = 20
"""The most pairs of brokers shown; pairs with the most copies win."""
_RATES = ("P10", "P50", "P90", "COUNT")


class Section(msgspec.Struct, frozen=True):
    """A table; without a header, the title alone as a sentence."""

    title: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: tuple[int, ...] = (0,)
    """Indexes of left-aligned columns, which hold words; figures are right-aligned."""
    more: str = ""
    """A note on rows that are not shown."""

    def lines(self) -> list[str]:
        """Return the header and the rows, aligned with spaces."""
        table = [self.header, *self.rows] if self.header else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return [
            "  ".join(
                cell.ljust(width) if place in self.left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]


def sections(of: ClusterInsights) -> Iterator[Section]:
    """Yield the insights into a cluster as sections; unknown values are left out."""
    yield Section(_prior(of.prior))
    if of.pairs:
        yield _pairs(of)
    if of.sizes:
        rows = tuple((_size(each), *_rates(each.bytes_s)) for each in of.sizes)
        yield Section("one replica, by the partition's size", ("SIZE", *_RATES), rows)
    if of.stalls:
        stalls = tuple((s.cause, f"{s.count:,}", as_duration(s.seconds)) for s in of.stalls)
        yield Section("stalls", ("CAUSE", "COUNT", "TIME"), stalls)
    elif of.moves:
        yield Section("no replica stalled")
    yield from _eta(of.eta)
    if of.advice:
        yield _advice(of.advice)
        rows = tuple((each.run, each.reason) for each in of.advice)
        yield Section("why they are recommended", ("RUN", "WHY"), rows, left=(0, 1))
    if of.withheld:
        rows = tuple((each.run, each.reason) for each in of.withheld)
        yield Section("no limits are recommended", ("RUN", "WHY"), rows, left=(0, 1))


def _pairs(of: ClusterInsights) -> Section:
    shown = sorted(of.pairs, key=lambda pair: -pair.bytes_s.count)[:MOST_PAIRS]
    shown.sort(key=lambda pair: (pair.adding, pair.leader))
    rows = tuple((str(p.leader), str(p.adding), *_rates(p.bytes_s)) for p in shown)
    left = len(of.pairs) - len(shown)
    more = f"and {as_count(left, 'pair')} more: ktui insights --json has them all" if left else ""
    header = ("FROM", "TO", *_RATES)
    return Section("one replica, by brokers", header, rows, left=(), more=more)


def _prior(prior: Prior | None) -> str:
    if prior is None:
        return "too little was copied to estimate a rate"
    rate = prior.replica_bytes_s
    low, middle, high = map(as_rate, (rate.p10, rate.p50, rate.p90))
    step = as_duration(prior.step_s)
    summary = (
        f"a replica is copied at {middle} ({low} to {high}); a step takes {step} beside copying"
    )
    if prior.curve.known_to is None:
        return summary
    most = as_rate(prior.curve.known_to)
    return f"{summary}; a throttle of at most {most} held every copy up: higher rates are unknown"


def _rates(spread: Spread) -> tuple[str, ...]:
    return (*map(as_rate, (spread.p10, spread.p50, spread.p90)), f"{spread.count:,}")


def _size(of: SizeRate) -> str:
    if of.below_bytes is None:
        return f"from {as_bytes(of.from_bytes)}"
    below = as_bytes(of.below_bytes)
    return f"{as_bytes(of.from_bytes)} to {below}" if of.from_bytes else f"under {below}"


def _eta(errors: Sequence[EtaError]) -> Iterator[Section]:
    header = ("DONE FROM", "KTUI", "LINEAR", "LAST 10 S", "SHOWN", "MOMENTS")
    for scope in ("run", "partition"):
        rows = tuple(
            (
                f"{10 * each.decile} %",
                *map(_percent, (each.ktui, each.linear, each.recent, each.told)),
                f"{each.moments:,}",
            )
            for each in errors
            if each.scope == scope
        )
        if rows:
            title = f"median error of the time left of a {scope}"
            yield Section(title, header, rows, left=())


def _advice(advised: Sequence[RunAdvice]) -> Section:
    rows = tuple(
        (
            each.run,
            f"{each.partitions:,}",
            as_bytes(each.bytes),
            _took(each),
            as_duration(each.predicted_s),
            f"{as_duration(each.low_s)}-{as_duration(each.high_s)}",
            _signed(each.held_out_error),
            advice_options(each),
        )
        for each in advised
    )
    header = ("RUN", "PARTITIONS", "TO COPY", "TOOK", "WOULD", "RANGE", "MODEL OFF", "WITH")
    assumed = "; ".join(dict.fromkeys(what for each in advised for what in each.assumed))
    more = f"assumed, for no recording shows it: {assumed}" if assumed else ""
    return Section("recommended limits", header, rows, left=(0, len(header) - 1), more=more)


def _took(advice: RunAdvice) -> str:
    took = as_duration(advice.actual_s)
    return took if advice.driven_by is None else f"{took}, as --{advice.driven_by} chose"


def advice_options(advice: RunAdvice) -> str:
    """Format recommended limits as options of `ktui start`."""
    return options_text(advice.limits, advice.throttle)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"


def _signed(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:+.0%}"
