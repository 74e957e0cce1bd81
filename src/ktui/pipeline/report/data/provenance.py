"""The sources of a report: ktui's version, the segments, and the lines that were lost."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pyarrow.compute as pc

from ktui import __version__
from ktui.pipeline.lake.records import ReportFacts
from ktui.pipeline.report.data.lake import ArrowLake, records, values
from ktui.pipeline.report.data.subject import Subject


class Segment(msgspec.Struct, frozen=True):
    """A file of a recording that the lake was made from."""

    path: str
    sha256: str


class UnusableLine(msgspec.Struct, frozen=True):
    """A line of a recording that could not be used."""

    file: str
    line: int | None
    reason: str


class Provenance(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the page's footer."""

    made_at: datetime
    version: str
    lake: str
    segments: tuple[Segment, ...]
    lost: tuple[UnusableLine, ...]


_DIGITS = 16
"""The digits of a segment's checksum by which rows name the segment."""


class _Bad(msgspec.Struct, frozen=True):
    segment: str
    file: str
    line: int
    reason: str


def trace_provenance(
    lake: ArrowLake, place: str, subject: Subject, facts: ReportFacts
) -> Provenance:
    """Find the sources of a report.

    Args:
        lake: the lake that the report was made from.
        place: the lake's place, as the user named it.
        subject: the run or cluster of the report.
        facts: the report's facts.
    """
    used = _segments(lake, subject, facts)
    cluster = pc.field("cluster_id")
    concerned = (cluster == subject.cluster_id) | (cluster == "")
    bad = records(lake, "quarantine", _Bad, concerned)
    of_run = subject.run is not None
    return Provenance(
        made_at=datetime.now(UTC),
        version=__version__,
        lake=place,
        segments=tuple(
            Segment(one.path, one.sha256)
            for one in lake.manifest.segments
            if one.sha256[:_DIGITS] in used
        ),
        lost=tuple(
            UnusableLine(one.file, one.line, one.reason)
            for one in bad
            if not of_run or one.segment in used
        ),
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
