"""The intervals of pipeline/tables/intervals.py, written with Polars."""

from __future__ import annotations

import polars as pl

from ktui.pipeline.tables.intervals import STALLED_AFTER_MS
from ktui.pipeline.tables.listings import GAP_MS

_PARTITION = ["topic", "partition"]
_LISTING = [*_PARTITION, "listing"]
_SAMPLE = [*_LISTING, "t", "session", "seq"]


def intervals(samples: str) -> pl.DataFrame:
    """Return the intervals of the samples in some Parquet files."""
    return _islands(_stated(_listed(pl.scan_parquet(samples)))).collect()


def _listed(samples: pl.LazyFrame) -> pl.LazyFrame:
    is_listed = (pl.col("adding").list.len() > 0) | (pl.col("removing").list.len() > 0)
    follows = (pl.col("is_listed").shift() & (pl.col("t").diff() <= GAP_MS)).over(_PARTITION)
    return (
        samples.filter(~pl.col("shadowed"))
        .sort(*_PARTITION, "t", "session", "seq")
        .with_columns(is_listed.alias("is_listed"))
        .with_columns(
            (pl.col("is_listed") & ~follows.fill_null(value=False)).alias("begins"),
            pl.col("t").shift(-1).over(_PARTITION).alias("next_t"),
        )
        .with_columns(pl.col("begins").cum_sum().over(_PARTITION).alias("listing"))
        .filter("is_listed")
        .select(*_SAMPLE, "next_t", "described", "adding", "isr", "ends")
    )


def _stated(listed: pl.LazyFrame) -> pl.LazyFrame:
    end = pl.col("ends").struct.field("end")
    last_end = pl.col("end").forward_fill().shift().over([*_LISTING, "broker"])
    grown = pl.col("last_end").is_null() | (pl.col("end") > pl.col("last_end"))
    ends = (
        listed.select(*_SAMPLE, "adding", "isr", "ends")
        .explode("ends")
        .with_columns(pl.col("ends").struct.field("broker"), end)
        .with_columns(last_end.alias("last_end"))
        .with_columns(
            (
                pl.col("adding").list.contains(pl.col("broker"))
                & ~pl.col("isr").list.contains(pl.col("broker"))
            ).alias("is_missing")
        )
        .group_by(_SAMPLE)
        .agg(
            (pl.col("is_missing") & grown).any().alias("headway"),
            pl.col("is_missing").any().alias("read_now"),
        )
    )
    missing = pl.col("adding").list.set_difference("isr").list.len()
    t = pl.col("t")
    headway_t = pl.when("headway").then(t).forward_fill().over(_LISTING).fill_null(pl.col("from_t"))
    return (
        listed.join(ends, on=_SAMPLE, how="left", maintain_order="left")
        .with_columns(t.first().over(_LISTING).alias("from_t"), missing.alias("missing"))
        .with_columns(
            headway_t.alias("headway_t"),
            pl.col("read_now").cum_max().over(_LISTING).alias("read"),
        )
        .with_columns(
            (pl.col("headway").fill_null(value=False) | (pl.col("described") & (missing == 0)))
            .cum_sum()
            .over(_LISTING)
            .alias("stretch")
        )
        .with_columns(
            pl.when(pl.col("described") & (pl.col("missing") > 0))
            .then(t)
            .max()
            .over([*_LISTING, "stretch"])
            .alias("still_until_t")
        )
        .with_columns(
            pl.when(~pl.col("described"))
            .then(None)
            .when(pl.col("missing") == 0)
            .then(pl.lit("in sync"))
            .when(~pl.col("read"))
            .then(pl.lit("adding"))
            .when(
                ~pl.col("headway").fill_null(value=False)
                & (pl.col("still_until_t") - pl.col("headway_t") >= STALLED_AFTER_MS)
            )
            .then(pl.lit("stalled"))
            .otherwise(pl.lit("catching up"))
            .alias("state")
        )
    )


def _islands(stated: pl.LazyFrame) -> pl.LazyFrame:
    same = pl.col("state").eq_missing(pl.col("state").shift()).over(_LISTING)
    until = pl.when(pl.col("next_t") - pl.col("t") <= GAP_MS).then("next_t").otherwise("t")
    return (
        stated.with_columns((~same).cum_sum().over(_LISTING).alias("island"), until.alias("until"))
        .filter(pl.col("state").is_not_null())
        .group_by(*_LISTING, "island", "state")
        .agg(
            pl.col("t").min().alias("began_t"),
            pl.col("until").max().alias("ended_t"),
            pl.col("next_t").is_null().any().alias("open"),
        )
        .drop("island")
    )
