"""The tables that are worked out from samples, polls and run events."""

from __future__ import annotations

from pyspark.sql.types import MapType

from ktui.pipeline.columns import (
    BOOLEAN,
    BROKERS,
    DAY,
    DOUBLE,
    INT,
    KEY,
    LONG,
    MOMENT,
    TEXT,
    Table,
    column,
    struct_of,
)

_MS = "ms since 1970 in UTC, normalised"
_RUN = (
    column("run", TEXT, "null where no run of ktui was concerned", null=True),
    column("run_id", TEXT, null=True),
)

STATES = Table(
    "states",
    struct_of(
        *KEY,
        *_RUN,
        column("state", TEXT),
        column("began", MOMENT),
        column("ended", MOMENT),
        column("began_t", LONG, _MS),
        column("ended_t", LONG, _MS),
        column("open", BOOLEAN, "it had not ended when the recording did"),
        column("date", DAY, "of began, UTC"),
    ),
    by_date=True,
)
"""One row for each interval in which a partition was in one state."""

MOVES = Table(
    "moves",
    struct_of(
        *KEY,
        *_RUN,
        column("began", MOMENT),
        column("ended", MOMENT, "null while it has not", null=True),
        column("began_t", LONG, _MS),
        column("ended_t", LONG, _MS, null=True),
        column("outcome", TEXT),
        column("steps", INT),
        column("batch", INT, "of its first step; null where no run was concerned", null=True),
        column("limits", TEXT, "JSON: the limits at its first step", null=True),
        column("original", BROKERS, "null: not recorded; by others: in no known order", null=True),
        column("target", BROKERS, "null where the run's plan was not recorded", null=True),
        column("added", BROKERS, "all that were added, sorted"),
        column("messages", LONG, "copied, null where nothing is known", null=True),
        column("bytes", LONG, "copied, by sizes on disk; null where nothing is known", null=True),
        column("rate_messages_p10", DOUBLE, "messages/s of one replica", null=True),
        column("rate_messages_p50", DOUBLE, "messages/s of one replica", null=True),
        column("rate_messages_p90", DOUBLE, "messages/s of one replica", null=True),
        column("rate_bytes_p10", DOUBLE, "B/s of one replica", null=True),
        column("rate_bytes_p50", DOUBLE, "B/s of one replica", null=True),
        column("rate_bytes_p90", DOUBLE, "B/s of one replica", null=True),
        column("stalls", LONG),
        column("stalled_ms", LONG, "ms"),
        column("catching_up_ms", LONG, "ms"),
        column("in_sync_ms", LONG, "ms"),
        column("adding_ms", LONG, "ms"),
        column("throttle_min", LONG, "follower throttle of the brokers added to, B/s", null=True),
        column("throttle_max", LONG, "follower throttle of the brokers added to, B/s", null=True),
        column("looks", LONG, "samples that it was seen in"),
    ),
)
"""One row for each move of a partition, by a run or by somebody else."""

BATCHES = Table(
    "batches",
    struct_of(
        column("cluster_id", TEXT),
        column("run", TEXT),
        column("run_id", TEXT),
        column("batch", INT, "the number of the decision"),
        column("began", MOMENT),
        column("ended", MOMENT, "null while a step of it is open", null=True),
        column("began_t", LONG, _MS),
        column("ended_t", LONG, _MS, null=True),
        column("partitions", LONG),
        column("steps", LONG),
        column("alters", LONG, "steps that change replicas"),
        column("elections", LONG, "steps that elect a leader"),
    ),
)
"""One row for each decision of a run that began steps."""

RUNS = Table(
    "runs",
    struct_of(
        column("cluster_id", TEXT),
        column("run", TEXT),
        column("run_id", TEXT),
        column("began", MOMENT, "null where its start was not recorded", null=True),
        column("ended", MOMENT, "null while it has not", null=True),
        column("began_t", LONG, _MS, null=True),
        column("ended_t", LONG, _MS, null=True),
        column("partitions", LONG),
        column("outcomes", MapType(TEXT, LONG, valueContainsNull=False), "partitions by state"),
        column("batches", LONG),
        column("steps", LONG),
        column("limit_changes", LONG),
        column("plan", TEXT, "the plan's file name; null like began", null=True),
        column("version", TEXT, "of ktui; null like began", null=True),
    ),
)
"""One row for each run."""

BROKERS_BY_MINUTE = Table(
    "brokers",
    struct_of(
        column("cluster_id", TEXT),
        column("broker", INT),
        column("minute", MOMENT, "its beginning"),
        column("bytes_in", LONG, "B copied to it", null=True),
        column("bytes_out", LONG, "B copied from it", null=True),
        column("messages_in", LONG, "messages copied to it", null=True),
        column("messages_out", LONG, "messages copied from it", null=True),
        column("follower_throttle", LONG, "the highest seen, B/s", null=True),
        column("adding", LONG, "most partitions adding there at once"),
    ),
)
"""One row for each broker and minute in which something was copied or throttled."""
