"""The summary at the head of the report, in a few sentences and figures."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import re
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from ktui.cluster.text import clean, marked
from ktui.pipeline.lake.records import MoveRecord, ReportFacts, RunRecord, Span, took
from ktui.pipeline.report.figures.counts import concurrency_figure, states_figure
from ktui.pipeline.report.figures.figure import Figure, Missing, as_time, brokers, partition_name
from ktui.pipeline.report.figures.forecasts import eta_figure, what_if_figure
from ktui.pipeline.report.figures.lanes import moves_figure, outcome, stalls_figure
from ktui.pipeline.report.figures.overlay import events_figure, with_overlay
from ktui.pipeline.report.figures.rates import brokers_figure, rates_figure
from ktui.pipeline.report.figures.sizes import lag_figure, rate_spread_figure, sizes_figure
from ktui.pipeline.report.lake import Provenance
from ktui.quantities import UNKNOWN, as_bytes, as_count, as_duration, as_rate

DONE = "done"
_MOST_IDLE = 3


class ReportSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The head of the page."""

    title: str
    words: tuple[str, ...]
    figures: tuple[tuple[str, str], ...]


def summary(facts: ReportFacts) -> ReportSummary:
    """Sum up a run or a cluster."""
    return ReportSummary(title=_title(facts), words=tuple(_words(facts)), figures=_figures(facts))


def _words(facts: ReportFacts) -> Iterator[str]:
    yield _when(facts)
    if facts.moves:
        yield _what(facts)
    if facts.of_run:
        run = facts.runs[0]
        # whether it kept its objective and its time; nothing where it promised nothing
        if promises := " ".join(filter(None, (_objective(run), _by(run)))):
            yield promises
    if facts.moves:
        yield _stalls(facts)
    if facts.moves and facts.gaps:
        total, gaps = as_duration(_seconds(facts.gaps)), as_count(len(facts.gaps), "gap")
        but = "Nothing is known of that time but a run's own events."
        yield f"Not recorded: {total} in {gaps}. {but}"
    if facts.idle:
        yield _idle(facts)


def _title(facts: ReportFacts) -> str:
    if facts.of_run:
        return marked(f"Run {clean(facts.runs[0].run)}", facts.cluster_id)
    return f"Cluster {_cluster(facts)}"


def _cluster(facts: ReportFacts) -> str:
    return marked(clean(facts.cluster_id), facts.cluster_id)


def _when(facts: ReportFacts) -> str:
    if not facts.moves:
        return "No partition has moved."
    began, ended = facts.span
    lasted = as_duration((ended - began) / 1000)
    when = f"from {as_time(began)} to {as_time(ended)} UTC, {lasted}"
    if not facts.of_run:
        runs = f" in {as_count(len(facts.runs), 'run')} and outside of them" if facts.runs else ""
        return f"What was recorded of cluster {_cluster(facts)}{runs}, {when}."
    run = facts.runs[0]
    went_on = "" if run.ended is not None else " It had not ended when the recording did."
    plan = "A plan that was not recorded" if run.plan is None else clean(run.plan)
    return f"{plan} on cluster {_cluster(facts)}, {when}.{went_on}"


def _what(facts: ReportFacts) -> str:
    counts = Counter(map(outcome, facts.moves))
    outcomes = ", ".join(f"{count:,} {word}" for word, count in counts.most_common())
    copied, least = _copied(facts), "At least " if _copied_unseen(facts) else ""
    much = f" {least}{as_bytes(copied)} were copied." if copied else ""
    moves = f"{as_count(len(facts.moves), 'move')} of partitions: {outcomes}."
    return f"{moves}{much}{_never_begun(facts)}"


def _never_begun(facts: ReportFacts) -> str:
    if not facts.of_run:
        return ""
    left = facts.runs[0].partitions - len({move.key for move in facts.moves})
    return f" Of the plan, {as_count(left, 'partition')} never began." if left > 0 else ""


def _stalls(facts: ReportFacts) -> str:
    stood = [one.stall for one in facts.stalls]
    if not stood:
        return "No move stood still for 30 seconds."
    total = as_duration(sum(one.ended - one.began for one in stood) / 1000)
    which = as_count(len({one.key for one in stood}), "partition")
    return f"{which} stood still, {as_count(len(stood), 'time')}, {total} in all."


