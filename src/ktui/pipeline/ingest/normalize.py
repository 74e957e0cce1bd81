"""Merge copies of lines, normalise times, and mark shadowed sessions, by whole clusters."""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - Spark's own name for it

from ktui.pipeline.lake.records import GAP_MS
from ktui.pipeline.lake.schema import Table, Time, fit_to_table, united
from ktui.pipeline.lake.tables import POLLS, RUN_EVENTS, SAMPLES
from ktui.recording.segments import ENGINE

LINE = ("cluster_id", "session", "seq")
SESSION = ("cluster_id", "session")
EVENT = ("cluster_id", "run_id", "entry")
COPY = (*LINE, "segment", "line")
SETTLING = (*COPY, "sha", "kind", "at_ms", "ms", "decoded", "program", "run_id", "entry")
"""The columns of LINES that decide what becomes of a line."""


def copies(lines: DataFrame) -> DataFrame:
    """Add `counts` to each copy of a line of whole sessions, and `own_ms`.

    The copy that counts is the one decoded, then the least by its checksum. `own_ms` is when the
    line's poll or event was, by the recorder's monotonic clock.
    """
    rank = F.struct(~F.col("decoded"), "sha", "segment", "line")
    best = lines.groupBy(*LINE).agg(F.min(rank).alias("best"))
    return (
        lines.join(best, list(LINE))
        .withColumn("counts", F.col("best") == rank)
        .select(*lines.columns, "counts", _own_ms().alias("own_ms"))
    )


def _own_ms() -> Column:
    """Return when an event was: where it came late, its line has the time of the last poll.

    Then its journal's wall time counts, as the clocks of the line before it stood.
    """
    in_session = Window.partitionBy(*SESSION).orderBy("seq")
    earlier = in_session.rangeBetween(Window.unboundedPreceding, -1)
    clocks = F.struct("ms", (F.col("at_ms") - F.col("ms")).alias("offset"))
    of_clocks = F.col("counts") & (F.col("kind") != "run")
    before = F.last(F.when(of_clocks, clocks), ignorenulls=True).over(earlier)
    is_late = (F.col("kind") == "run") & (F.col("ms") <= before.ms)
    return F.when(is_late, F.least("ms", F.col("at_ms") - before.offset)).otherwise(F.col("ms"))


def sessions(counted: DataFrame) -> DataFrame:
    """Compute each session's `offset` (t = ms + offset), and the spans of t of better ones."""
    of_engine = F.coalesce(F.col("program").endswith(ENGINE), F.lit(col=False))
    own = counted.groupBy(*SESSION).agg(
        F.min_by(F.col("at_ms") - F.col("ms"), "seq").alias("offset"),
        F.struct(~F.bool_or(of_engine), ~F.bool_or(F.col("kind") == "run")).alias("kind"),
    )
    return own.join(_covered(own, _polled(counted)), list(SESSION), "left").select(
        *SESSION, "offset", F.coalesce("covered", F.array()).alias("covered")
    )


def _polled(counted: DataFrame) -> DataFrame:
    """Compute the spans of `ms` in which each session polled: those between its gaps."""
    in_order = Window.partitionBy(*SESSION).orderBy("ms")
    follows = F.col("ms") - F.lag("ms").over(in_order) <= GAP_MS
    return (
        counted.where((F.col("kind") == "look") & F.col("decoded"))
        .select(*SESSION, "ms", F.coalesce(follows, F.lit(col=False)).alias("follows"))
        .withColumn("span", F.count_if(~F.col("follows")).over(in_order))
        .groupBy(*SESSION, "span")
        .agg(F.min("ms").alias("first_ms"), F.max("ms").alias("last_ms"))
    )


