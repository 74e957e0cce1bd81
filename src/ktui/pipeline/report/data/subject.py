"""The subject of a report: one run, or all that was recorded of a cluster."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pyarrow.compute as pc

from ktui import __version__
from ktui.cluster.text import marked
from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.lake.manifest import SegmentRead
from ktui.pipeline.lake.records import ReportFacts, RunRecord
from ktui.pipeline.report.data.lake import ArrowLake, Tables, records, values

_MOST_NAMED = 10


class Subject(msgspec.Struct, frozen=True):
    """Selects the rows of the lake that concern the report."""

    cluster_id: str
    run: RunRecord | None = None
    """None for the whole cluster."""

    def where(self, *, of_run: bool = True) -> pc.Expression:
        """Return the filter for the cluster's rows; for the run's if there is one and `of_run`."""
        cluster = pc.field("cluster_id") == self.cluster_id
        if self.run is None or not of_run:
            return cluster
        return cluster & (pc.field("run_id") == self.run.run_id)


def choose_subject(tables: Tables, run: str | None, cluster: str | None) -> Subject:
    """Find the run, by its name or id, or the cluster that the user asked for.

    Raises:
        PipelineProblem: no run or cluster matches, or several do; names the choices.
    """
    runs = records(tables, "runs", RunRecord, pc.scalar(value=True))
    if run is not None:
        return _named_run([one for one in runs if cluster in (None, one.cluster_id)], run)
    clusters = sorted(values(tables, "polls", "cluster_id", pc.scalar(value=True)))
    if cluster is None:
        if len(clusters) == 1 and not runs:
            return Subject(clusters[0])
        raise PipelineProblem(
            "the report needs a subject: --run or --cluster. "
            f"{_choices('Runs', _names(runs))} {_choices('Clusters', clusters)}"
        )
    if cluster not in clusters:
        raise PipelineProblem(f"no cluster {cluster} in the lake. {_choices('Clusters', clusters)}")
    return Subject(cluster)


def _named_run(runs: list[RunRecord], name: str) -> Subject:
    found = [one for one in runs if name == one.run_id] or [one for one in runs if name == one.run]
    if not found:
        raise PipelineProblem(f"no run {name} in the lake. {_choices('Runs', _names(runs))}")
    if len(found) > 1:
        ids = _choices("Use an id", [marked(one.run_id, one.cluster_id) for one in found])
        raise PipelineProblem(f"{len(found)} runs are called {name}. {ids}")
    return Subject(found[0].cluster_id, found[0])


def _names(runs: list[RunRecord]) -> list[str]:
    return sorted({one.run for one in runs})


def _choices(what: str, names: list[str]) -> str:
    if not names:
        return f"{what}: none."
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{what}: {', '.join(names[:_MOST_NAMED])}{more}."


class UnusableLine(msgspec.Struct, frozen=True):
    """A line of a recording that could not be used."""

    file: str
    line: int | None
    reason: str
    segment: str = ""
    """The first digits of its file's checksum."""


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the page's footer."""

    made_at: datetime
    version: str
    lake: str
    segments: tuple[SegmentRead, ...]
    lost: tuple[UnusableLine, ...]


_DIGITS = 16
"""The digits of a segment's checksum by which rows name the segment."""


def trace_provenance(
    lake: ArrowLake, place: str, subject: Subject, facts: ReportFacts
) -> Provenance:
    """Find the sources of a report on a lake, whose place is as the user named it."""
    used = _segments(lake, subject, facts)
    cluster = pc.field("cluster_id")
    concerned = (cluster == subject.cluster_id) | (cluster == "")
    bad = records(lake, "quarantine", UnusableLine, concerned)
    return Provenance(
        made_at=datetime.now(UTC),
        version=__version__,
        lake=place,
        segments=tuple(each for each in lake.manifest.segments if each.sha256[:_DIGITS] in used),
        lost=tuple(line for line in bad if subject.run is None or line.segment in used),
    )


def _segments(lake: ArrowLake, subject: Subject, facts: ReportFacts) -> set[str]:
    """Return the first 16 digits of the checksums of all segments with data on the subject."""
    cluster = subject.where(of_run=False)
    if subject.run is None:
        return values(lake, "lines", "segment", cluster)
    began, ended = facts.span
    t = pc.field("t")
    sampled = values(lake, "samples", "segment", cluster & (t >= began) & (t <= ended))
    return sampled | values(lake, "lines", "segment", subject.where())