def _idle(facts: ReportFacts) -> str:
    times = ", ".join(f"{as_time(since)} to {as_time(to)}" for since, to in facts.idle[:_MOST_IDLE])
    more = len(facts.idle) - _MOST_IDLE
    rest = f", and {as_count(more, 'time')} more" if more > 0 else ""
    total = as_duration(_seconds(facts.idle))
    return f"No move is known for {total}, which figures over time leave out: {times}{rest} UTC."


def _seconds(spans: Sequence[Span]) -> float:
    return sum(to - since for since, to in spans) / 1000


def _objective(run: RunRecord) -> str:
    if run.objective is None:
        return ""
    objective = clean(run.objective)
    if not run.windows or run.kept is None:
        return f"Nothing was measured of {objective}."
    share = f"({run.kept / run.windows:.0%})"
    return f"Held {objective} in {run.kept:,} of {as_count(run.windows, 'window')} {share}."


def _by(run: RunRecord) -> str:
    if run.by is None:
        return ""
    by = f"{as_time(run.by)} UTC"
    if run.late_ms is None:
        return f"It was to be done by {by}."
    off = as_duration(abs(run.late_ms) / 1000)
    if run.late_ms > 0:
        return f"Done {off} late: it was to be done by {by}."
    return f"Done {off} before {by}."


def _copied(facts: ReportFacts) -> int | None:
    known = [move.bytes for move in facts.moves if move.bytes is not None]
    return sum(known) if known else None


def _copied_unseen(facts: ReportFacts) -> bool:
    unseen = (move for move in facts.moves if move.bytes is None and move.original is not None)
    return any(set(move.target or ()) - set(move.original or ()) for move in unseen)


def median_rate(facts: ReportFacts) -> float | None:
    """Return the median of the moves' median rates of one replica, in bytes a second."""
    rates = [m.rate_bytes_p50 for m in facts.moves if m.rate_bytes_p50 is not None]
    return statistics.median(rates) if rates else None


def _figures(facts: ReportFacts) -> tuple[tuple[str, str], ...]:
    began, ended = facts.span
    copied = _copied(facts)
    least = "≥ " if copied is not None and _copied_unseen(facts) else ""
    done = sum(outcome(move) == DONE for move in facts.moves)
    figures = [
        ("took", as_duration((ended - began) / 1000) if facts.moves else UNKNOWN),
        ("moves", f"{len(facts.moves):,}"),
        ("done", f"{done:,}"),
        ("copied", f"{least}{as_bytes(copied)}"),
        ("median rate of a replica", as_rate(median_rate(facts))),
        ("stalls", f"{len(facts.stalls):,}"),
    ]
    if facts.of_run:
        run = facts.runs[0]
        figures += [
            ("batches", f"{run.batches:,}"),
            ("changes of limits", f"{run.limit_changes:,}"),
        ]
        if run.rate_changes:
            figures.append(("changes of the rate", f"{run.rate_changes:,}"))
    else:
        figures.append(("runs", f"{len(facts.runs):,}"))
    return tuple(figures)


MOST = 500


class TableCell(msgspec.Struct, frozen=True):
    """The text of a cell and its sort key; None is sorted last."""

    shown: str
    key: str | float | None


class TableColumn(msgspec.Struct, frozen=True):
    """A column's name, and whether it holds figures."""

    name: str
    numbers: bool = False


NOT_SEEN = "not seen"
COLUMNS = (
    TableColumn("partition"), TableColumn("outcome"), TableColumn("batch", numbers=True),
    TableColumn("began (UTC)", numbers=True), TableColumn("took", numbers=True),
    TableColumn("between steps", numbers=True),
    TableColumn("size copied", numbers=True), TableColumn("median rate", numbers=True),
    TableColumn("stalls", numbers=True), TableColumn("stalled for", numbers=True),
    TableColumn("steps", numbers=True), TableColumn("from"), TableColumn("to"), TableColumn("run"),
)  # fmt: skip


def moves_rows(facts: ReportFacts) -> Sequence[Sequence[TableCell]]:
    """Return the rows of the moves that took longest, the longest first."""
    end = facts.span[1]
    longest = sorted(facts.moves, key=lambda move: (-took(move, end), move.began, move.key))
    return [_row(move, end) for move in longest[:MOST]]


