"""When each session saw its cluster, and what new lines of one session may change in others.

Offsets and shadows of sessions follow from all of their lines. So a version reads those lines that
can matter, and no others: a session matters to new lines where it was recorded at the same time,
or has events of the same runs.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from ktui.pipeline.united_times import Time, united

SessionKey = tuple[str, str]
"""The id of a cluster, and of a session there."""


class SessionSpan(msgspec.Struct, frozen=True):
    """A session, and a span of time that holds all of its lines. Times in ms.

    A line was at `ms` + offset, the offset being `at_ms` - `ms` of the session's first line that
    counts. Copies that come later may make it another one, so the span is wide enough for any.
    """

    cluster_id: str
    session: str
    first_ms: int
    last_ms: int
    """The recorder's monotonic clock."""
    least_offset: int
    most_offset: int
    run_ids: tuple[str, ...] = ()
    """The runs whose events it has."""
    versions: tuple[str, ...] = ()
    """The names of the versions' folders that have lines of it."""

    @property
    def key(self) -> SessionKey:
        """Its cluster and its id."""
        return self.cluster_id, self.session

    @property
    def first_t(self) -> int:
        """No line is earlier, in ms since 1970."""
        return self.first_ms + self.least_offset

    @property
    def last_t(self) -> int:
        """No line is later, in ms since 1970."""
        return self.last_ms + self.most_offset

    def joined(self, other: SessionSpan) -> SessionSpan:
        """Return the span of the lines of both; `other` is of the same session."""
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

    New lines of a session change its own lines, those that it shadows, and which session has an
    event of a run. What shadows a line depends on all sessions of its time.

    Args:
        new: the sessions with new lines.
        spans: those of all sessions, the new lines among them.
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
