"""What brokers have before a plan and after it, drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.planning.intents.layout import BeforeAfter, BrokerBeforeAfter, Holding
from ktui.tui.draw.cells import pieces_width
from ktui.tui.screens.plan.preview_lines import change_lines

GIB = 1024**3
holdings = st.builds(
    Holding,
    bytes=st.integers(0, 10**15),
    replicas=st.integers(0, 99_999),
    leaders=st.integers(0, 9_999),
)


def change(*brokers: tuple[Holding, Holding], sizes_unknown: int = 0) -> BeforeAfter:
    return BeforeAfter(
        replicas=0,
        bytes=0,
        leaders=0,
        sizes_unknown=sizes_unknown,
        brokers=tuple(
            BrokerBeforeAfter(broker=broker, rack=None, before=before, after=after)
            for broker, (before, after) in enumerate(brokers, 1)
        ),
        racks=(),
    )


def drawn(of: BeforeAfter, width: int = 76, rows: int = 10) -> list[str]:
    return ["".join(piece.text for piece in line) for line in change_lines(of, width, rows)]


def has(gib: int) -> Holding:
    return Holding(bytes=gib * GIB, replicas=gib, leaders=1)


def test_a_broker_that_does_not_change_has_its_figures_once() -> None:
    lines = drawn(change((has(20), has(15)), (has(10), has(10))))

    assert [part for part in lines[1].split() if not set(part) <= set("█▓░·")] == (
        ["1", "20", "GiB", "→", "15", "GiB", "20", "→", "15", "1"]
    )
    assert lines[2].split()[2:] == ["10", "GiB", "10", "1"]
    assert lines[3].split() == ["██", "stays", "▓▓", "comes", "░░", "goes"]


def test_of_many_brokers_those_that_change_most_are_shown_and_the_others_are_counted() -> None:
    same = (has(5), has(5))
    lines = drawn(change(same, (has(5), has(6)), same, (has(9), has(1)), (has(1), has(8))), rows=2)

    assert [line.split()[0] for line in lines[1:3]] == ["4", "5"]
    assert lines[3] == "and 1 more that changes less and 2 more that do not change"


def test_a_size_that_is_not_known_is_said_to_be_assumed() -> None:
    lines = drawn(change((has(5), has(6)), sizes_unknown=2))

    assert lines[2] == "the sizes of 2 partitions are not known: each counts as 1.0 GiB"


@pytest.mark.parametrize("width", [64, 76])
@given(st.lists(st.tuples(holdings, holdings), max_size=12))
def test_nothing_is_wider_than_the_screen_and_no_broker_is_forgotten(
    width: int, brokers: list[tuple[Holding, Holding]]
) -> None:
    lines = list(change_lines(change(*brokers), width, 5))

    assert max(map(pieces_width, lines), default=0) <= width
    assert sum("".join(piece.text for piece in line)[:1].isdigit() for line in lines) == (
        min(5, len(brokers)) if len(brokers) > 5 else len(brokers)
    )
