from __future__ import annotations

from textual.content import Content

from ktui.tui.widgets.lines import facts

PAIRS = [
    ("leader", Content("1, epoch 12")),
    ("topic id", Content("dPqkT3xvRHqXw8mXb0yZ9A")),
    ("ISR", Content("1 2 3")),
]


def rows(width: int) -> list[str]:
    return [line.plain.rstrip() for line in facts(PAIRS, width)]


def test_facts_are_side_by_side_in_a_wide_terminal() -> None:
    assert rows(100) == [
        "leader  1, epoch 12   topic id  dPqkT3xvRHqXw8mXb0yZ9A   ISR  1 2 3",
    ]


def test_facts_are_in_fewer_aligned_columns_in_a_narrower_terminal() -> None:
    assert rows(60) == [
        "leader  1, epoch 12   topic id  dPqkT3xvRHqXw8mXb0yZ9A",
        "ISR     1 2 3",
    ]


def test_facts_have_a_line_each_in_a_narrow_terminal() -> None:
    assert rows(20) == [
        "leader    1, epoch 12",
        "topic id  dPqkT3xvRHqXw8mXb0yZ9A",
        "ISR       1 2 3",
    ]


def test_the_value_of_a_fact_is_never_parsed_as_markup() -> None:
    (line,) = facts([("rack", Content("[red]a[/red]"))], 40)
    assert "[red]a[/red]" in line.plain
