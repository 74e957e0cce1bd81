"""What earlier runs and recordings show of clusters: rates, and the small file of insights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from ktui.durable import make_folder, write_whole
from ktui.inputfile import FileProblem, Unreadable, read_input
from ktui.json_text import Dated
from ktui.pacing.limits import Limits, LimitsProblem, default_limits, limit_text, parse_limits
from ktui.quantities import UNKNOWN, as_bytes, as_count, as_duration, as_rate

NonNegativeInt = Annotated[int, msgspec.Meta(ge=0, lt=2**63 - 1)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
"""A rate, size or time. Values from a file must not lead a run's forecast astray."""


class Spread(msgspec.Struct, frozen=True):
    """The percentiles of a figure over many measurements."""

    p10: NonNegative
    p50: NonNegative
    p90: NonNegative
    count: NonNegativeInt


_EXTRAPOLATION = 2
"""The curve holds up to this multiple of the most replicas seen at once; more of them are taken to
bring no more."""


class RateCurve(msgspec.Struct, frozen=True, kw_only=True):
    """A broker that adds n replicas at once takes in R n / (n + h) bytes a second.

    The rate is R for many replicas, and R / (1 + h) for one. Under a throttle T, it is at most e T.
    """

    most_bytes_s: Annotated[float, msgspec.Meta(gt=0)]
    """R."""
    half_at: NonNegative
    """h: the number of replicas at once that takes in half of R."""
    most_at_once: Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
    throttled: NonNegative = 1.0
    """e: the share of a throttle that its broker takes in."""
    low: NonNegative = 1.0
    """The rate of the slowest brokers as a share of the curve's: p10."""
    high: NonNegative = 1.0
    """The rate of the fastest brokers as a share of the curve's: p90."""

    unthrottled_runs: Annotated[int, msgspec.Meta(ge=0)] = 0
    """How many runs showed R: each for ten seconds of copies that no throttle held up."""

    known_to: NonNegative | None = None
    """The highest throttle (bytes a second) where one held up every copy, and R is assumed; else
    None.
    """

    def carries(self, throttle: int | None) -> bool:
        return self.known_to is None or (throttle is not None and throttle <= self.known_to)

    def bytes_s(self, at_once: float, throttle: int | None) -> float:
        count = min(at_once, _EXTRAPOLATION * self.most_at_once)
        rate = self.most_bytes_s * count / (count + self.half_at)
        return max(1.0, rate if throttle is None else min(rate, self.throttled * throttle))


class Prior(Dated, frozen=True, omit_defaults=True):
    """The speed of earlier runs on the same cluster, and what they were like, where known."""

    replica_bytes_s: Spread
    """Bytes a second into one replica that is being added, over whole moves."""
    step_s: NonNegative
    """Seconds of a step beside copying: polls, joining the ISR, elections."""
    curve: RateCurve
    """Bytes a second into a broker, over all the replicas that it is adding."""
    runs: NonNegativeInt
    """The number of runs behind these figures; 0 if they come from other people's moves."""
    alone: dict[int, NonNegative] = msgspec.field(default_factory=dict)
    """Bytes a second into a single replica without a throttle, by receiver, where it is not usual.
    """
    onto: tuple[int, ...] = ()
    """The brokers that received copies; empty where that is not known."""
    throttle: NonNegativeInt | None = None
    """The highest throttle of copies, in bytes a second; None where none had one, or is known."""
    largest: NonNegativeInt | None = None
    """The bytes of the largest partition; None where that is not known."""
    brokers: NonNegativeInt | None = None
    """The number of brokers of the cluster; None where that is not known."""
    at: datetime | None = None
    """When the last of these copies were seen; None where that is not known."""


SCHEMA_VERSION = 1


class PairRate(msgspec.Struct, frozen=True):
    """The rate at which one replica was copied from one broker to another."""

    leader: int
    adding: int
    bytes_s: Spread


class SizeRate(msgspec.Struct, frozen=True):
    """The rate at which one replica was copied, for partitions of some size."""

    from_bytes: NonNegativeInt
    below_bytes: NonNegativeInt | None  # None for the largest sizes
    bytes_s: Spread


class StallCause(msgspec.Struct, frozen=True):
    """A cause of stalled replicas, with counts."""

    cause: str
    count: NonNegativeInt
    seconds: float


class EtaError(msgspec.Struct, frozen=True):
    """The error of forecasts: the median of |forecast - truth| / truth."""

    scope: str  # `run` or `partition`
    decile: NonNegativeInt  # progress: 0 is less than a tenth, 5 is five to six tenths
    moments: NonNegativeInt
    ktui: float | None  # error of the time left that the live view shows
    linear: float | None  # error of the time passed, times the bytes left by the bytes done
    recent: float | None  # error of the bytes left by the rate of the last ten seconds
    told: float  # the share of moments in which the live view showed a time at all


class RunAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Recommended limits for a run of this size, from a simulation of a recorded run."""

    run: str
    run_id: str
    partitions: NonNegativeInt
    bytes: NonNegativeInt
    limits: dict[str, str | NonNegativeInt | None]  # by option of `ktui start`; null lifts it
    throttle: str
    predicted_s: float
    low_s: float
    high_s: float
    as_started_s: float | None = None  # predicted, as this is, for the recorded run as it began
    actual_s: float | None  # duration of the recorded run, with all that happened to it
    driven_by: str | None = None  # the promises that chose its rates, such as `by`
    held_out_error: float | None  # (predicted - actual) / actual, by other runs; or None
    assumed: tuple[str, ...] = ()
    reason: str
    record: str | None = None  # options of `ktui start` to record a run that may show more


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run for which no other limits are recommended."""

    run: str
    run_id: str
    reason: str  # what to record first, or that nothing fits or would be better
    record: str | None = None  # options of `ktui start` to record a run that may show more


class ClusterInsights(Dated, frozen=True, kw_only=True):
    """The insights into one cluster."""

    cluster_id: str
    runs: NonNegativeInt
    moves: NonNegativeInt
    began: datetime | None = None
    ended: datetime | None = None
    prior: Prior | None = None  # None while too little was copied for an estimate
    pairs: tuple[PairRate, ...] = ()
    sizes: tuple[SizeRate, ...] = ()
    stalls: tuple[StallCause, ...] = ()
    eta: tuple[EtaError, ...] = ()
    advice: tuple[RunAdvice, ...] = ()
    withheld: tuple[Withheld, ...] = ()


class Insights(Dated, frozen=True, kw_only=True):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    made_at: datetime | None = None  # None if no insights have been made yet
    version: str = ""  # the version of ktui that made the insights
    clusters: tuple[ClusterInsights, ...] = ()

    def of(self, cluster_id: str) -> ClusterInsights | None:
        return next((each for each in self.clusters if each.cluster_id == cluster_id), None)


NAME = "insights.json"
"""The file's name in a lake, and in a state directory, where the live view finds it."""
_MOST_BYTES = 256 * 1024**2
_FIX = "make a new one: ktui pipeline run"
SIMULATE = "ktui pipeline run --what-if"


class _Versioned(msgspec.Struct):
    schema_version: int


def insights_in(folder: Path) -> Insights:
    """Return the insights of a folder, empty without a file; FileProblem has the fix."""
    path = folder / NAME
    return read_insights(path) if path.exists() else Insights()


def read_insights(path: Path) -> Insights:
    """Read insights from a file; FileProblem has the fix."""
    try:
        text = read_input(path, _MOST_BYTES)
    except Unreadable as why:
        if not path.exists():
            raise FileProblem(path, None, f"there is no such file; {_FIX}") from None
        raise FileProblem(path, None, f"cannot be read: {why}") from None
    return _decoded(text, path)


def insights_of(folder: Path, cluster_id: str) -> ClusterInsights | None:
    """Return a state directory's insights into a cluster; None without a readable file of it."""
    try:
        return insights_in(folder).of(cluster_id)
    except FileProblem:
        return None


def encode(insights: Insights) -> bytes:
    """Encode insights as the bytes of the file."""
    return msgspec.json.format(msgspec.json.encode(insights), indent=1) + b"\n"


def publish_insights(insights: Insights, folder: Path) -> None:
    """Write insights where a live view finds them, and keep those of other clusters."""
    make_folder(folder)
    try:
        before = insights_in(folder).clusters
    except FileProblem:
        before = ()  # an unreadable file is replaced
    new = {each.cluster_id for each in insights.clusters}
    kept = tuple(each for each in before if each.cluster_id not in new)
    whole = msgspec.structs.replace(insights, clusters=(*kept, *insights.clusters))
    write_whole(folder / NAME, encode(whole))


def _decoded(text: bytes, path: Path) -> Insights:
    try:
        version = msgspec.json.decode(text, type=_Versioned).schema_version
        if version > SCHEMA_VERSION:
            problem = f"written by a newer ktui (schema_version {version}); {_FIX}"
            raise FileProblem(path, None, problem)
        return msgspec.json.decode(text, type=Insights)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise FileProblem(path, None, f"this is not an insights file: {error}; {_FIX}") from None


Options = dict[str, str | int | None]  # values by option, without dashes; None lifts a limit
_OF_BROKERS = "brokers"  # the limits of single brokers are no options of a new run


def limit_options(limits: Limits) -> Options:
    """Return the fewest options, but of brokers, by which `ktui start` comes to these limits."""
    options = chosen = _by_option(limits)
    for name in chosen:
        fewer = {other: value for other, value in options.items() if other != name}
        # the default of an option depends on the others, and not every shape takes each of them
        with suppress(LimitsProblem):
            if _by_option(parse_limits(fewer, default_limits(fewer))) == chosen:
                options = fewer
    return options


