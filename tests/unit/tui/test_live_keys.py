"""The footer's keys: those that help stand first, and are the last to be left out."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode

from ktui.tui.widgets.bindings import LiveKey, fit_keys, line_width

_NODE = DOMNode()


def _key(action: str, role: str = "") -> LiveKey:
    binding = Binding(action[0], action, action)
    return LiveKey(action[0], action, ActiveBinding(_NODE, binding, enabled=True), role)


_KEYS = [
    _key("resume", "stalled"), _key("call_off", "stalled"),
    _key("filter"), _key("sort"), _key("show_help"), _key("quit_view"),
]  # fmt: skip


def _shown(room: int) -> list[str]:
    keys = fit_keys(_KEYS, room, ("sort", "filter"), kept=("show_help", "quit_view"))
    return [key.action for key in keys]


def test_all_keys_are_shown_where_there_is_room() -> None:
    assert _shown(200) == [key.action for key in _KEYS]


def test_those_to_be_left_out_first_go_first_then_help_and_quit_and_at_last_what_helps() -> None:
    shown = [_shown(room) for room in range(line_width(_KEYS), 0, -1)]
    in_turn = sorted({tuple(each) for each in shown}, key=len, reverse=True)
    assert [[*set(a) - set(b)] for a, b in pairwise(in_turn)] == [
        ["sort"], ["filter"], ["quit_view"], ["show_help"], ["call_off"],
    ]  # fmt: skip
    assert in_turn[-1] == ("resume",)


@given(st.integers(1, 120), st.lists(st.booleans(), min_size=1, max_size=8))
def test_what_fits_is_no_wider_than_the_line_unless_one_key_alone_is(
    room: int, helping: list[bool]
) -> None:
    keys = [_key(f"a{i}", "stalled" if helps else "") for i, helps in enumerate(helping)]
    keys.sort(key=lambda key: not key.role)
    fitting = fit_keys(keys, room, ())
    assert line_width(fitting) <= room or len(fitting) == 1 or not any(helping)
