"""The page: text, figures and tables as one HTML file that makes no network request."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import jinja2
import msgspec
from markupsafe import Markup, escape
from plotly.offline import get_plotlyjs

from ktui.pipeline.lake.records import MoveRecord, ReportFacts
from ktui.pipeline.report.data.subject import Provenance
from ktui.pipeline.report.figures.figure import Figure, Missing, as_time, brokers, partition_name
from ktui.pipeline.report.figures.forecasts import eta_figure, what_if_figure
from ktui.pipeline.report.figures.lanes import length, moves_figure, outcome, stalls_figure
from ktui.pipeline.report.figures.overlay import events_figure, with_overlay
from ktui.pipeline.report.figures.rates import brokers_figure, rates_figure
from ktui.pipeline.report.figures.sizes import lag_figure, rate_spread_figure, sizes_figure
from ktui.pipeline.report.figures.states import concurrency_figure, states_figure
from ktui.pipeline.report.page.summary import summary
from ktui.quantities import UNKNOWN, as_bytes, as_duration, as_rate

MOST = 500


class TableCell(msgspec.Struct, frozen=True):
    """The text of a cell and its sort key; None is sorted last."""

    shown: str
    key: str | float | None


class TableColumn(msgspec.Struct, frozen=True):
    """A column's name, and whether it holds figures."""

    name: str
    numbers: bool = False


COLUMNS = (
    TableColumn("partition"), TableColumn("outcome"), TableColumn("batch", numbers=True),
    TableColumn("began (UTC)", numbers=True), TableColumn("took", numbers=True),
    TableColumn("size copied", numbers=True), TableColumn("median rate", numbers=True),
    TableColumn("stalls", numbers=True), TableColumn("stalled for", numbers=True),
    TableColumn("steps", numbers=True), TableColumn("from"), TableColumn("to"), TableColumn("run"),
)  # fmt: skip


def moves_rows(facts: ReportFacts) -> Sequence[Sequence[TableCell]]:
    """Return the rows of the moves that took longest, the longest first."""
    end = facts.span[1]
    longest = sorted(facts.moves, key=lambda move: (-length(move, end), move.began, move.key))
    return [_row(move, end) for move in longest[:MOST]]


def _row(move: MoveRecord, end: int) -> Sequence[TableCell]:
    took = length(move, end)
    return (
        TableCell(partition_name(move), partition_name(move)),
        TableCell(outcome(move), outcome(move)),
        _number(move.batch),
        TableCell(as_time(move.began), move.began),
        TableCell(as_duration(took / 1000), took),
        TableCell(as_bytes(move.bytes), move.bytes),
        TableCell(as_rate(move.rate_bytes_p50), move.rate_bytes_p50),
        _number(move.stalls),
        TableCell(as_duration(move.stalled_ms / 1000), move.stalled_ms),
        _number(move.steps),
        TableCell(brokers(move.original), brokers(move.original)),
        TableCell(brokers(move.target), brokers(move.target)),
        TableCell(move.run or UNKNOWN, move.run),
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
    """Escape a text, and keep lines from breaking within an option such as --by, or a date."""
    whole = _WHOLE.sub(r'<span class="whole">\1</span>', str(escape(text)))
    return Markup(whole)  # noqa: S704 - escaped above


class PlotlyLibrary(msgspec.Struct, frozen=True):
    """plotly.js as the page contains it: compressed, as plotly.js is most of the page."""

    packed: str
    """The script, gzipped and then in Base64."""
    sha256: str
    """The SHA-256 of the script itself in Base64, as content security policies name it."""


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
