"""The schemas of all tables in the lake; docs/pipeline.md describes them.

Every time `t` is in ms since 1970, UTC, without steps of the wall clock.
"""

from __future__ import annotations

from pyspark.sql.types import BinaryType, MapType

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
    array_of,
    column,
    table,
)

_MS = "ms since 1970 in UTC, normalised"

_FORECAST = (
    column("run_id", TEXT, "null for partitions that no run was moving", null=True),
    column("scope", TEXT, "run or partition"),
    column("topic", TEXT, "null for runs", null=True),
    column("partition", INT, "null for runs", null=True),
    column("t", LONG, "when it was forecast, ms since 1970 in UTC, normalised"),
    column("share", DOUBLE, "share done at that time, 0 to 1", null=True),
    column("left_s", DOUBLE, "the live view's time left, s; null where it showed none", null=True),
    column("low_s", DOUBLE, "the low end of the live view's range, s", null=True),
    column("high_s", DOUBLE, "the high end of the live view's range, s", null=True),
    column("linear_s", DOUBLE, "naive: time passed x (1 - share) / share, s", null=True),
    column("recent_s", DOUBLE, "naive: time left at the rate of the last 10 s, s", null=True),
)

FORECASTS = table(
    "forecasts",
    "Internal: the forecasts of each session, shadowed ones too; caught_up has the truth.",
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("seq", LONG, "the poll's line number in its session"),
    column("since", LONG, "of a partition: seq of the first one for the same copy", null=True),
    *_FORECAST,
)

CAUGHT_UP = table(
    "caught_up",
    "Internal: the copies that have caught up, for which there are forecasts.",
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("topic", TEXT),
    column("partition", INT),
    column("since", LONG, "as in the forecasts for this copy"),
    column("ended_t", LONG, "when it had caught up, ms since 1970 in UTC, normalised"),
)

REPLAYS = table(
    "replays",
    "Internal: how far sessions were replayed that may go on.",
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("seq", LONG, "the last line that was replayed"),
    column("t", LONG, "of the last poll or event, ms since 1970 in UTC, normalised"),
    column("format", TEXT, "of the state"),
    column("state", BinaryType(), "after that line, as the pipeline goes on from it"),
)

ETA_BACKTEST = table(
    "eta_backtest",
    "A forecast every five seconds for each run and partition that reached its end.",
    column("cluster_id", TEXT),
    *_FORECAST,
    column("at", MOMENT, "t as a timestamp"),
    column("truth_s", DOUBLE, "the time that was really left, s"),
)

VIEWS = (ETA_BACKTEST,)  # The tables that readers compute from others. They have no files.

ETA_ERRORS = table(
    "eta_errors",
    "Internal: the forecasts whose truth is known, counted by error.",
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("scope", TEXT, "run or partition"),
    column("run_id", TEXT, "null for partitions", null=True),
    column("decile", INT, "the tenth of the share done, from 0"),
    column("kind", TEXT, "ktui, linear or recent; moments and told count all that matter"),
    column("error_class", INT, "error within 1% of 1.02^error_class of the truth", null=True),
    column("count", LONG),
)

INSIGHTS = table(
    "insights",
    "One row for each cluster: what insights.json has of it.",
    column("cluster_id", TEXT),
    column("insights", TEXT, "JSON: an element of `clusters` in docs/insights.md"),
)

