"""What the pipeline has learnt of clusters, as its file has it. docs/insights.md is its reference.

Rates are bytes a second, sizes bytes, times seconds. What is not known is null.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from ktui.insights.prior import Prior
from ktui.insights.spread import NonNegativeInt, Spread
from ktui.json_input import checked_moment

SCHEMA_VERSION = 1


class PairRate(msgspec.Struct, frozen=True):
    """How fast one replica was copied from one broker to another."""

    leader: int
    """The broker that led while it was copied."""
    adding: int
    bytes_s: Spread


class SizeRate(msgspec.Struct, frozen=True):
    """How fast one replica was copied of partitions of some size."""

    from_bytes: NonNegativeInt
    below_bytes: NonNegativeInt | None
    """None of the largest."""
    bytes_s: Spread


class StallCause(msgspec.Struct, frozen=True):
    """What kept replicas from making headway."""

    cause: str
    """In the words of the live view."""
    count: NonNegativeInt
    seconds: float


class EtaError(msgspec.Struct, frozen=True):
    """How far off forecasts were: the median of |forecast - truth| / truth."""

    scope: str
    """`run` or `partition`."""
    decile: NonNegativeInt
    """Of what was copied: 0 is less than a tenth, 5 is half way to six tenths."""
    moments: NonNegativeInt
    ktui: float | None
    """Of the time left that the live view shows."""
    linear: float | None
    """Of time passed, times what is left by what is done."""
    recent: float | None
    """Of what is left by the rate of the last ten seconds."""
    told: float
    """The share of moments in which the live view told a time at all."""


class RunAdvice(msgspec.Struct, frozen=True, kw_only=True):
    """Under which limits a run of this size is advised, played on a recorded one."""

    run: str
    run_id: str
    partitions: NonNegativeInt
    bytes: NonNegativeInt
    limits: dict[str, str | NonNegativeInt | None]
    """By option, as `ktui start` takes them, without dashes."""
    throttle: str
    """As `--throttle` takes it; `none` for none."""
    predicted_s: float
    low_s: float
    high_s: float
    actual_s: float | None
    """How long the recorded run took, under its own limits."""
    held_out_error: float | None
    """(predicted - actual) / actual of that run by what other runs tell; None where none does."""
    reason: str


class Withheld(msgspec.Struct, frozen=True, kw_only=True):
    """A recorded run of which no other limits are advised."""

    run: str
    run_id: str
    reason: str
    """What would have to be recorded, or that nothing fits."""


class ClusterInsights(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one cluster."""

    cluster_id: str
    runs: NonNegativeInt
    moves: NonNegativeInt
    began: datetime | None = None
    """When the first recorded move began."""
    ended: datetime | None = None
    prior: Prior | None = None
    """None while too little was copied to tell."""
    pairs: tuple[PairRate, ...] = ()
    sizes: tuple[SizeRate, ...] = ()
    stalls: tuple[StallCause, ...] = ()
    eta: tuple[EtaError, ...] = ()
    advice: tuple[RunAdvice, ...] = ()
    withheld: tuple[Withheld, ...] = ()

    def __post_init__(self) -> None:
        """Refuse times that cannot be shown."""
        for moment in (self.began, self.ended):
            if moment is not None:
                checked_moment(moment)


class Insights(msgspec.Struct, frozen=True, kw_only=True):
    """The whole file."""

    schema_version: int = SCHEMA_VERSION
    made_at: datetime | None = None
    """None where nobody has made any yet."""
    version: str = ""
    """Of the ktui that made it."""
    clusters: tuple[ClusterInsights, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a time that cannot be shown."""
        if self.made_at is not None:
            checked_moment(self.made_at)

    def of(self, cluster_id: str) -> ClusterInsights | None:
        """Give what is known of a cluster; None where nothing is."""
        return next((each for each in self.clusters if each.cluster_id == cluster_id), None)
