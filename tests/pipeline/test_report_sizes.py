"""Figures of how long moves took by their size, and of how the rates of copies are spread."""

from __future__ import annotations

import msgspec
import pytest

from ktui.pipeline.lake.records import BETWEEN, Interval, MoveRecord, ReportFacts
from ktui.pipeline.report.figures.figure import Figure, Missing
from ktui.pipeline.report.figures.lanes import moves_figure
from ktui.pipeline.report.figures.sizes import (
    class_text,
    rate_spread_figure,
    size_class,
    sizes_figure,
)
from ktui.pipeline.report.load import with_waits
from ktui.pipeline.report.page import moves_rows
from support.pipeline.report_facts import BEGAN, drawn

KB, MB = 1_000, 1_000_000
MIB = 1024**2


def _move(
    partition: int, size: int | None, seconds: float | None = 10.0, outcome: str = "done", **of: int
) -> MoveRecord:
    move = MoveRecord(
        topic="orders", partition=partition, began=BEGAN, outcome=outcome, steps=1, bytes=size,
        ended=None if seconds is None else BEGAN + int(seconds * 1000),
    )  # fmt: skip
    return msgspec.structs.replace(move, **of)


def _facts(*moves: MoveRecord) -> ReportFacts:
    return ReportFacts(cluster_id="one", runs=(), of_run=False, moves=moves)


def _sizes(*moves: MoveRecord) -> Figure:
    return drawn(sizes_figure(_facts(*moves)))


def _spread(*moves: tuple[int, float | None]) -> Figure:
    found = (
        msgspec.structs.replace(_move(n, size), rate_bytes_p50=rate)
        for n, (size, rate) in enumerate(moves)
    )
    return drawn(rate_spread_figure(_facts(*found)))


def test_a_move_is_a_point_at_what_it_copied_and_how_long_it_took() -> None:
    points, _ = _sizes(_move(0, 8 * MB, 4), _move(1, 2 * MB, 2.5)).traces

    assert (points["x"], points["y"]) == ([2 * MB, 8 * MB], [2.5, 4.0])
    assert points["customdata"] == [
        "orders-1: 1.9 MiB in 2 s, done", "orders-0: 7.6 MiB in 4 s, done",
    ]  # fmt: skip


def test_each_outcome_has_its_own_symbol_and_colour_and_the_most_frequent_one_comes_first() -> None:
    found = _sizes(
        _move(0, MB, outcome="cancelled"), _move(1, MB), _move(2, MB),
        _move(3, MB, outcome="changed_elsewhere"),
    )  # fmt: skip

    of = found.traces[:-1]
    assert [trace["name"] for trace in of] == ["done", "cancelled", "changed elsewhere"]
    assert [len(trace["x"]) for trace in of] == [2, 1, 1]
    assert len({trace["marker"]["symbol"] for trace in of}) == 3
    assert len({trace["marker"]["color"] for trace in of}) == 3


def test_the_line_is_the_median_pace_and_the_words_name_the_slowest_for_its_size() -> None:
    found = _sizes(_move(0, 100 * MB), _move(1, 40 * MB), _move(2, 30 * MB, 30))

    line = found.traces[-1]
    assert line["name"] == "median, 4.0 MB/s"
    for size, took in zip(line["x"], line["y"], strict=True):
        assert took == pytest.approx(size / (4 * MB))
    assert found.says == (
        "The median pace of 3 moves was 4.0 MB/s, stalls included. The slowest for its size was"
        " orders-2: 29 MiB in 30 s."
    )


def test_a_move_that_goes_on_counts_up_to_the_end_of_the_report() -> None:
    points, _ = _sizes(_move(0, MB, None), _move(1, 2 * MB, 60)).traces

    assert points["y"] == [60.0, 60.0]


def test_sizes_that_differ_tenfold_are_on_a_logarithmic_axis() -> None:
    near, far = _sizes(_move(0, 2 * MIB), _move(1, 8 * MIB)), _sizes(_move(0, 1), _move(1, 10))

    assert (near.layout["xaxis"]["type"], near.traces[-1]["x"][0]) == ("linear", 0)
    assert (far.layout["xaxis"]["type"], far.traces[-1]["x"][0]) == ("log", 1)
    assert near.layout["xaxis"]["ticktext"][:3] == ["0 B", "4 MiB", "8 MiB"]


def test_a_move_of_unknown_size_is_counted_beside_the_figure_and_never_drawn_at_zero() -> None:
    found = _sizes(_move(0, None), _move(1, 0), _move(2, MB))

    assert found.caption.endswith(" Of 2 moves the size is not known.")
    assert found.traces[0]["x"] == [MB]
    assert isinstance(sizes_figure(_facts(_move(0, None))), Missing)