WHAT_IF = table(
    "what_if",
    "One row for each run and each set of limits that it was simulated with.",
    column("cluster_id", TEXT),
    column("run", TEXT),
    column("run_id", TEXT),
    column("partitions", LONG, "partitions that move"),
    column("bytes", LONG, "bytes to copy, as of the run's start"),
    column("limits", TEXT, "JSON: the limits that were simulated"),
    column("throttle", TEXT, "in the format of --throttle"),
    column("own", BOOLEAN, "the run's own limits and throttle, at least at its start"),
    column(
        "driven_by",
        TEXT,
        "of own: by, objective or both, where these chose its rates, which are replayed then; "
        "else null",
        null=True,
    ),
    column("by_s", DOUBLE, "of own: from its first step to the time of --by, s", null=True),
    column("predicted_s", DOUBLE, "predicted duration, s"),
    column("low_s", DOUBLE, "at the fastest rates seen, or by the error of predictions, s"),
    column("high_s", DOUBLE, "at the slowest rates seen, or by the error of predictions, s"),
    column("partitions_at_once", LONG, "the most in flight at one time", null=True),
    column("peak_extra_replicas", LONG, "at one time, beyond what partitions have or get"),
    column("batches", LONG, "decisions that begin steps"),
    column("broker_bytes_s", DOUBLE, "the most into one broker at a time, B/s"),
    column("actual_s", DOUBLE, "s; null except for the run's own limits", null=True),
    column(
        "disturbed",
        TEXTS,
        "of own: what held the run up or changed it on the way, which the model does not have",
        null=True,
    ),
    column(
        "error_held_out",
        DOUBLE,
        "(predicted - actual) / actual of the run under its own limits, by a model of other "
        "runs only; null without other runs, or where the run did not keep its limits",
        null=True,
    ),
    column("calibrated_on", TEXTS, "run ids; empty: only moves outside of runs"),
    column(
        "assumed",
        TEXTS,
        "the figures behind the predicted times that no recording shows",
        null=True,
    ),
    column(
        "beyond",
        TEXTS,
        "why it is not recommended: what would have to be recorded; empty: may be recommended",
        null=True,
    ),
    column("recommended", BOOLEAN),
    column("reason", TEXT, "why; in one row of each run", null=True),
    column(
        "record",
        TEXT,
        "beside the reason: the options of ktui start with which a run has to be recorded to "
        "know whether other limits would do better",
        null=True,
    ),
)
_RUN = (
    column("run", TEXT, "null outside of ktui's runs", null=True),
    column("run_id", TEXT, null=True),
)

STATES = table(
    "states",
    "One row for each interval in which a partition was in one state.",
    *KEY,
    *_RUN,
    column("state", TEXT),
    column("began", MOMENT),
    column("ended", MOMENT),
    column("began_t", LONG, _MS),
    column("ended_t", LONG, _MS),
    column("open", BOOLEAN, "it had not ended when the recording did"),
    column("date", DAY, "of began, UTC"),
    dated_by="began_t",
)
MOVES = table(
    "moves",
    "One row for each move of a partition, by a run or by others.",
    *KEY,
    *_RUN,
    column("began", MOMENT),
    column("ended", MOMENT, "null while it has not ended", null=True),
    column("began_t", LONG, _MS),
    column("ended_t", LONG, _MS, null=True),
    column("outcome", TEXT),
    column("steps", INT),
    column("batch", INT, "of its first step; null outside of ktui's runs", null=True),
    column("limits", TEXT, "JSON: the limits at its first step", null=True),
    column(
        "original",
        BROKERS,
        "null: not recorded; of moves outside of runs: in no known order",
        null=True,
    ),
    column("target", BROKERS, "null where the run's plan was not recorded", null=True),
    column("added", BROKERS, "all brokers that were added, sorted"),
    column("messages", LONG, "copied, null where nothing is known", null=True),
    column("bytes", LONG, "copied, by sizes on disk; null where nothing is known", null=True),
    column("rate_messages_p10", DOUBLE, "messages/s of one replica", null=True),
    column("rate_messages_p50", DOUBLE, "messages/s of one replica", null=True),
    column("rate_messages_p90", DOUBLE, "messages/s of one replica", null=True),
    column("rate_bytes_p10", DOUBLE, "B/s of one replica", null=True),
    column("rate_bytes_p50", DOUBLE, "B/s of one replica", null=True),
    column("rate_bytes_p90", DOUBLE, "B/s of one replica", null=True),
    column("stalls", LONG, "null where no poll saw it", null=True),
    column("stalled_ms", LONG, "ms; null where no poll saw it", null=True),
    column("catching_up_ms", LONG, "ms; null where no poll saw it", null=True),
    column("in_sync_ms", LONG, "ms; null where no poll saw it", null=True),
    column("adding_ms", LONG, "ms; null where no poll saw it", null=True),
    column("throttle_min", LONG, "follower throttle of the brokers added to, B/s", null=True),
    column("throttle_max", LONG, "follower throttle of the brokers added to, B/s", null=True),
    column("looks", LONG, "number of samples that show it"),
)
BATCHES = table(
    "batches",
    "One row for each decision of a run that began steps.",
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
)
RUNS = table(
    "runs",
    "One row for each run.",
    column("cluster_id", TEXT),
    column("run", TEXT),
    column("run_id", TEXT),
    column("began", MOMENT, "null where its start was not recorded", null=True),
    column("ended", MOMENT, "null while it has not ended", null=True),
    column("began_t", LONG, _MS, null=True),
    column("ended_t", LONG, _MS, null=True),
    column("partitions", LONG),
    column("outcomes", MapType(TEXT, LONG, valueContainsNull=False), "partitions by state"),
    column("batches", LONG),
    column("steps", LONG),
    column("limit_changes", LONG),
    column("objective", TEXT, "of --slo, as it is typed; null without one", null=True),
    column("windows", LONG, "of 10 s in which something was copied", null=True),
    column("kept", LONG, "windows with a figure that kept the objective", null=True),
    column("by", MOMENT, "when the run was to have ended; null without --by", null=True),
    column("by_t", LONG, "by in ms since 1970 in UTC", null=True),
    column("late_ms", LONG, "ms from by to its end; negative: in time; null until then", null=True),
    column("rate_changes", LONG, "null where began is", null=True),
    column("plan", TEXT, "the plan's file name; null where began is", null=True),
    column("version", TEXT, "of ktui; null where began is", null=True),
)
BROKER_RATES = array_of(column("broker", INT), column("bytes_s", LONG, "B/s", null=True))

