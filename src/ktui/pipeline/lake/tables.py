"""The tables that come straight from recordings. docs/pipeline.md tells them in words.

Every time is normalised (`t`, ms since 1970 in UTC, steps of the wall clock taken out), and its
timestamp is the same moment.
"""

from __future__ import annotations

from pyspark.sql.types import ArrayType, MapType

from ktui.pipeline.lake.schema import (
    BOOLEAN,
    BROKERS,
    DAY,
    DOUBLE,
    INT,
    KEY,
    LONG,
    MOMENT,
    TEXT,
    TEXTS,
    Table,
    array_of,
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


_WHERE = (
    column("segment", TEXT, "first 16 hex digits of the SHA-256 of the segment it was read from"),
    column("line", INT, "the line's number in that segment, from 1"),
)
_WHEN = (
    column("session", TEXT, "of the recorder"),
    column("seq", LONG, "the line's number in its session, from 0"),
    column("at", MOMENT, "when the poll was answered; t as a timestamp"),
    column("t", LONG, "ms since 1970 in UTC, normalised"),
)

LINES = Table(
    "lines",
    struct_of(
        column("cluster_id", TEXT),
        column("session", TEXT),
        column("seq", LONG),
        *_WHERE,
        column("sha", TEXT, "SHA-256 of the line's text, hex"),
        column("kind", TEXT, "head, look, lost, run or end"),
        column("at_ms", LONG, "the recorder's wall clock, ms since 1970 in UTC"),
        column("ms", LONG, "the recorder's monotonic clock, ms"),
        column("decoded", BOOLEAN, "false for a look that does not follow on those before it"),
        column("took_ms", LONG, "of a look, ms", null=True),
        column("controller", INT, "of a look", null=True),
        column("brokers", BROKERS, "of a look: registered", null=True),
        column("alive", BROKERS, "of a look: registered and not fenced", null=True),
        column("reassigning", INT, "of a look: partitions being reassigned", null=True),
        column(
            "failures",
            TEXTS,
            "of a look: what could not be read",
            null=True,
        ),
        column("run", TEXT, "of a run's event: its name", null=True),
        column("run_id", TEXT, "of a run's event", null=True),
        column("entry", LONG, "of a run's event: its number in the journal", null=True),
        column("event", TEXT, "of a run's event: JSON", null=True),
        column("reason", TEXT, "of a lost poll", null=True),
    ),
)
"""Every copy of every line that could be read: what the other tables are made from, with samples.
Inner to the pipeline; `check` counts by it."""

QUARANTINE = Table(
    "quarantine",
    struct_of(
        column("cluster_id", TEXT, '"unknown" before a head that could be read'),
        column("file", TEXT, "the segment's path when it was read"),
        *_WHERE,
        column("reason", TEXT),
        column("text", TEXT, "the line's beginning, at most 200 characters"),
    ),
)
"""Lines that could not be read, or do not follow on those before them."""

SAMPLES = Table(
    "samples",
    struct_of(
        column("cluster_id", TEXT),
        column("date", DAY, "of t, UTC"),
        *_WHEN,
        column("took_ms", LONG, "how long the poll took, ms"),
        *KEY[1:],
        column("replicas", BROKERS, "in order; adding and removing ones among them"),
        column("isr", BROKERS),
        column("leader", INT, "null while there is none", null=True),
        column("leader_epoch", INT, null=True),
        column("adding", BROKERS),
        column("removing", BROKERS),
        column("offline", BROKERS),
        column("elr", BROKERS, "null where the cluster does not tell", null=True),
        column("described", BOOLEAN, "false: only the replica lists are true"),
        column(
            "ends",
            array_of(
                column("broker", INT),
                column("end", LONG, "log end offset"),
                column("read_t", LONG, "ms since 1970 in UTC, normalised"),
            ),
            "by broker",
        ),
        column("log_start", LONG, "log start offset at the leader", null=True),
        column("log_start_read_t", LONG, "ms since 1970 in UTC, normalised", null=True),
        column(
            "sizes",
            array_of(
                column("broker", INT),
                column("bytes", LONG),
                column("read_t", LONG, "ms since 1970 in UTC, normalised"),
            ),
            "bytes on disk, by broker",
        ),
        column(
            "rates",
            array_of(
                column("broker", INT),
                column("follower", LONG, "follower.replication.throttled.rate, B/s", null=True),
                column("leader", LONG, "leader.replication.throttled.rate, B/s", null=True),
            ),
            "of those of the replicas' brokers that have a throttle, by broker",
        ),
        column("down", BROKERS, "those of the replicas' brokers that are not alive"),
        column("shadowed", BOOLEAN, "a better session saw the cluster at that time"),
        column("ms", LONG, "the recorder's monotonic clock, ms"),
        *_WHERE,
    ),
    by_date=True,
)
"""One row for each look and partition seen in it."""

POLLS = Table(
    "polls",
    struct_of(
        column("cluster_id", TEXT),
        column("date", DAY, "of t, UTC"),
        *_WHEN,
        column("took_ms", LONG, "how long the poll took, ms"),
        column("controller", INT, null=True),
        column("brokers", BROKERS, "registered, sorted"),
        column("alive", BROKERS, "registered and not fenced, sorted"),
        column("reassigning", INT, "partitions being reassigned"),
        column("failures", TEXTS, "what could not be read"),
        column("shadowed", BOOLEAN, "a better session saw the cluster at that time"),
    ),
    by_date=True,
)
"""One row for each look."""

RUN_EVENTS = Table(
    "run_events",
    struct_of(
        column("cluster_id", TEXT),
        column("date", DAY, "of t, UTC"),
        column("run", TEXT),
        column("run_id", TEXT),
        column("entry", LONG, "its number in the run's journal, from 1"),
        column("at", MOMENT, "t as a timestamp"),
        column("t", LONG, "when it was recorded, ms since 1970 in UTC, normalised"),
        column("kind", TEXT, "the event's name"),
        column("event", TEXT, "JSON, as the journal has it"),
        column("session", TEXT, "of the recorder"),
    ),
    by_date=True,
)
"""One row for each event of a run."""