def test_of_thousands_of_moves_some_are_drawn_and_all_are_in_the_table() -> None:
    found = _sizes(*(_move(n, MB + n, outcome="done" if n % 2 else "failed") for n in range(2_500)))

    drawn_points = sum(len(trace["x"]) for trace in found.traces[:-1])
    assert f" {drawn_points:,} of 2,500 are drawn." in found.caption
    assert 500 < drawn_points <= 1_001
    assert [row[:2] for row in found.table.rows] == [("done", "1,250"), ("failed", "1,250")]


def test_the_table_of_sizes_has_medians_by_outcome() -> None:
    found = _sizes(_move(0, MIB, 10), _move(1, 3 * MIB, 20), _move(2, 8 * MIB, 60))

    assert found.table.rows == (("done", "3", "3.0 MiB", "20 s", "1m"),)


@pytest.mark.parametrize(
    ("size", "name"),
    [
        (1, "under 1 MiB"),
        (MIB - 1, "under 1 MiB"),
        (MIB, "1 MiB to 16 MiB"),
        (16 * MIB - 1, "1 MiB to 16 MiB"),
        (16 * MIB, "16 MiB to 256 MiB"),
        (4096 * MIB, "4 GiB to 64 GiB"),
    ],
)
def test_sizes_are_in_classes_whose_ends_are_sixteen_times_apart(size: int, name: str) -> None:
    assert class_text(size_class(size)) == name


def test_each_class_of_sizes_has_a_line_from_none_to_all_of_its_moves() -> None:
    found = _spread((MIB, 4 * MB), (2 * MIB, MB), (3 * MIB, 2 * MB), (64 * MIB, 8 * MB), (5, None))

    small, large = found.traces
    assert small["name"] == "1 MiB to 16 MiB (3)"
    assert small["x"] == [MB, MB, 2 * MB, 4 * MB]
    assert small["y"] == pytest.approx([0, 1 / 3, 2 / 3, 1], abs=1e-4)
    assert (large["name"], large["y"]) == ("16 MiB to 256 MiB (1)", [0.0, 1.0])
    assert small["line"]["shape"] == "hv"
    assert (small["line"]["color"], small["line"]["dash"]) != (
        large["line"]["color"], large["line"]["dash"],
    )  # fmt: skip


def test_the_words_and_the_table_have_the_slowest_tenth_the_median_and_the_fastest_tenth() -> None:
    found = _spread(*((MIB, n * MB) for n in range(1, 21)))

    assert found.says == (
        "Half of 20 moves copied a replica at 10 MB/s or less; the slowest tenth at 2.0 MB/s or"
        " less, the fastest at more than 18 MB/s."
    )
    assert found.table.rows == (("1 MiB to 16 MiB", "20", "2.0 MB/s", "10 MB/s", "18 MB/s"),)


def test_a_line_of_very_many_rates_is_thinned_out_and_still_ends_at_all_of_them() -> None:
    (line,) = _spread(*((MIB, KB + n) for n in range(5_000))).traces

    assert len(line["x"]) < 500
    assert (line["x"][-1], line["y"][-1]) == (KB + 4_999, 1.0)


def test_the_rates_of_moves_that_copied_nothing_are_no_figure() -> None:
    assert isinstance(rate_spread_figure(_facts(_move(0, MB))), Missing)


_HELD_BACK = 20 * 60_000


def test_the_slowest_and_the_longest_are_figured_without_the_wait_for_the_cut() -> None:
    """Partition 0 copies for 10 s, then waits 20 minutes for its cut; 1 copies for a minute."""
    held_back = _move(0, 100 * MB, 10.0 + _HELD_BACK / 1000, waited_ms=_HELD_BACK)
    facts = _facts(held_back, _move(1, 100 * MB, 60.0))

    sizes, lanes = drawn(sizes_figure(facts)), drawn(moves_figure(facts))

    assert sizes.says.endswith("The slowest for its size was orders-1: 95 MiB in 1m.")
    assert sizes.table.rows[0][-1] == "1m"
    assert lanes.says == "2 partitions. The longest move was that of orders-1: 1m."
    first, second = moves_rows(facts)
    assert [cell.shown for cell in first[:1]] == ["orders-1"]
    assert [cell.shown for cell in second[4:6]] == ["10 s", "20m"]


def test_a_move_waits_while_its_run_holds_it_between_steps() -> None:
    move = _move(0, 100 * MB, 100.0)
    states = [("queued", -50, 0), ("catching up", 0, 10), (BETWEEN, 10, 70), ("in sync", 70, 80)]
    later = [(BETWEEN, 80, 130), (BETWEEN, 500, 600)]  # over its end, and of another move
    intervals = [
        Interval(
            topic="orders", partition=partition, state=state, began=BEGAN + 1000 * began,
            ended=BEGAN + 1000 * ended,
        )
        for partition, spans in ((0, [*states, *later]), (1, [(BETWEEN, 0, 100)]))
        for state, began, ended in spans
    ]  # fmt: skip

    (found,) = with_waits([move], intervals)

    assert found.waited_ms == 60_000 + 20_000