RATES = table(
    "rates",
    "One row for each event of a run that sets its rates, or confirms them.",
    column("cluster_id", TEXT),
    column("run", TEXT),
    column("run_id", TEXT),
    column("entry", LONG, "the event's number in the run's journal"),
    column("at", MOMENT, "t as a timestamp"),
    column("t", LONG, _MS),
    column("kind", TEXT, "the event's name"),
    column("bytes_s", LONG, "into each broker not in brokers, B/s; null: no limit", null=True),
    column("brokers", BROKER_RATES, "brokers with a rate of their own"),
    column("chosen_by", TEXT, "operator, budget, by or objective; null: no rate", null=True),
    column("in_flight_ms", LONG, "ms with steps in flight until the next row"),
    column("objective", TEXT, "in force, as it is typed", null=True),
    column("figure", DOUBLE, "of rate_held, in the objective's unit; null: none", null=True),
    column("reason", TEXT, "of rate_held: why there is no figure", null=True),
    column("windows", LONG, "of rate_held: so far", null=True),
    column("kept", LONG, "of rate_held: windows so far that kept the objective", null=True),
    column("ends_at", MOMENT, "of rate_chosen: the end expected then", null=True),
    column("late", BOOLEAN, "of rate_chosen: whether that is after by", null=True),
)

BROKERS_BY_MINUTE = table(
    "brokers",
    "One row for each broker and minute in which something was copied or throttled.",
    column("cluster_id", TEXT),
    column("broker", INT),
    column("minute", MOMENT, "the start of the minute"),
    column("bytes_in", LONG, "B copied to it", null=True),
    column("bytes_out", LONG, "B copied from it", null=True),
    column("messages_in", LONG, "messages copied to it", null=True),
    column("messages_out", LONG, "messages copied from it", null=True),
    column("follower_throttle", LONG, "the highest seen, B/s", null=True),
    column("adding", LONG, "the most partitions that added a replica there at once"),
)

SPANS = table(
    "spans",
    "Internal: the listings of partitions and the moves of runs that new rows may change.",
    *KEY,
    column("run_id", TEXT, "null of a listing", null=True),
    column("began_t", LONG, _MS),
    column("ended_t", LONG, "null while it has not ended", null=True),
    column("last_t", LONG, "of a listing: of its last sample; null of a run", null=True),
    column("facts", TEXT, "SHA-256 of what the run did, hex; null of a listing", null=True),
    column(
        "copies",
        array_of(
            column("leader", INT),
            column("broker", INT),
            column("rate_class", INT),
            column("count", LONG),
        ),
        "of a listing: measured rates from broker to broker, each within 1% of "
        "1.02^rate_class B/s; null of a run",
        null=True,
    ),
    column(
        "stalls",
        array_of(column("began_t", LONG), column("ended_t", LONG), column("cause", TEXT)),
        "of a listing: when it stood still, and why; null of a run",
        null=True,
    ),
)

INTAKES = table(
    "intakes",
    "Internal: what a broker received in a minute, by replicas at once and throttle.",
    column("cluster_id", TEXT),
    column("broker", INT),
    column("minute", MOMENT, "the start of the minute"),
    column("at_once", LONG, "replicas that grew at once; 0 while a throttle held up all begun"),
    column("throttle", LONG, "its follower throttle, B/s", null=True),
    column("t", LONG, "of the first reading, ms since 1970 in UTC, normalised"),
    column("ms", LONG, "between readings, ms"),
    column("bytes", LONG, "B copied to it in that time"),
)

_WHERE = (
    column("segment", TEXT, "first 16 hex digits of the SHA-256 of the segment it was read from"),
    column("line", INT, "the line's number in that segment, from 1"),
)
_WHEN = (
    column("session", TEXT, "of the recorder"),
    column("seq", LONG, "the line's number in its session, from 0"),
    column("at", MOMENT, "when the poll was answered; t as a timestamp"),
    column("t", LONG, _MS),
)

