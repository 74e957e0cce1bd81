"""Quantities are parsed as people write them; a wrong one is refused with an example."""

from __future__ import annotations

import re

import pytest

from ktui.units import Rate, Seconds, Share, Size, parse_quantity


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        (Size, 0, 0),
        (Size, 1_024, 1_024),
        (Size, "50MB", 50_000_000),
        (Size, "50 MB", 50_000_000),
        (Size, "50MiB", 52_428_800),
        (Size, "1.5GiB", 1_610_612_736),
        (Size, "8kB", 8_000),
        (Rate, "30MB/s", 30e6),
        (Rate, "30MB", 30e6),
        (Rate, 2_500, 2_500),
        (Seconds, 90, 90),
        (Seconds, "90s", 90),
        (Seconds, "5m", 300),
        (Seconds, "1h30m", 5_400),
        (Seconds, "1h 30m", 5_400),
        (Seconds, "250ms", 0.25),
        (Share, "30%", 0.3),
        (Share, 0.3, 0.3),
        (Share, 1, 1),
    ],
)
def test_a_quantity_is_parsed_with_its_unit(kind: type, written: object, expected: float) -> None:
    found = parse_quantity(kind, written)

    assert type(found) is kind
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "written", "words"),
    [
        (Size, "50Mb", "unknown unit 'Mb'; expected a size such as 50MB, 4GiB"),
        (Size, "lots", "expected a size such as 50MB"),
        (Size, "-5MB", "expected a size such as 50MB"),
        (Size, -5, "not less than 0"),
        (Size, float("inf"), "not less than 0"),
        (Size, float("nan"), "not less than 0"),
        (Size, "999999999999999PB", "too large"),
        (Size, True, "expected a size"),
        (Size, None, "expected a size"),
        (Rate, "30MB/h", "expected a rate such as 50MB/s"),
        (Seconds, "5 minutes", "expected a time such as 90s, 5m, 1h30m"),
        (Seconds, -1, "not less than 0"),
        (Share, "130%", "at most 100 %"),
        (Share, 30, "at most 100 %"),
    ],
)
def test_a_malformed_quantity_is_refused_with_what_was_expected(
    kind: type, written: object, words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_quantity(kind, written)
