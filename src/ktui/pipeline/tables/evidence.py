"""What insights need of recordings, computed once for each listing and each minute.

So insights read a few rows of each move, and no samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import log

import msgspec
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.cluster.settings import FETCH_BYTES
from ktui.pipeline.lake.records import Interval, Sample
from ktui.pipeline.lake.schema import fit_to_table, require_columns
from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE, INTAKES, SAMPLES
from ktui.pipeline.tables.windows import LISTING, PARTITION, as_timestamp
from ktui.progress.memory import STALLED_AFTER_S
from ktui.progress.timeline import Cause

STALLED, IN_SYNC = "stalled", "in sync"
HELD_AFTER_MS = int(STALLED_AFTER_S * 1000)
"""A move is expected to end within this time once all replicas that it adds are in sync."""
LOOKED_AT_MS = 60_000
"""The cause of a stall is sought in the samples from its first so many milliseconds."""

MOST_TELLING = (
    Cause.TARGET_DOWN,
    Cause.LOG_DIR_OFFLINE,
    Cause.KEPT_OUT_OF_SYNC,
    Cause.NO_LEADER,
    Cause.THROTTLED,
    Cause.NOT_FETCHING,
    Cause.UNKNOWN,
)
"""All causes, the most telling one first."""


def stalls(intervals: Iterable[Interval]) -> Iterator[Interval]:
    """Yield the spans in which moves stood still.

    These are each `stalled` interval, and each `in sync` interval of more than 30 seconds: there
    all added replicas are in sync, and yet the move has not ended. Both begin where progress ended.
    """
    for one in intervals:
        is_held = one.state == IN_SYNC and one.ended - one.began > HELD_AFTER_MS
        if one.state == STALLED or is_held:
            yield one


def cause_window(stall: Interval) -> tuple[int, int]:
    """Return the span whose samples show the cause: ms since 1970, the end exclusive."""
    return stall.began, max(min(stall.ended, stall.began + LOOKED_AT_MS), stall.began + 1)


def cause_of(samples: Iterable[Sample]) -> tuple[Cause, str]:
    """Return the most telling cause in samples of a stall's `cause_window`, and its words."""
    return min(map(cause_in, samples), key=_priority, default=(Cause.UNKNOWN, ""))


def cause_in(sample: Sample) -> tuple[Cause, str]:
    """Return the cause that one sample of a stalled partition shows, and that cause in words.

    A sample does not show whether its topic's throttled replica list lets a throttle bind. So a
    copy counts as not fetched only where no rate is set that could bind it. Under a rate that lets
    the copy go on, the cause is unknown.
    """
    down = [broker for broker in sample.missing if broker in sample.down]
    if down:
        return Cause.TARGET_DOWN, f"broker {down[0]} was down"
    offline = [broker for broker in sample.missing if broker in sample.offline]
    if offline:
        return Cause.LOG_DIR_OFFLINE, f"a log dir of broker {offline[0]} was offline"
    if not sample.described:
        return Cause.UNKNOWN, ""
    if not sample.missing:
        return _cause_of_held(sample)
    if sample.leader is None:
        return Cause.NO_LEADER, "there was no leader to copy from"
    return _cause_of_copies(sample, sample.leader)


def _priority(judged: tuple[Cause, str]) -> tuple[int, bool]:
    cause, words = judged
    return MOST_TELLING.index(cause), not words


def _cause_of_held(sample: Sample) -> tuple[Cause, str]:
    """Find the cause for a move that has not ended though all added replicas are in sync."""
    if not sample.out_of_sync:
        return Cause.UNKNOWN, "all in sync, yet not completed"
    broker = sample.out_of_sync[0]
    down = " and down" if broker in sample.down else ""
    return Cause.KEPT_OUT_OF_SYNC, f"broker {broker} was out of the ISR{down}"


def _cause_of_copies(sample: Sample, leader: int) -> tuple[Cause, str]:
    ends = {reading.broker: reading.end for reading in sample.ends}
    known = [broker for broker in sample.missing if broker in ends and leader in ends]
    behind = [broker for broker in known if ends[broker] < ends[leader]]
    if known == list(sample.missing) and not behind:
        return Cause.KEPT_OUT_OF_SYNC, f"broker {known[0]} had all, and was not in the ISR"
    rates = _rates(sample, leader)
    for broker, rate in rates:
        # one fetch at this rate takes longer than the time after which a copy counts as stalled
        if rate * STALLED_AFTER_S < FETCH_BYTES:
            return Cause.THROTTLED, f"the throttle of broker {broker} was {rate:,} B/s"
    if behind and not rates:
        return Cause.NOT_FETCHING, f"broker {behind[0]} did not fetch from {leader}"
    return Cause.UNKNOWN, ""


