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

from ktui.pipeline.lake.records import ReportFacts
from ktui.pipeline.report.data.provenance import Provenance
from ktui.pipeline.report.figures.brokers import brokers_figure
from ktui.pipeline.report.figures.concurrency import concurrency_figure
from ktui.pipeline.report.figures.eta import eta_figure
from ktui.pipeline.report.figures.events import events_figure
from ktui.pipeline.report.figures.figure import Figure, Missing
from ktui.pipeline.report.figures.lag import lag_figure
from ktui.pipeline.report.figures.moves import moves_figure
from ktui.pipeline.report.figures.overlay import with_overlay
from ktui.pipeline.report.figures.rate_spread import rate_spread_figure
from ktui.pipeline.report.figures.rates import rates_figure
from ktui.pipeline.report.figures.sizes import sizes_figure
from ktui.pipeline.report.figures.stalls import stalls_figure
from ktui.pipeline.report.figures.states import states_figure
from ktui.pipeline.report.figures.text import as_time
from ktui.pipeline.report.figures.what_if import what_if_figure
from ktui.pipeline.report.page import moves_table
from ktui.pipeline.report.page.summary import summary

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
        columns=moves_table.COLUMNS,
        moves=moves_table.moves_rows(facts),
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