def _covered(sessions: DataFrame, polled: DataFrame) -> DataFrame:
    span = F.struct(
        (F.col("first_ms") + F.col("offset")).alias("first"),
        (F.col("last_ms") + F.col("offset")).alias("last"),
    )
    seen = (
        polled.join(sessions, list(SESSION))
        .groupBy(*SESSION, "kind")
        .agg(F.sort_array(F.collect_list(span)).alias("spans"))
        .withColumns({"first": F.array_min("spans.first"), "last": F.array_max("spans.last")})
        .withColumn("rank", F.struct("kind", "first", "session"))
    )
    one, other = seen.alias("one"), seen.alias("other")
    better = (
        (F.col("one.cluster_id") == F.col("other.cluster_id"))
        & (F.col("other.rank") < F.col("one.rank"))
        & (F.col("other.first") <= F.col("one.last"))
        & (F.col("one.first") <= F.col("other.last"))
    )
    # polls by themselves are left out: of a slow recorder, each sample would be held to all of them
    spans = F.filter("other.spans", lambda span: span["first"] < span["last"])
    return (
        one.join(other, better)
        .groupBy(F.col("one.cluster_id").alias("cluster_id"), F.col("one.session").alias("session"))
        .agg(F.flatten(F.collect_list(spans)).alias("covered"))
    )


def fates(copies: DataFrame, sessions: DataFrame) -> DataFrame:
    """Add `fate` to each copy of whole clusters' lines; `wins`: RUN_EVENTS has its event."""
    timed = _timed(copies, sessions)
    is_look = (F.col("kind") == "look") & F.col("decoded")
    is_event = F.col("counts") & (F.col("kind") == "run")
    firsts = timed.where(is_event).groupBy(*EVENT).agg(F.min(_recorded()).alias("first"))
    wins = is_event & F.col("first").eqNullSafe(_recorded())
    return timed.join(firsts, list(EVENT), "left").select(
        *copies.columns,
        F.struct(
            "counts", "t", F.when(is_look, _shadowed()).alias("shadowed"), wins.alias("wins")
        ).alias("fate"),
    )


def _recorded() -> Column:
    """The order in which sessions recorded an event: the first one knows best when it was."""
    return F.struct(F.col("ms") + F.col("offset"), "session", "seq")


def samples(raw: DataFrame, copies: DataFrame, sessions: DataFrame) -> DataFrame:
    """Make SAMPLES from the samples of all copies, both new and normalised before."""
    lost = copies.where(~F.col("counts")).select(*LINE, "segment", "line")
    settled = (
        raw.join(lost, [*LINE, "segment", "line"], "left_anti")
        .join(F.broadcast(sessions), list(SESSION))
        .withColumn("later", F.col("ms") + F.col("offset") - F.col("t"))
        .withColumns(
            {
                "ends": _shifted("ends"),
                "sizes": _shifted("sizes"),
                "log_start_read_t": F.col("log_start_read_t") + F.col("later"),
            }
        )
        .withColumn("t", F.col("t") + F.col("later"))
    )
    return _with_time(settled, SAMPLES)


def polls(counted: DataFrame, sessions: DataFrame) -> DataFrame:
    """Make POLLS from the copies that count."""
    looks = counted.where((F.col("kind") == "look") & F.col("decoded"))
    return _with_time(_timed(looks, sessions), POLLS)


def run_events(counted: DataFrame, sessions: DataFrame) -> DataFrame:
    """Make RUN_EVENTS from the copies that count; an event recorded twice appears once."""
    events = _timed(counted.where(F.col("kind") == "run"), sessions).drop("kind", "covered")
    others = [F.col(name) for name in events.columns if name not in EVENT]
    first = F.min_by(F.struct(*others), _recorded())
    once = events.groupBy(*EVENT).agg(first.alias("first")).select(*EVENT, "first.*")
    kind = F.coalesce(F.get_json_object("event", "$.event"), F.lit("unknown"))
    return _with_time(once.withColumn("kind", kind), RUN_EVENTS)


def _timed(lines: DataFrame, sessions: DataFrame) -> DataFrame:
    joined = lines.join(F.broadcast(sessions), list(SESSION))
    return joined.withColumn("t", F.col("own_ms") + F.col("offset"))


def _shifted(name: str) -> Column:
    later = F.col("later")
    return F.transform(name, lambda each: each.withField("read_t", each["read_t"] + later))


def _shadowed() -> Column:
    t = F.col("t")
    return F.exists("covered", lambda span: t.between(span["first"], span["last"]))


