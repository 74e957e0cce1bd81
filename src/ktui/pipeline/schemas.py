"""The tables that come straight from recordings. docs/pipeline.md tells them in words.

Every time is normalised (`t`, ms since 1970 in UTC, steps of the wall clock taken out), and its
timestamp is the same moment.
"""

from __future__ import annotations

from ktui.pipeline.columns import (
    BOOLEAN,
    BROKERS,
    DAY,
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