def _row(move: MoveRecord, end: int) -> Sequence[TableCell]:
    lasted = took(move, end)
    return (
        TableCell(partition_name(move), partition_name(move)),
        TableCell(outcome(move), outcome(move)),
        _number(move.batch),
        TableCell(as_time(move.began), move.began),
        TableCell(as_duration(lasted / 1000), lasted),
        TableCell(as_duration(move.waited_ms / 1000), move.waited_ms),
        TableCell(as_bytes(move.bytes), move.bytes),
        TableCell(as_rate(move.rate_bytes_p50), move.rate_bytes_p50),
        *_stood_still(move),
        _number(move.steps),
        TableCell(brokers(move.original), brokers(move.original)),
        TableCell(brokers(move.target), brokers(move.target)),
        TableCell(move.run or UNKNOWN, move.run),
    )


def _stood_still(move: MoveRecord) -> Sequence[TableCell]:
    if move.stalls is None or move.stalled_ms is None:
        return (TableCell(NOT_SEEN, None),) * 2
    return (
        _number(move.stalls),
        TableCell(as_duration(move.stalled_ms / 1000), move.stalled_ms),
    )


def _number(count: int | None) -> TableCell:
    return TableCell(UNKNOWN if count is None else f"{count:,}", count)


FIGURES = (
    events_figure, moves_figure, states_figure, concurrency_figure, rates_figure, brokers_figure,
    lag_figure, stalls_figure, sizes_figure, rate_spread_figure, eta_figure, what_if_figure,
)  # fmt: skip
MOST_SEGMENTS, MOST_LOST = 200, 50
_WHOLE = re.compile(r"(--[a-z][a-z-]*|\d{4}-\d\d-\d\d)")


def page(facts: ReportFacts, provenance: Provenance) -> str:
    """Render the page as HTML."""
    figures = [with_overlay(figure(facts), facts) for figure in FIGURES]
    library, script = plotly_library(), _text("page.js")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["unbroken"] = _unbroken
    template = environment.from_string(_text("page.html.jinja"))
    return template.render(
        summary=summary(facts),
        figures=figures,
        columns=COLUMNS,
        moves=moves_rows(facts),
        all_moves=len(facts.moves),
        provenance=provenance,
        made_at=as_time(int(provenance.made_at.timestamp() * 1000)),
        most_segments=MOST_SEGMENTS,
        most_lost=MOST_LOST,
        style=Markup(_text("page.css")),  # noqa: S704 - ours, no input
        script=Markup(script),  # noqa: S704 - ours, no input
        library=library.packed,
        policy=_policy((library.sha256, _sha256(script))),
        drawings=figures_json(figures),
        is_missing=lambda figure: isinstance(figure, Missing),
    )


def _unbroken(text: str) -> Markup:
    whole = _WHOLE.sub(r'<span class="whole">\1</span>', str(escape(text)))
    return Markup(whole)  # noqa: S704 - escaped above


class PlotlyLibrary(msgspec.Struct, frozen=True):
    """plotly.js as the page contains it: compressed, as plotly.js is most of the page."""

    packed: str  # the script, gzipped and then in Base64
    sha256: str  # SHA-256 of the script, as content security policies name it


@functools.cache
def plotly_library() -> PlotlyLibrary:
    """Compress plotly.js; the Python package has it in one size only."""
    script: str = get_plotlyjs()
    packed = gzip.compress(script.encode(), mtime=0)
    return PlotlyLibrary(base64.b64encode(packed).decode(), _sha256(script))


def _policy(hashes: Sequence[str]) -> str:
    """Forbid the network, and every script but ours, so that no script in a name can run."""
    scripts = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def figures_json(figures: Sequence[Figure | Missing]) -> Markup:
    """Return the figures as JSON that is safe within a script of the page."""
    drawn: dict[str, Any] = {
        figure.id: {
            "data": figure.traces,
            "layout": {**figure.layout, "height": figure.height},
            "alongTime": figure.along_time,
        }
        for figure in figures
        if isinstance(figure, Figure)
    }
    text = msgspec.json.encode(drawn).decode().replace("<", "\\u003c")
    return Markup(text)  # noqa: S704 - JSON without any "<": nothing in it ends the script


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