def _rates(sample: Sample, leader: int) -> list[tuple[int, int]]:
    """Return the throttle rates that may bind the copies, each with its broker."""
    found = [(r.broker, r.follower) for r in sample.rates if r.broker in sample.missing]
    found += [(r.broker, r.leader) for r in sample.rates if r.broker == leader]
    return [(broker, rate) for broker, rate in found if rate is not None]


_MINUTE_MS = 60_000
_KEY = ("cluster_id", "broker", "minute_t")
_COPIED = ("bytes_in", "bytes_out", "messages_in", "messages_out")


def brokers(samples: DataFrame, listed: DataFrame, pairs: DataFrame) -> DataFrame:
    """Sum up copying and throttles by broker and minute; shadowed samples do not count."""
    rows = _copied(pairs)
    for others in (_throttled(samples), _adding(listed)):
        rows = rows.unionByName(others, allowMissingColumns=True)
    sums = [F.sum(name).alias(name) for name in _COPIED]
    throttle = F.max("follower_throttle").alias("follower_throttle")
    adding = F.coalesce(F.max("adding"), F.lit(0)).alias("adding")
    summed = rows.groupBy(*_KEY).agg(*sums, throttle, adding)
    return fit_to_table(summed.withColumn("minute", as_timestamp("minute_t")), BROKERS_BY_MINUTE)


def _copied(pairs: DataFrame) -> DataFrame:
    """Count each pair's copy twice: at the receiving broker and at the sending one.

    Bytes are rounded to integers before they are summed, so the order of the sum cannot matter.
    """
    copied = F.floor(F.col("messages") * F.col("message_bytes") + 0.5)
    received = _at("broker", bytes_in=copied, messages_in=F.col("messages"))
    sent = _at("leader", bytes_out=copied, messages_out=F.col("messages"))
    both = pairs.select("cluster_id", _minute("read_t"), F.inline(F.array(received, sent)))
    return both.where("broker IS NOT NULL")


def _at(broker: str, **copied: Column) -> Column:
    nothing = F.lit(None).cast("bigint")
    figures = [copied.get(name, nothing).alias(name) for name in _COPIED]
    return F.struct(F.col(broker).alias("broker"), *figures)


def _throttled(samples: DataFrame) -> DataFrame:
    visible = require_columns(samples, SAMPLES, ("cluster_id", "t", "rates", "shadowed"))
    return (
        visible.where(~F.col("shadowed"))
        .select("cluster_id", _minute("t"), F.inline("rates"))
        .where("follower IS NOT NULL")
        .select(*_KEY, F.col("follower").alias("follower_throttle"))
    )


def _adding(listed: DataFrame) -> DataFrame:
    poll = ("cluster_id", "session", "seq", "t")
    return (
        listed.select(*poll, F.explode("adding").alias("broker"))
        .groupBy(*poll, "broker")
        .agg(F.count("*").alias("adding"))
        .select("cluster_id", "broker", _minute("t"), "adding")
    )


def _minute(t: str) -> Column:
    return begin_of_minute(F.col(t)).alias("minute_t")


def begin_of_minute(t: Column) -> Column:
    """Return the start of the minute of a time; both in ms since 1970."""
    return t - F.pmod(t, F.lit(_MINUTE_MS))


CLASS_WIDTH = 1.02
"""Rates within 1% of each other are one class: a listing has few of them, however long it is."""

_JUDGED = (
    "topic", "partition", "t", "leader", "replicas", "isr", "adding", "removing", "offline", "down",
    "described", "ends", "rates",
)  # fmt: skip
"""The columns of a sample that show the cause of a stall."""


def copies_by_rate(pairs: DataFrame) -> DataFrame:
    """Count each listing's measured rates between two brokers, by class.

    Returns:
        A listing's key, `listing_t`, and `copies`, as in SPANS.
    """
    bytes_s = F.col("messages") * F.col("message_bytes") * 1000 / F.col("ms")
    rate_class = F.round(F.log(F.greatest(bytes_s, F.lit(1.0))) / log(CLASS_WIDTH)).cast("int")
    return (
        pairs.where("messages > 0 AND message_bytes IS NOT NULL AND leader IS NOT NULL")
        .groupBy(*LISTING, "listing_t", "leader", "broker", rate_class.alias("rate_class"))
        .agg(F.count("*").alias("count"))
        .groupBy(*LISTING, "listing_t")
        .agg(
            F.sort_array(F.collect_list(F.struct("leader", "broker", "rate_class", "count"))).alias(
                "copies"
            )
        )
    )


