"""Terminal screens as one animated SVG; rows that stay the same are drawn once."""  # noqa: INP001 - a script, not a package

from __future__ import annotations

import re
from html import escape
from typing import Any, NamedTuple

from rich.style import Style
from textual.app import App

CELL_W, CELL_H, FONT = 8.4, 16.3, 14
_BASELINE = 13.0
_MARGIN = 10.0
_WORDS = re.compile(r"[!-~]+(?: [!-~]+)*|[^ -~]+")
"""Text that is drawn at its own column: other fonts may have signs of another width."""


class Look(NamedTuple):
    """The style of a piece of text. Colours as #rrggbb."""

    colour: str
    ground: str
    bold: bool
    underline: bool


class Piece(NamedTuple):
    """Text of one style, and the column at which the text begins."""

    column: int
    text: str
    look: Look


Row = tuple[Piece, ...]
Frame = tuple[Row, ...]


def frame_of(app: App[Any]) -> Frame:
    """Capture the screen that an app shows now."""
    return tuple(_row(strip) for strip in app.screen._compositor.render_strips())  # noqa: SLF001 - as tests read the screen


def _row(strip: Any) -> Row:
    pieces: list[Piece] = []
    column = 0
    for segment in strip:
        look = _look(segment.style or Style.null())
        if pieces and pieces[-1].look == look:
            pieces[-1] = pieces[-1]._replace(text=pieces[-1].text + segment.text)
        else:
            pieces.append(Piece(column, segment.text, look))
        column += len(segment.text)
    return tuple(pieces)


def _look(style: Style) -> Look:
    colour = style.color.get_truecolor().hex if style.color else "#ffffff"
    ground = style.bgcolor.get_truecolor().hex if style.bgcolor else "#000000"
    if style.reverse:
        colour, ground = ground, colour
    return Look(colour, ground, bool(style.bold), bool(style.underline))


def sequence_svg(frames: list[Frame], size: tuple[int, int], *, frame_s: float) -> str:
    """Draw the frames as an endless animation, each shown for `frame_s` seconds."""
    columns, rows = size
    width, height = columns * CELL_W + 2 * _MARGIN, rows * CELL_H + 2 * _MARGIN
    ground = frames[0][0][0].look.ground
    looks: dict[Look, str] = {}
    drawn: list[str] = []
    spans: set[tuple[int, int]] = set()
    for number in range(rows):
        for first, last, row in _spans([frame[number] for frame in frames]):
            shown = "" if (first, last) == (0, len(frames)) else f' class="v{first}-{last}"'
            if shown:
                spans.add((first, last))
            place = f'transform="translate(0 {number * CELL_H + _BASELINE:.1f})"'
            drawn.append(f"<g{shown} {place}>{_draw(row, ground, looks)}</g>")
    style = [_timing(first, last, len(frames), frame_s) for first, last in sorted(spans)]
    style += [_text_rule(name, look) for look, name in looks.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'xml:space="preserve">'
        f"<style>text{{font:{FONT}px Fira Code,Menlo,Consolas,DejaVu Sans Mono,monospace;"
        f"white-space:pre}}{''.join(style)}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{ground}"/>'
        f'<g transform="translate({_MARGIN:g} {_MARGIN:g})">{"".join(drawn)}</g></svg>\n'
    )


def _spans(rows: list[Row]) -> list[tuple[int, int, Row]]:
    """Return each run of equal rows: its first frame, the frame after its last, and the row."""
    found: list[tuple[int, int, Row]] = []
    for number, row in enumerate(rows):
        if found and found[-1][2] == row:
            found[-1] = (found[-1][0], number + 1, row)
        else:
            found.append((number, number + 1, row))
    return found


def _timing(first: int, last: int, count: int, frame_s: float) -> str:
    """Return the CSS that shows a class from the frame `first` until just before `last`."""
    begin, end = 100 * first / count, 100 * last / count
    off, on = "visibility:hidden", "visibility:visible"
    before = f"0%{{{off}}}" if first else ""
    after = f"{end:.2f}%{{{off}}}" if last < count else ""
    name, still = f"v{first}-{last}", f"{off};" if first else ""  # without animation: frame 0
    return (
        f"@keyframes {name}{{{before}{begin:.2f}%{{{on}}}{after}}}"
        f".{name}{{{still}animation:{name} {count * frame_s:g}s step-end infinite}}"
    )


def _text_rule(name: str, look: Look) -> str:
    bold = ";font-weight:bold" if look.bold else ""
    underline = ";text-decoration:underline" if look.underline else ""
    return f".{name}{{fill:{look.colour}{bold}{underline}}}"


def _draw(row: Row, ground: str, looks: dict[Look, str]) -> str:
    out: list[str] = []
    for piece in row:
        x, width = piece.column * CELL_W, len(piece.text) * CELL_W
        if piece.look.ground != ground:
            out.append(
                f'<rect x="{x:.1f}" y="{-_BASELINE:g}" width="{width:.1f}" height="{CELL_H:g}" '
                f'fill="{piece.look.ground}"/>'
            )
        name = looks.setdefault(piece.look._replace(ground=""), f"c{len(looks)}")
        out += [
            f'<text class="{name}" x="{x + words.start() * CELL_W:.1f}" '
            f'textLength="{len(words[0]) * CELL_W:.1f}">'
            f"{escape(words[0], quote=False)}</text>"
            for words in _WORDS.finditer(piece.text)
        ]
    return "".join(out)