def _with_time(timed: DataFrame, table: Table) -> DataFrame:
    at = F.timestamp_millis("t")
    if "shadowed" in table.schema.names:
        timed = timed.withColumn("shadowed", _shadowed())
    return fit_to_table(timed.withColumns({"at": at, "date": F.to_date(at)}), table)


SessionKey = tuple[str, str]  # the id of a cluster, and of a session there


class SessionSpan(msgspec.Struct, frozen=True):
    """A session, and a span of time that holds all of its lines. Times in ms.

    `at_ms` - `ms` of the session's first line that counts is the offset. Later copies may change
    which line that is, so the span is wide enough for any.
    """

    cluster_id: str
    session: str
    first_ms: int
    last_ms: int
    least_offset: int
    most_offset: int
    run_ids: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()  # the names of the versions' folders that have lines of it

    @property
    def key(self) -> SessionKey:
        return self.cluster_id, self.session

    @property
    def first_t(self) -> int:
        return self.first_ms + self.least_offset

    @property
    def last_t(self) -> int:
        return self.last_ms + self.most_offset

    def joined(self, other: SessionSpan) -> SessionSpan:
        return SessionSpan(
            self.cluster_id,
            self.session,
            min(self.first_ms, other.first_ms),
            max(self.last_ms, other.last_ms),
            min(self.least_offset, other.least_offset),
            max(self.most_offset, other.most_offset),
            tuple(sorted({*self.run_ids, *other.run_ids})),
            tuple(sorted({*self.versions, *other.versions})),
        )


Spans = Mapping[SessionKey, SessionSpan]


def join_spans(spans: Iterable[SessionSpan]) -> dict[SessionKey, SessionSpan]:
    """Return one span for each session."""
    found: dict[SessionKey, SessionSpan] = {}
    for span in spans:
        known = found.get(span.key)
        found[span.key] = span if known is None else known.joined(span)
    return found


def touched_by(new: Collection[SessionKey], spans: Spans) -> set[SessionKey]:
    """Return the sessions that decide about lines which new lines may change.

    These are lines of the same session, lines that it shadows, and events of runs. `spans` has all
    sessions of the time.
    """
    shadowed = with_contemporaries(new, spans)
    runs = {(cluster, run_id) for cluster, id_ in new for run_id in spans[cluster, id_].run_ids}
    sharing = {
        key for key, span in spans.items() if any((key[0], each) in runs for each in span.run_ids)
    }
    return with_contemporaries(shadowed, spans) | sharing


def with_contemporaries(chosen: Collection[SessionKey], spans: Spans) -> set[SessionKey]:
    """Return some sessions, and those of the same cluster that were recorded at the same time."""
    of_cluster: defaultdict[str, list[Time]] = defaultdict(list)
    for key in chosen:
        of_cluster[key[0]].append((spans[key].first_t, spans[key].last_t))
    times = {cluster: united(of, most=len(of)) for cluster, of in of_cluster.items()}
    same_time = {
        key for key, span in spans.items() if key[0] in times and _meets(span, times[key[0]])
    }
    return {*chosen, *same_time}


def _meets(span: SessionSpan, times: Sequence[Time]) -> bool:
    place = bisect_left(times, span.first_t, key=_end)  # the first one that does not end before it
    return place < len(times) and times[place][0] <= span.last_t


def _end(time: Time) -> int:
    return sys.maxsize if time[1] is None else time[1]


def changed_lines(
    copies_before: DataFrame,
    sessions_before: DataFrame,
    copies_now: DataFrame,
    sessions_now: DataFrame,
) -> DataFrame:
    """Select new lines, and old ones with other rows now.

    Another copy counts, or the clock offset, a better session or the source of an event has
    changed. `happened` tells whether RUN_EVENTS has, or had, an event from the line.
    """
    before = fates(copies_before, sessions_before)
    before = before.select(*COPY, F.col("fate").alias("fate_before"))
    happened = F.col("fate.wins") | F.coalesce("fate_before.wins", F.lit(col=False))
    return (
        fates(copies_now, sessions_now)
        .join(before, list(COPY), "left")
        .where(~F.col("fate").eqNullSafe(F.col("fate_before")))
        .select(*copies_now.columns, happened.alias("happened"))
    )
