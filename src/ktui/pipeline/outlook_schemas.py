"""The tables that hold what was foretold against what came, and what else might have."""

from __future__ import annotations

from pyspark.sql.types import ArrayType

from ktui.pipeline.columns import (
    BOOLEAN,
    DOUBLE,
    INT,
    LONG,
    MOMENT,
    TEXT,
    TEXTS,
    Table,
    column,
    struct_of,
)

_FORECAST = (
    column("run_id", TEXT, "null for partitions that no run was moving", null=True),
    column("scope", TEXT, "run or partition"),
    column("topic", TEXT, "null for runs", null=True),
    column("partition", INT, "null for runs", null=True),
    column("t", LONG, "when it was told, ms since 1970 in UTC, normalised"),
    column("share", DOUBLE, "done then, 0 to 1", null=True),
    column("left_s", DOUBLE, "what the live view told, s; null where it told none", null=True),
    column("low_s", DOUBLE, "s", null=True),
    column("high_s", DOUBLE, "s", null=True),
    column("linear_s", DOUBLE, "time passed by the share done, s", null=True),
    column("recent_s", DOUBLE, "what is left by the last 10 s, s", null=True),
)

FORECASTS = Table(
    "forecasts",
    struct_of(
        column("cluster_id", TEXT),
        column("session", TEXT),
        column("seq", LONG, "of the look, in its session"),
        *_FORECAST,
        column("truth_s", DOUBLE, "null for runs: their end may be in another session", null=True),
    ),
)
"""Inner to the pipeline: what each session foretold, shadowed ones too."""

ETA_BACKTEST = Table(
    "eta_backtest",
    struct_of(
        column("cluster_id", TEXT),
        *_FORECAST,
        column("at", MOMENT, "t as a timestamp"),
        column("truth_s", DOUBLE, "what it really took from then on, s"),
    ),
)
"""One row for each run and partition and five seconds, of what came to its end."""

INSIGHTS = Table(
    "insights",
    struct_of(
        column("cluster_id", TEXT),
        column("insights", TEXT, "JSON: one of `clusters` of docs/insights.md"),
    ),
)
"""One row for each cluster: what insights.json is put together from."""

WHAT_IF = Table(
    "what_if",
    struct_of(
        column("cluster_id", TEXT),
        column("run", TEXT),
        column("run_id", TEXT),
        column("partitions", LONG, "that move"),
        column("bytes", LONG, "to copy, as of the run's start"),
        column("limits", TEXT, "JSON: those that were played"),
        column("throttle", TEXT, "as --throttle takes it"),
        column("own", BOOLEAN, "the run was carried out so, from its start at least"),
        column("predicted_s", DOUBLE, "s"),
        column("low_s", DOUBLE, "at the fastest rates that were seen, s"),
        column("high_s", DOUBLE, "at the slowest, s"),
        column("peak_extra_replicas", LONG, "at one time, beyond what partitions have or get"),
        column("batches", LONG, "decisions that begin steps"),
        column("broker_bytes_s", DOUBLE, "the most into one broker at a time, B/s"),
        column("actual_s", DOUBLE, "null but for the run's own limits, s", null=True),
        column(
            "error_held_out",
            DOUBLE,
            "(predicted - actual) / actual of the run as it was, by a model of other runs only; "
            "null where there are none, or the run did not keep its limits",
            null=True,
        ),
        column(
            "calibrated_on",
            ArrayType(TEXT, containsNull=False),
            "run ids; empty: moves of others only",
        ),
        column(
            "beyond",
            TEXTS,
            "why it is not recommended: what would have to be recorded; empty where it may be",
            null=True,
        ),
        column("recommended", BOOLEAN),
        column("reason", TEXT, "why; of one row for each run", null=True),
    ),
)
"""One row for each run and way to carry it out."""