def rate_of_class(rate_class: str) -> Column:
    """Return the rate in the middle of a class, in B/s."""
    return F.exp(F.col(rate_class) * log(CLASS_WIDTH))


def stalls_with_cause(intervals: DataFrame, samples: DataFrame) -> DataFrame:
    """Find each listing's stalls, and the most telling cause that their first minute shows.

    Stalls, their samples and the cause are those of `stalls`, `cause_window` and `cause_in`.

    Returns:
        A listing's key, `listing_t`, and `stalls`, as in SPANS.
    """
    held = (F.col("state") == IN_SYNC) & (F.col("ended_t") - F.col("began_t") > HELD_AFTER_MS)
    stalled = intervals.where((F.col("state") == STALLED) | held).select(
        *LISTING, "listing_t", "began_t", "ended_t"
    )
    visible = require_columns(samples, SAMPLES, (*_JUDGED, "shadowed")).where(~F.col("shadowed"))
    seen = visible.select(*PARTITION, "t", F.struct(*_JUDGED).alias("it"))
    same = [F.col(f"one.{name}").eqNullSafe(F.col(f"other.{name}")) for name in PARTITION]
    until_t = F.greatest(F.least("ended_t", F.col("began_t") + LOOKED_AT_MS), F.col("began_t") + 1)
    both = stalled.alias("one").join(
        seen.alias("other"), [*same, F.col("t") >= F.col("began_t"), F.col("t") < until_t], "left"
    )
    # Spark warns about annotations that it cannot evaluate: a lambda has none
    place = F.udf(lambda sample: _place(sample), "int", useArrow=False)  # noqa: PLW0108
    listing = [F.col(f"one.{name}").alias(name) for name in (*LISTING, "listing_t")]
    judged = both.groupBy(*listing, "began_t", "ended_t").agg(F.min(place("it")).alias("place"))
    causes = F.array(*(F.lit(cause.value) for cause in MOST_TELLING))
    stall = F.struct(
        "began_t",
        "ended_t",
        F.element_at(causes, F.col("place") + 1).alias("cause"),
    )
    return judged.groupBy(*LISTING, "listing_t").agg(
        F.sort_array(F.collect_list(stall)).alias("stalls")
    )


def _place(sample: Row | None) -> int:
    """Return the place of a sample's cause in `MOST_TELLING`."""
    if sample is None:
        return len(MOST_TELLING) - 1
    cause, _ = cause_in(msgspec.convert(sample.asDict(recursive=True), Sample))
    return MOST_TELLING.index(cause)


def intakes(pairs: DataFrame) -> DataFrame:
    """Sum up the bytes into each broker and minute, by the number of replicas added at once.

    A broker reports all its replicas in one response, so readings of the same time belong together.
    Times at which the message size of some replica is not known are left out, and so are those in
    which nothing was copied, unless a throttle may have been the reason: bytes come through it in
    gulps. Until a replica has its first bytes, it waits for them, whatever the throttle.
    """
    grew, size = F.col("messages") > 0, F.col("message_bytes")
    held_up = F.col("begun") & F.col("throttle").isNotNull() & F.col("leader").isNotNull()
    readings = (
        pairs.where(grew | held_up)
        .groupBy("cluster_id", "broker", "read_t")
        .agg(
            F.count_if(grew).alias("at_once"),
            F.avg("ms").alias("ms"),
            F.sum(F.when(grew, F.col("messages") * size).otherwise(0)).alias("bytes"),
            F.max("throttle").alias("throttle"),
            F.count_if(grew & size.isNull()).alias("unknown"),
        )
        .where("unknown = 0")
    )
    minute_t = begin_of_minute(F.col("read_t")).alias("minute_t")
    # rounded before they are summed, so the order of the sum cannot matter
    summed = readings.groupBy("cluster_id", "broker", minute_t, "at_once", "throttle").agg(
        F.min("read_t").alias("t"),
        F.sum(F.floor(F.col("ms") + 0.5)).alias("ms"),
        F.sum(F.floor(F.col("bytes") + 0.5)).alias("bytes"),
    )
    return fit_to_table(summed.withColumn("minute", as_timestamp("minute_t")), INTAKES)
