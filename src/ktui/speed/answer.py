"""The answer to "how long?": the time with its range, what it rests on, what sets the pace."""

from __future__ import annotations

import enum

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.planning.plan import join_named
from ktui.quantities import as_count, as_rate

_UNITS = ((86_400.0, "days"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_FROM_UNITS = 2.0
"""A time is given in the largest unit of which it has so many, so that two digits say enough."""
_MOST_UNITS = 200.0  # the far end of a range keeps the unit of the middle up to so many of it
_LONGEST_S = 100 * 86_400.0
_TELLING = 0.5
"""A bottleneck is named if it alone takes this part of the time: else polls set the pace."""


class Span(msgspec.Struct, frozen=True, gc=False):
    """An estimated figure with its range: p10, p50 and p90 where it was measured."""

    low: float
    middle: float
    high: float

    def times(self, factor: float) -> Span:
        return Span(self.low * factor, self.middle * factor, self.high * factor)


class Bottleneck(enum.StrEnum):
    """Why no run of a plan is faster."""

    RECEIVER = "receiver"
    SENDER = "sender"
    BROKER = "broker"  # under W, a broker sends or receives one large replica at a time
    BROKERS = "brokers"  # as that, so of an odd number of brokers one at least is idle
    PARTITION = "partition"
    PARTITIONS = "partitions"
    REPLICAS = "replicas"


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """The least time of any run under the limits, and its bottleneck."""

    time_s: Span
    bottleneck: Bottleneck
    broker: int | None = None  # the receiver or sender, or the one that is both
    brokers: tuple[int, ...] = ()  # the three or more that copy among each other
    partition: TopicPartition | None = None
    bytes: int = 0


class Source(enum.StrEnum):
    """Where the rates behind a time come from."""

    ASSUMED = "assumed"
    EARLIER_RUNS = "earlier-runs"
    THIS_RUN = "this-run"
    GIVEN = "given"


class Misfit(enum.StrEnum):
    """How earlier runs differ from the run in question; each widens the range."""

    THROTTLE = "under another throttle"
    BROKERS = "on other brokers"
    GROWN = "on fewer brokers"
    SIZES = "of smaller partitions"


class Basis(msgspec.Struct, frozen=True):
    """What a time rests on."""

    source: Source = Source.ASSUMED
    runs: int = 0  # how many earlier runs; 0 if other people's moves have shown the rates
    given_bytes_s: float | None = None  # the rate that the operator has named; None for none
    misfits: tuple[Misfit, ...] = ()  # only of earlier runs


class HowLong(msgspec.Struct, frozen=True, kw_only=True):
    """How long a run, or the rest of it, takes."""

    time_s: Span
    basis: Basis
    pacesetter: Bound | None = None  # the highest least time; None where nothing is copied
    copying_s: float = 0.0  # seconds of the middle that depend on the rate
    waiting_s: float = 0.0  # the other seconds: polls, elections and removals
    batches: int = 0  # decisions that submit moves; in wave mode, waves


def how_long_text(answer: HowLong, *, left: bool = False) -> str:
    """Return how long, on what grounds and what sets the pace; `left` of a run under way."""
    return "".join(how_long_parts(answer, left=left))


def how_long_parts(answer: HowLong, *, left: bool = False) -> tuple[str, str, str]:
    """Return the parts of that sentence, of which the last may go where a line is short of room."""
    middle, spread = _span_parts(answer.time_s)
    time = f"about {middle}{' left' if left else ''}"
    bound = answer.pacesetter
    telling = bound is not None and bound.time_s.middle >= _TELLING * answer.time_s.middle
    pace = f"; {pacesetter_text(bound)}" if bound is not None and telling else ""
    return time, f"{spread}, {basis_text(answer.basis)}", pace


def time_text(answer: HowLong, *, left: bool = False) -> str:
    """Return how long, and on what grounds: `about 41 min (35 to 52), by 3 earlier runs`."""
    return "".join(how_long_parts(answer, left=left)[:2])


def span_text(time_s: Span) -> str:
    """Format a time with its range, in one unit if two digits allow: `2.5 h (50 min to 4 h)`."""
    return "".join(_span_parts(time_s))


def _span_parts(time_s: Span) -> tuple[str, str]:
    low, middle, high = (in_units(each) for each in (time_s.low, time_s.middle, time_s.high))
    if low == middle == high:
        return middle, ""
    size, unit = _unit(time_s.middle)
    if (unit == "s" or size <= time_s.low) and time_s.high < _MOST_UNITS * size:
        low, high = _count(time_s.low, size), _count(time_s.high, size)
    return middle, f" ({low} to {high})"


def in_units(seconds: float) -> str:
    """Format a time in one unit: `50 min`, `2.5 h`."""
    if seconds >= _LONGEST_S:
        return ">99 days"
    size, unit = _unit(seconds)
    return f"{_count(seconds, size)} {unit}"


def _unit(seconds: float) -> tuple[float, str]:
    return next((each for each in _UNITS if seconds >= _FROM_UNITS * each[0]), _UNITS[-1])


def _count(seconds: float, size: float) -> str:
    tenths = f"{max(0.0, seconds) / size:.1f}"
    whole = size == 1.0 or len(tenths) > len("9.9")
    return f"{max(0.0, seconds) / size:.0f}" if whole else tenths.removesuffix(".0")


def basis_text(basis: Basis) -> str:
    """Return what a time rests on: `by 3 earlier runs, on other brokers`."""
    match basis.source:
        case Source.ASSUMED:
            return "assumed"
        case Source.THIS_RUN:
            return "as measured"
        case Source.GIVEN:
            return f"at {as_rate(basis.given_bytes_s)}, as given"
        case Source.EARLIER_RUNS:
            runs = as_count(basis.runs, "earlier run") if basis.runs else "earlier moves"
            return ", ".join([f"by {runs}", *basis.misfits])


def pacesetter_text(bound: Bound) -> str:  # noqa: PLR0911 - one for each bottleneck
    """Name what sets the pace: `broker 5 receives the most`."""
    match bound.bottleneck:
        case Bottleneck.RECEIVER:
            return f"broker {bound.broker} receives the most"
        case Bottleneck.SENDER:
            return f"broker {bound.broker} sends the most"
        case Bottleneck.BROKER:
            return f"what broker {bound.broker} may copy at once (W) sets the pace"
        case Bottleneck.BROKERS:
            return f"what {join_named('broker', bound.brokers)} may copy at once (W) sets the pace"
        case Bottleneck.PARTITION:
            return f"{bound.partition} takes the longest"
        case Bottleneck.PARTITIONS:
            return "how many partitions may be under way (P) sets the pace"
        case Bottleneck.REPLICAS:
            return "how many replicas may be added at once (M) sets the pace"