def options_text(limits: Mapping[str, str | int | None], throttle: str) -> str:
    """Format limits by option, and a throttle as `--throttle` takes it, for a command line."""
    named = {name: limit_text(name, value) for name, value in limits.items()}
    if throttle != "none":
        named["throttle"] = throttle
    return " ".join(f"--{name} {value}" for name, value in named.items())


def _by_option(limits: Limits) -> Options:
    fields = msgspec.to_builtins(limits)
    return {name.replace("_", "-"): fields[name] for name in fields if name != _OF_BROKERS}


NOTHING = (
    "No insights yet. Every run is recorded, and `ktui record` records other people's moves.\n"
    "Derive insights from the recordings: ktui pipeline run"
)
MOST_PAIRS = 20  # the most pairs of brokers shown; pairs with the most copies win
_RATES = ("P10", "P50", "P90", "COUNT")


class InsightsSection(msgspec.Struct, frozen=True):
    """A table; without a header, the title alone as a sentence."""

    title: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    left: tuple[int, ...] = (0,)  # indexes of left-aligned columns, which hold words
    more: str = ""

    def lines(self) -> list[str]:
        table = [self.header, *self.rows] if self.header else []
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        return [
            "  ".join(
                cell.ljust(width) if place in self.left else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in table
        ]


def sections(of: ClusterInsights) -> Iterator[InsightsSection]:
    """Yield the insights into a cluster as sections; unknown values are left out."""
    yield InsightsSection(_prior(of.prior))
    if of.pairs:
        yield _pairs(of)
    if of.sizes:
        rows = tuple((_size(each), *_rates(each.bytes_s)) for each in of.sizes)
        yield InsightsSection("one replica, by the partition's size", ("SIZE", *_RATES), rows)
    if of.stalls:
        stalls = tuple((s.cause, f"{s.count:,}", as_duration(s.seconds)) for s in of.stalls)
        yield InsightsSection("stalls", ("CAUSE", "COUNT", "TIME"), stalls)
    elif of.moves:
        yield InsightsSection("no replica stalled")
    yield from _eta(of.eta)
    if of.advice:
        yield _advice(of.advice)
        rows = tuple((each.run, each.reason) for each in of.advice)
        yield InsightsSection("why they are recommended", ("RUN", "WHY"), rows, left=(0, 1))
    if of.withheld:
        rows = tuple((each.run, each.reason) for each in of.withheld)
        yield InsightsSection("no limits are recommended", ("RUN", "WHY"), rows, left=(0, 1))
    elif of.runs and not of.advice:
        yield InsightsSection(f"no run was simulated under other limits: {SIMULATE}")


def _pairs(of: ClusterInsights) -> InsightsSection:
    shown = sorted(of.pairs, key=lambda pair: -pair.bytes_s.count)[:MOST_PAIRS]
    shown.sort(key=lambda pair: (pair.adding, pair.leader))
    rows = tuple((str(p.leader), str(p.adding), *_rates(p.bytes_s)) for p in shown)
    left = len(of.pairs) - len(shown)
    more = f"and {as_count(left, 'pair')} more: ktui insights --json has them all" if left else ""
    header = ("FROM", "TO", *_RATES)
    return InsightsSection("one replica, by brokers", header, rows, left=(), more=more)


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


def _eta(errors: Sequence[EtaError]) -> Iterator[InsightsSection]:
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
            yield InsightsSection(title, header, rows, left=())


def _advice(advised: Sequence[RunAdvice]) -> InsightsSection:
    rows = tuple(
        (
            each.run,
            f"{each.partitions:,}",
            as_bytes(each.bytes),
            as_duration(each.actual_s),
            _as_started(each),
            as_duration(each.predicted_s),
            f"{as_duration(each.low_s)}-{as_duration(each.high_s)}",
            (UNKNOWN if each.held_out_error is None else f"{each.held_out_error:+.0%}"),
            advice_options(each) or "the defaults",
        )
        for each in advised
    )
    header = (
        "RUN", "PARTITIONS", "TO COPY", "TOOK", "AS STARTED", "WOULD", "RANGE", "MODEL OFF", "WITH",
    )  # fmt: skip
    assumed = "; ".join(dict.fromkeys(what for each in advised for what in each.assumed))
    more = f"assumed, for no recording shows it: {assumed}" if assumed else ""
    return InsightsSection("recommended limits", header, rows, left=(0, len(header) - 1), more=more)


def _as_started(advice: RunAdvice) -> str:
    predicted = as_duration(advice.as_started_s)
    return predicted if advice.driven_by is None else f"{predicted}, as --{advice.driven_by} chose"


def advice_options(advice: RunAdvice) -> str:
    """Format recommended limits as options of `ktui start`."""
    return options_text(advice.limits, advice.throttle)


def _percent(share: float | None) -> str:
    return UNKNOWN if share is None else f"{share:.0%}"
