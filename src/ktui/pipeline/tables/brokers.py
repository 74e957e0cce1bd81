"""The table `brokers`: what was copied to and from each broker in each minute."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as Spark's own documents name it

from ktui.pipeline.lake.enforce_schema import fit_to_table
from ktui.pipeline.lake.schema import require_columns
from ktui.pipeline.lake.tables import BROKERS_BY_MINUTE, SAMPLES
from ktui.pipeline.tables.windows import as_timestamp

_MINUTE_MS = 60_000
_KEY = ("cluster_id", "broker", "minute_t")
_COPIED = ("bytes_in", "bytes_out", "messages_in", "messages_out")


def brokers(samples: DataFrame, listed: DataFrame, pairs: DataFrame) -> DataFrame:
    """Sum up copying and throttles by broker and minute.

    Args:
        samples: the table SAMPLES; shadowed samples do not count.
        listed: as returned by `listings.listed_samples`.
        pairs: as returned by `measures.rate_pairs`.
    """
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
