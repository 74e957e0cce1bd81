from __future__ import annotations

from textual.content import Content

from ktui.tui.widgets.facts import facts

PAIRS = [
    ("leader", Content("1, epoch 12")),
    ("topic id", Content("dPqkT3xvRHqXw8mXb0yZ9A")),
    ("ISR", Content("1 2 3")),
]


def rows(width: int) -> list[str]:
    return [line.plain.rstrip() for line in facts(PAIRS, width)]


def test_with_room_facts_stand_side_by_side() -> None:
    assert rows(100) == [
        "leader  1, epoch 12   topic id  dPqkT3xvRHqXw8mXb0yZ9A   ISR  1 2 3",
    ]


def test_with_less_room_they_stand_in_fewer_columns_that_line_up() -> None:
    assert rows(60) == [
        "leader  1, epoch 12   topic id  dPqkT3xvRHqXw8mXb0yZ9A",
        "ISR     1 2 3",
    ]


def test_with_hardly_any_room_each_has_a_line() -> None:
    assert rows(20) == [
        "leader    1, epoch 12",
        "topic id  dPqkT3xvRHqXw8mXb0yZ9A",
        "ISR       1 2 3",
    ]


def test_a_value_is_never_read_as_markup() -> None:
    (line,) = facts([("rack", Content("[red]a[/red]"))], 40)
    assert "[red]a[/red]" in line.plain