LINES = table(
    "lines",
    "Internal: every readable copy of every line; others follow from these and samples.",
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("seq", LONG),
    *_WHERE,
    column("sha", TEXT, "SHA-256 of the line's text, hex"),
    column("kind", TEXT, "head, look, lost, run or end"),
    column("at_ms", LONG, "the recorder's wall clock, ms since 1970 in UTC"),
    column("ms", LONG, "the recorder's monotonic clock, ms"),
    column("decoded", BOOLEAN, "false for a poll that does not fit the polls before it"),
    column("took_ms", LONG, "of a poll, ms", null=True),
    column("controller", INT, "of a poll", null=True),
    column("brokers", BROKERS, "of a poll: registered", null=True),
    column("alive", BROKERS, "of a poll: registered and not fenced", null=True),
    column("reassigning", INT, "of a poll: partitions being reassigned", null=True),
    column("failures", TEXTS, "of a poll: what could not be read", null=True),
    column("run", TEXT, "of a run's event: its name", null=True),
    column("run_id", TEXT, "of a run's event", null=True),
    column("entry", LONG, "of a run's event: its number in the journal", null=True),
    column("event", TEXT, "of a run's event: JSON", null=True),
    column("reason", TEXT, "of a lost poll", null=True),
    column("program", TEXT, "of a head: what recorded it", null=True),
)

SESSIONS = table(
    "sessions",
    "Internal: the sessions, by which a version finds the lines that decide on new ones.",
    column("cluster_id", TEXT),
    column("session", TEXT),
    column("first_ms", LONG, "the recorder's monotonic clock at its earliest line, ms"),
    column("last_ms", LONG, "the recorder's monotonic clock at its latest line, ms"),
    column("least_offset", LONG, "the least at_ms - ms of its lines, ms"),
    column("most_offset", LONG, "the greatest at_ms - ms of its lines, ms"),
    column("run_ids", TEXTS, "the runs whose events it has"),
    column("versions", TEXTS, "the folders of the table lines with lines of it"),
)

QUARANTINE = table(
    "quarantine",
    "One row for each line that could not be read, or does not fit those before it.",
    column("cluster_id", TEXT, '"unknown" before a head that could be read'),
    column("file", TEXT, "the segment's path when it was read"),
    *_WHERE,
    column("reason", TEXT),
    column("text", TEXT, "the start of the line, at most 200 characters"),
)

SAMPLES = table(
    "samples",
    "One row for each poll and partition seen in it.",
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
    column("elr", BROKERS, "null where the cluster does not report it", null=True),
    column("described", BOOLEAN, "false: only the replica lists are known"),
    column(
        "ends",
        array_of(
            column("broker", INT),
            column("end", LONG, "log end offset"),
            column("read_t", LONG, _MS),
        ),
        "by broker",
    ),
    column("log_start", LONG, "first offset on the leader's disk", null=True),
    column("log_start_read_t", LONG, _MS, null=True),
    column(
        "sizes",
        array_of(column("broker", INT), column("bytes", LONG), column("read_t", LONG, _MS)),
        "bytes on disk, by broker",
    ),
    column(
        "rates",
        array_of(
            column("broker", INT),
            column("follower", LONG, "follower.replication.throttled.rate, B/s", null=True),
            column("leader", LONG, "leader.replication.throttled.rate, B/s", null=True),
        ),
        "of the replicas' brokers that have a throttle, by broker",
    ),
    column("down", BROKERS, "the replicas' brokers that are not alive"),
    column("shadowed", BOOLEAN, "a better session saw the cluster at that time"),
    column("ms", LONG, "the recorder's monotonic clock, ms"),
    *_WHERE,
    dated_by="t",
)
POLLS = table(
    "polls",
    "One row for each poll.",
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
    dated_by="t",
)
RUN_EVENTS = table(
    "run_events",
    "One row for each event of a run's journal.",
    column("cluster_id", TEXT),
    column("date", DAY, "of t, UTC"),
    column("run", TEXT),
    column("run_id", TEXT),
    column("entry", LONG, "its number in the run's journal, from 1"),
    column("at", MOMENT, "t as a timestamp"),
    column("t", LONG, "when its journal received it, ms since 1970 in UTC, normalised"),
    column("kind", TEXT, "the event's name"),
    column("event", TEXT, "JSON, as in the journal"),
    column("session", TEXT, "of the recorder"),
    dated_by="t",
)
RECORDED = (LINES, QUARANTINE, SAMPLES, POLLS, RUN_EVENTS)
"""The tables to which recordings are added. All others are derived from them."""
