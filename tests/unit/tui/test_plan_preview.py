"""The preview of a plan: bars before and after, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.broker import Broker
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, Option, Severity
from ktui.tui.draw.bars import change_bar
from ktui.tui.draw.cells import pieces_width
from ktui.tui.screens.plan.preview_lines import (
    EVERYTHING,
    PreviewSection,
    preview_lines,
    step_of,
    worst_of,
)
from support.cli.preflights import GB, Way, a_plan, a_snapshot, preflight

ALL: Way = ((1, 2, 3), (4, 2, 3))
ROOMY, TIGHT = (100 * GB, 50 * GB), (100 * GB, 3 * GB)
counts = st.integers(0, 10**12)


@given(counts, counts, counts, st.integers(0, 10**13), st.integers(3, 60))
def test_a_bar_fills_its_cells_and_leaves_nothing_out(
    stays: int, comes: int, goes: int, whole: int, cells: int
) -> None:
    drawn = "".join(piece.text for piece in change_bar(stays, comes, goes, whole, cells))

    assert len(drawn) == cells
    signs = (("█", stays), ("▓", comes), ("░", goes))
    assert all((sign in drawn) is (count > 0) for sign, count in signs)


def test_a_bar_shows_what_stays_comes_and_goes() -> None:
    drawn = "".join(piece.text for piece in change_bar(4, 2, 1, 10, 10))

    assert drawn == "████▓▓░···"


def drawn(width: int, *sections: PreviewSection, **more: Any) -> str:
    figures = preflight(a_plan(ALL), a_snapshot(ALL, **more), Limits(replicas=1))
    lines = preview_lines(figures, sections or EVERYTHING, width)
    assert max(map(pieces_width, lines)) <= width
    return "\n".join("".join(piece.text for piece in line) for line in lines)


def words(line: str) -> list[str]:
    return [each for each in line.split() if not set(each) <= set("█▓░·")]


@pytest.mark.parametrize("width", [64, 76, 140])
def test_each_broker_is_drawn_before_and_after(width: int) -> None:
    sizes, rooms = [2 * GB], {1: ROOMY, 4: ROOMY}
    lines = drawn(width, PreviewSection.BROKERS, sizes=sizes, rooms=rooms).splitlines()

    counted = [words(line) for line in lines if line[:1].isdigit()]
    assert counted[0][:8] == ["1", "1", "→", "0", "-1", "1", "→", "0"]
    disk = next(line for line in lines if line.startswith("4") and "GiB" in line)
    assert "+1.9 GiB" in disk
    assert "47 GiB → 45 GiB" in disk


def test_a_size_that_is_not_known_is_named() -> None:
    text = drawn(80, sizes=[None], rooms={4: ROOMY})

    assert "size not known" in text
    assert "time  unknown" in text


def test_a_disk_that_does_not_report_its_room_is_named() -> None:
    assert "room not known" in drawn(80, sizes=[2 * GB])


def test_too_little_room_has_a_sign() -> None:
    assert "954 MiB!" in drawn(80, sizes=[2 * GB], rooms={4: TIGHT})


def test_of_very_many_brokers_only_those_that_change_are_listed() -> None:
    text = drawn(80, PreviewSection.BROKERS, brokers={n: Broker(n) for n in range(1, 61)})

    assert "and 58 more that do not change" in text


def finding(
    kind: FindingKind, severity: Severity = Severity.WARNING, option: Option | None = None
) -> Finding:
    return Finding(severity, kind, (), "", option=option)


def test_each_finding_belongs_to_the_step_in_which_it_is_mended() -> None:
    factor = Option.REPLICATION_FACTOR_CHANGE
    unknown = finding(FindingKind.TOPIC_UNKNOWN, Severity.PROBLEM)
    allowed = finding(FindingKind.REPLICATION_FACTOR_CHANGE, Severity.PROBLEM, factor)
    slow, wide = finding(FindingKind.NEVER_ENDS), finding(FindingKind.NEVER_FITS)
    found = [unknown, allowed, slow, wide]

    assert [step_of(each) for each in found] == ["plan", "check", "throttle", "limits"]
    assert worst_of("plan", found) is Severity.PROBLEM
    assert worst_of("limits", found) is Severity.WARNING
    assert worst_of("start", found) is None
