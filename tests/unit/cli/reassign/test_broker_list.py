"""The value of --broker-list."""

from __future__ import annotations

import pytest

from ktui.cli.reassign.files import parse_broker_list
from ktui.cli.reassign.printed import ReassignProblem


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("5,2,3,4", (5, 2, 3, 4)),
        ("1", (1,)),
        ("1,", (1,)),
        ("1,2,,", (1, 2)),
        (",", ()),
        ("+1,-2", (1, -2)),
        ("007,00000000000008", (7, 8)),
        ("2147483647,-2147483648", (2**31 - 1, -(2**31))),
    ],
)
def test_brokers_are_parsed_in_their_order(text: str, brokers: tuple[int, ...]) -> None:
    assert parse_broker_list(text) == brokers


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("1, 2", " 2"),
        (",1", ""),
        ("1,,2", ""),
        ("one", "one"),
        ("1.0", "1.0"),
        ("1_0", "1_0"),
        ("2147483648", "2147483648"),
        ("1,\x1b[2J", "\\x1b[2J"),
    ],
)
def test_anything_but_a_32_bit_integer_is_refused(text: str, shown: str) -> None:
    with pytest.raises(ReassignProblem) as problem:
        parse_broker_list(text)
    assert str(problem.value) == f'For input string: "{shown}"'


def test_each_repeated_broker_is_named_once() -> None:
    with pytest.raises(ReassignProblem) as problem:
        parse_broker_list("5,2,3,5,4,2,5")
    assert str(problem.value) == "Broker list contains duplicate entries: [2, 5]"
