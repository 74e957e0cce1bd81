from __future__ import annotations

from datetime import timedelta

import pytest

from ktui.progress.timeline import Cause, Lane, Phase, Role, Stall, StallKind
from ktui.tui.figures import as_time
from ktui.tui.widgets.columns import Extents, layout
from ktui.tui.widgets.moment import Moment
from ktui.tui.widgets.row import row_pieces
from ktui.tui.widgets.rowfilter import RowFilter
from support.moving_clusters import tp
from support.screens import BEGAN, BEGAN_S, timeline


def test_a_replica_that_waits_for_its_turn_leaves_its_partition_moving() -> None:
    seen = timeline(tp("a-0"), phase=Phase.MOVING, lanes={4: _waiting_lane()})
    words = row_pieces(seen, layout(200, Extents()), Moment(BEGAN_S + 60))
    text = "".join(piece.text for piece in words)
    assert "moving 12%" in text
    assert ("waits for its turn", "waiting") in [
        (piece.text.strip(), piece.role) for piece in words
    ]
    assert not RowFilter("state:behind").matches(seen, Moment(0.0))


def _waiting_lane() -> Lane:
    stall = Stall(StallKind.WAITING, Cause.THROTTLED, BEGAN_S, 4, "waits for its turn")
    return Lane(4, Role.ADDING, share=0.125, rate_bytes_s=0.0, stall=stall)


@pytest.mark.parametrize("width", range(100, 150))
def test_no_figure_is_cut_where_a_reason_has_too_little_room(width: int) -> None:
    whole = "0.3 MB/s throttle, 1.7 MB/s in"
    stall = Stall(StallKind.FALLING_BEHIND, Cause.THROTTLED, BEGAN_S, 4, whole)
    lanes = {4: Lane(4, Role.ADDING, share=0.125, stall=stall)}
    ended = BEGAN + timedelta(seconds=91)
    for seen, told in (
        (timeline(phase=Phase.MOVING, lanes=lanes), (whole, "0.3 MB/s throttle …", "0.3 MB/s …")),
        (
            timeline(phase=Phase.DONE, lanes={}, ended_at=ended),
            (f"at {as_time(ended)} after 1m 31s", f"at {as_time(ended)}", ""),
        ),
    ):
        words = row_pieces(seen, layout(width, Extents()), Moment(BEGAN_S + 60))
        text = "".join(piece.text for piece in words).rstrip()
        assert text.endswith(told)
        assert "after 1m" not in text or text.endswith("after 1m 31s")
