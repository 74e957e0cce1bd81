"""What a cancel would come to, partition by partition, as lines."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.content import Content

from ktui.execution.cancel_preview import Foreseen
from ktui.execution.cancel_scope import Act
from ktui.execution.run import Run
from ktui.tui import figures
from ktui.tui.cells import Piece, cut_pieces, partition_text
from ktui.tui.paint import content
from ktui.tui.runs.cancel_outlook import Told

_HEADINGS = ("partition", "state", "what is sent", "replicas after", "RF", "leader")
_NUMERIC = (4, 5)
_GAP = 2
_LEAST_NAME = 12


def cancel_table(told: Sequence[Told], run: Run, width: int) -> list[Content]:
    """Give a heading, a line a partition, and below it what keeps it from that, or is at risk."""
    rows = [_row(each, run) for each in told]
    cells = [_HEADINGS[1:], *([piece.text for piece in row] for row in rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    names = [str(each.foreseen.tp) for each in told]
    room = width - sum(widths) - _GAP * len(widths)
    name_width = max(_LEAST_NAME, min(max(map(cell_len, (_HEADINGS[0], *names))), room))
    heading = [Piece(word, "header") for word in _HEADINGS[1:]]
    name = Piece(f"{_HEADINGS[0]:<{name_width}}", "header")
    lines = [_line(name, heading, widths, width)]
    for each, row in zip(told, rows, strict=True):
        name = Piece(partition_text(each.foreseen.tp, name_width))
        lines += [_line(name, row, widths, width), *_notes(each.foreseen, width)]
    return lines


def _line(name: Piece, row: Sequence[Piece], widths: Sequence[int], width: int) -> Content:
    pieces = [name]
    for place, (piece, room) in enumerate(zip(row, widths, strict=True), 1):
        spare = " " * (room - cell_len(piece.text))
        before, after = (spare, "") if place in _NUMERIC else ("", spare)
        pieces += [Piece(" " * _GAP + before), piece, Piece(after)]
    return content(cut_pieces(pieces, width))


def _row(each: Told, run: Run) -> list[Piece]:
    told, track = each.foreseen, run.tracks[each.foreseen.tp]
    state = Piece(track.state.words, "dim")
    if told.act not in (Act.DEQUEUE, Act.NOTHING) and not each.looked_at:
        return [state, Piece("being looked at …", "waiting"), Piece(""), Piece(""), Piece("")]
    leader = Piece("none", "stalled") if told.leader is None else Piece(f"{told.leader}")
    if not each.looked_at:
        leader = Piece(figures.UNKNOWN, "dim")
    beyond = "falling-behind" if told.extra else ""
    return [
        state,
        Piece(sent(told), "dim" if told.act.idle else ""),
        Piece(" ".join(map(str, told.replicas))),
        Piece(f"{len(told.replicas)}{'!' if told.extra else ''}", beyond, bold=bool(told.extra)),
        leader,
    ]


def sent(told: Foreseen) -> str:
    """Say what is sent for a partition."""
    if told.act is Act.NOTHING:
        return "nothing: over"
    if told.act is Act.ALREADY:
        return "nothing new"
    steps = figures.as_count(len(told.steps), "step") if told.steps else ""
    words = ", ".join(filter(None, ("cancel" if told.cancels else "", steps)))
    return words or ("nothing for now" if told.refused else "nothing")


def _notes(told: Foreseen, width: int) -> list[Content]:
    """Say why nothing is done for now, what it puts at risk, and what it leaves behind."""
    notes = []
    if told.refused is not None:
        notes.append((f"! not now: {told.refused}. {told.way_out}", "$falling-behind"))
    if told.danger is not None:
        notes.append((f"! {told.danger}", "bold $stalled"))
    if told.extra:
        words = f"! {len(told.replicas)} replicas, the plan has {told.planned}"
        notes.append((f"{words}: trim drops {told.extra} of them", "$falling-behind"))
    return [
        line.pad_left(2) if number else Content.assemble("  ", line)
        for words, style in notes
        for number, line in enumerate(Content.styled(words, style).wrap(width - 4))
    ]
