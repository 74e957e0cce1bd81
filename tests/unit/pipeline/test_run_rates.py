"""Rates, forecasts replayed, and the size of Spark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import click
import msgspec
import pytest
from bench.forecast.settling import Settled, Settling
from pyspark.sql import SparkSession

from ktui.cli.pipeline.run import read_derived_options
from ktui.execution.run.events import (
    AnyRunEvent,
    BudgetShared,
    Ended,
    JournalEntry,
    RateChosen,
    RateHeld,
    ScheduleChanged,
    Started,
    ThrottleChanged,
)
from ktui.execution.run.options import NO_SCHEDULE, RunOptions, Schedule
from ktui.execution.run.states import State
from ktui.inputfile import FileProblem
from ktui.pacing.limits import Limits
from ktui.pipeline.forecast.derived import DerivedOptions, WhatIfOptions
from ktui.pipeline.forecast.replay import (
    EVERY_MS,
    PARTITION,
    RUN,
    DecodedPoll,
    EtaReplay,
    Forecast,
    SessionStream,
)
from ktui.pipeline.lake.files import ListedFile
from ktui.pipeline.lake.manifest import NAME, DataFile, Manifest, SegmentRead, TablePart, encode
from ktui.pipeline.lake.sizing import (
    PARTITION_BYTES,
    SMALL_BYTES,
    SMALL_SETTINGS,
    runs_small,
    sized,
)
from ktui.pipeline.run.run import PipelineRequest, reads_little
from ktui.pipeline.tables.runs import RunFacts, RunStory
from ktui.planning.throttle_rates import NO_THROTTLE, BrokerRate, parse_throttle_rates
from ktui.recording.segments import RunLine
from support.pipeline.sampled import moment, ms, now, over, planned, started, step
from support.recordings.drained_recordings import MB as DRAINED_RECORDINGS_MB
from support.recordings.drained_recordings import drained

MB = 1_000_000
BY = moment(ms(600))
Happened = tuple[float, AnyRunEvent]


def begun(throttle: str = "none", schedule: Schedule = NO_SCHEDULE) -> Started:
    options = RunOptions(throttle=parse_throttle_rates(throttle), schedule=schedule)
    return msgspec.structs.replace(started(), options=options)


def facts_of(events: Sequence[Happened]) -> RunFacts:
    story = RunStory("drain")
    for seq, (at, event) in enumerate(events, start=1):
        story.take(JournalEntry(seq, moment(ms(at)), event), ms(at))
    return story.facts()


def held(mb_s: int, figure: float | None, windows: int, kept: int, reason: str = "") -> RateHeld:
    return RateHeld(rate=mb_s * MB, figure=figure, windows=windows, kept=kept, reason=reason)


def chosen(mb_s: int | None, *, late: bool = False) -> RateChosen:
    rate = None if mb_s is None else mb_s * MB
    return RateChosen(rate=rate, ends_at=BY + timedelta(seconds=60 if late else -60), late=late)


def test_the_rate_of_an_objective_is_listed_with_each_figure() -> None:
    facts = facts_of(
        [
            (0, begun("slo=p99<150ms")),
            (10, held(2, 40.0, 1, 1)),
            (20, held(1, None, 2, 1, "no answer")),
            (30, held(3, 90.0, 3, 2)),
        ]
    )

    assert [(row.bytes_s, row.figure, row.reason) for row in facts.rates] == [
        (MB, None, None), (2 * MB, 40.0, None), (MB, None, "no answer"), (3 * MB, 90.0, None),
    ]  # fmt: skip
    assert {row.chosen_by for row in facts.rates} == {"objective"}
    assert (facts.objective, facts.windows, facts.kept) == ("p99<150ms", 3, 2)
    assert facts.rate_changes == 3


def test_the_rate_in_force_is_chosen_by_the_lowest_of_all() -> None:
    facts = facts_of(
        [
            (0, begun("20MB,total=100MB,slo=p99<150ms", Schedule(by=BY))),
            (10, held(50, 40.0, 1, 1)),
            (20, chosen(10)),
            (30, held(5, 200.0, 2, 1)),
            (40, held(60, 40.0, 3, 2)),
            (50, BudgetShared(shares=(BrokerRate(4, 4 * MB), BrokerRate(5, 96 * MB)))),
        ]
    )

    assert [row.chosen_by for row in facts.rates] == [
        "objective", "operator", "by", "objective", "by", "budget",
    ]  # fmt: skip
    assert facts.rates[-1].brokers == (BrokerRate(4, 4 * MB), BrokerRate(5, 10 * MB))


def test_a_promise_that_was_lifted_chooses_no_rate_any_more() -> None:
    by = Schedule(by=BY)
    facts = facts_of(
        [
            (0, begun("none", by)),
            (10, chosen(10)),
            (20, ScheduleChanged(old=by, new=NO_SCHEDULE)),
            (30, ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("5MB"))),
        ]
    )

    assert [(row.bytes_s, row.chosen_by) for row in facts.rates] == [
        (None, None), (10 * MB, "by"), (None, None), (5 * MB, "operator"),
    ]  # fmt: skip
    assert facts.by_t is None


def test_windows_of_an_objective_that_was_changed_are_not_counted_for_the_new_one() -> None:
    old, new = parse_throttle_rates("slo=p99<150ms"), parse_throttle_rates("slo=p99<200ms")
    facts = facts_of(
        [(0, begun(old.typed)), (10, held(2, 40.0, 9, 9)), (20, ThrottleChanged(old=old, new=new))]
    )

    assert (facts.objective, facts.windows, facts.kept) == ("p99<200ms", None, None)


def test_the_rate_that_by_chose_comes_with_the_end_that_it_leads_to() -> None:
    facts = facts_of([(0, begun("none", Schedule(by=BY))), (10, chosen(None, late=True))])

    row = facts.rates[-1]
    assert (row.bytes_s, row.late, row.ends_at_t) == (None, True, ms(660))
    assert facts.by_t == ms(600)


def test_only_time_with_steps_in_flight_counts_for_a_rate() -> None:
    facts = facts_of(
        [
            (0, begun("20MB")),
            (1, planned("a", "b")),
            (5, step("a")),
            (15, chosen(10)),
            (18, over("a")),
            (18, now("a")),
            (40, step("b")),
            (42, over("b")),
            (42, now("b")),
            (43, Ended(counts={State.DONE: 2})),
        ]
    )

    assert [row.in_flight_ms for row in facts.rates] == [10_000, 3_000 + 2_000]


@pytest.mark.parametrize("missing", [1, 2])
def test_nothing_is_guessed_of_rates_before_the_first_recorded_event(missing: int) -> None:
    events: list[Happened] = [
        (0, begun("slo=p99<150ms")), (10, held(2, 40.0, 1, 1)), (20, chosen(1)),
    ]  # fmt: skip

    facts = facts_of(events[missing:])

    assert facts.rates == []
    assert (facts.objective, facts.rate_changes, facts.windows) == (None, None, None)


SIZES = [
    300 * DRAINED_RECORDINGS_MB,
    500 * DRAINED_RECORDINGS_MB,
    400 * DRAINED_RECORDINGS_MB,
    600 * DRAINED_RECORDINGS_MB,
    200 * DRAINED_RECORDINGS_MB,
    800 * DRAINED_RECORDINGS_MB,
]


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    folder = tmp_path_factory.mktemp("recorded")
    drained(folder, sizes=SIZES, limits=Limits(replicas=1, partitions=2))
    return [path.read_bytes() for path in sorted(folder.rglob("*.gz"))]


@pytest.fixture(scope="module")
def forecasts(segments: list[bytes]) -> list[Settled]:
    return settled(SessionStream("simulated").events(segments))


def settled(events: Iterable[DecodedPoll | RunLine]) -> list[Settled]:
    return list(Settling().settle(EtaReplay().replay(events)))


def of(scope: str, forecasts: list[Settled]) -> list[Forecast]:
    return [each.forecast for each in forecasts if each.forecast.scope == scope]


def test_a_run_is_forecast_from_its_first_seconds_to_its_end(forecasts: list[Settled]) -> None:
    run = of(RUN, forecasts)
    assert {each.run_id for each in run} == {"run@1"}
    shares = [each.share for each in run if each.share is not None]
    assert shares == sorted(shares)
    assert shares[0] < 0.1
    assert shares[-1] > 0.9
    assert sum(each.predicted is not None for each in run) > len(run) / 2


def test_each_run_and_partition_has_at_most_one_forecast_in_five_seconds(
    forecasts: list[Settled],
) -> None:
    places = [(e.scope, e.topic, e.partition, e.t // EVERY_MS) for e, _ in forecasts]
    assert len(places) == len(set(places))


def test_a_partition_is_forecast_until_it_is_in_sync(forecasts: list[Settled]) -> None:
    partitions = of(PARTITION, forecasts)
    assert {each.topic for each in partitions} == {f"t{n}" for n in range(len(SIZES))}
    assert {each.run_id for each in partitions} == {"run@1"}
    off = []
    for each, truth_s in forecasts:
        if each.scope == PARTITION:
            assert truth_s is not None
            assert truth_s >= 0
            if each.predicted is not None and (each.share or 0) > 0.5:
                off.append(abs(each.predicted.middle - truth_s))
    off.sort()
    assert off[len(off) // 2] < 3.0


def test_the_naive_forecasts_are_based_on_the_share_done(forecasts: list[Settled]) -> None:
    run = of(RUN, forecasts)
    began = run[0].t - 1_000
    for each in run[4:]:
        if each.share and each.linear_s is not None:
            passed = (each.t - began) / 1000
            assert each.linear_s == pytest.approx(passed * (1 / each.share - 1), rel=0.1, abs=2)
    first = [each.t - run[0].t for each in run if each.recent_s is not None]
    assert min(first) >= 10_000


def test_only_partitions_that_ended_have_forecasts(segments: list[bytes]) -> None:
    events = list(SessionStream("simulated").events(segments))
    half = events[: len(events) // 2]
    forecasts = settled(half)
    ended = {(each.topic, each.partition) for each in of(PARTITION, forecasts)}
    assert 0 < len(ended) < len(SIZES)


def test_segments_in_any_order_and_duplicated_give_the_same_forecasts(
    segments: list[bytes], forecasts: list[Settled]
) -> None:
    again = settled(SessionStream("simulated").events([*segments, *segments[::-1]]))
    assert again == forecasts


def test_an_event_of_a_newer_ktui_ends_the_forecasts_of_its_run(segments: list[bytes]) -> None:
    events = []
    for each in SessionStream("simulated").events(segments):
        strange = isinstance(each, RunLine) and each.entry == 3
        raw = msgspec.Raw(b'{"event": "of a newer ktui"}')
        events.append(msgspec.structs.replace(each, event=raw) if strange else each)
    forecasts = settled(events)
    assert not of(RUN, forecasts)
    assert of(PARTITION, forecasts)


def test_a_run_leaves_the_state_ten_minutes_after_its_end_and_comes_back_with_its_events(
    segments: list[bytes],
) -> None:
    events = list(SessionStream("simulated").events(segments))
    polls = [each for each in events if isinstance(each, DecodedPoll)]
    replay = EtaReplay()
    list(replay.replay(events))

    list(replay.replay([later(polls[-1], minutes=9)]))
    assert replay.run("run@1").ended

    list(replay.replay([later(polls[-1], minutes=11)]))
    assert not replay.state.runs

    taken_again = [each for each in events if isinstance(each, RunLine)]
    list(replay.replay(taken_again))
    assert replay.run("run@1").ended


def later(poll: DecodedPoll, minutes: int) -> DecodedPoll:
    """Return a poll that shows the same so many minutes later."""
    seen = poll.observation
    seen = msgspec.structs.replace(
        seen, at=seen.at + timedelta(minutes=minutes), monotonic_s=seen.monotonic_s + 60 * minutes
    )
    return DecodedPoll(poll.seq + minutes, poll.t + 60_000 * minutes, seen)


def options_of(**options: Any) -> DerivedOptions | None:
    usual = dict.fromkeys(("what_if", "no_insights", "keep_insights"), False)
    return read_derived_options({"grid": None, "window": None, **usual, **options})


def test_a_run_simulates_no_other_limits_unless_asked() -> None:
    assert options_of() == DerivedOptions(what_if=None)
    assert options_of(what_if=True) == DerivedOptions(WhatIfOptions(cells=None, window_s=None))


def test_a_window_is_read_as_a_duration(tmp_path: Path) -> None:
    grid = tmp_path / "grid.yaml"
    grid.write_text("limits: {partitions: [1, 2]}\n")
    asked = options_of(window="4h", grid=grid)
    assert asked is not None
    assert asked.what_if is not None
    assert asked.what_if.window_s == 14_400.0
    assert asked.what_if.cells is not None
    assert len(asked.what_if.cells) == 2
    assert asked.what_if.all_runs


@pytest.mark.parametrize("text", ["soon", "-4h", "0s", ""])
def test_an_invalid_window_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="--window: "):
        options_of(window=text)


def test_an_unreadable_grid_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    with pytest.raises(FileProblem, match="cannot be read"):
        options_of(grid=tmp_path / "nowhere.yaml")


def test_insights_can_be_left_out() -> None:
    assert options_of(no_insights=True) is None


@pytest.mark.parametrize(("option", "value"), [("what_if", True), ("window", "4h")])
def test_simulations_without_insights_are_refused(option: str, value: object) -> None:
    name = option.replace("_", "-")
    with pytest.raises(
        click.UsageError, match=f"^--{name} needs insights: leave out --no-insights"
    ):
        options_of(no_insights=True, **{option: value})


def a_lake(*, samples: int = 0, lines: int = 0, read: tuple[SegmentRead, ...] = ()) -> Manifest:
    """Return a lake with so many bytes in two of its tables, half of them of each cluster."""
    sizes = {"samples": samples, "lines": lines}
    tables = {
        name: {cluster: _part(name, cluster, size // 2) for cluster in ("one", "other")}
        for name, size in sizes.items()
    }
    return Manifest(version=1, segments=read, tables=tables)


def _part(table: str, cluster: str, size: int) -> TablePart:
    path = f"{table}/lake_version=000001-0badcafe/cluster_id={cluster}/part-0.parquet"
    return TablePart((DataFile(path, size),), 1)


def test_a_jvm_ends_soon_where_little_is_new_whatever_the_lake_has(tmp_path: Path) -> None:
    old = ListedFile("/recorded/old.jsonl.gz", SMALL_BYTES, 1)
    new = ListedFile("/recorded/new.jsonl.gz", 2, 1)
    request = PipelineRequest(("/recorded",), str(tmp_path))
    assert not reads_little(request, [old, new])

    read = SegmentRead(old.path, old.length, old.modified_ms, "0" * 64)
    (tmp_path / NAME).write_bytes(encode(a_lake(samples=9 * SMALL_BYTES, read=(read,))))

    assert reads_little(request, [old, new])


def test_a_run_whose_size_is_not_known_before_spark_is_there_may_last() -> None:
    assert not reads_little(PipelineRequest(("s3a://b/recorded",), "lake"), None)
    assert not reads_little(PipelineRequest(("recorded",), "s3a://b/lake"), [])


class FakeSpark:
    """The settings of a Spark of two cores, in memory."""

    defaultParallelism = 2  # noqa: N815 - Spark's own name

    def __init__(self, master: str) -> None:
        self.master = master
        self.conf: dict[str, str] = Settings()

    @property
    def sparkContext(self) -> FakeSpark:  # noqa: N802 - Spark's own name
        return self


class Settings(dict[str, str]):
    """Settings of Spark in memory."""

    def set(self, name: str, value: str) -> None:
        self[name] = value


def within(size: int, master: str = "local[*]") -> dict[str, str]:
    """Return Spark's settings within a run of some bytes; they are the usual ones afterwards."""
    fake = FakeSpark(master)
    fake.conf |= {name: f"usual {name}" for name in SMALL_SETTINGS}
    usual = dict(fake.conf)
    spark = cast("SparkSession", fake)
    with sized(spark, size):
        inside = dict(fake.conf)
        assert runs_small(spark) == (size <= SMALL_BYTES)
    assert fake.conf == usual
    return {name: value for name, value in inside.items() if value != usual[name]}


@pytest.mark.parametrize("master", ["local[*]", "spark://host:7077"])
def test_a_run_of_at_most_4_mib_is_small_on_any_master(master: str) -> None:
    assert within(SMALL_BYTES, master) == SMALL_SETTINGS


def test_a_larger_run_on_this_machine_has_partitions_by_its_bytes_and_plans_each_job_once() -> None:
    partitions = "spark.sql.shuffle.partitions"
    larger = within(SMALL_BYTES + 1)
    assert larger["spark.sql.adaptive.enabled"] == "false"
    assert larger[partitions] == "2"
    assert within(7 * PARTITION_BYTES + 1)[partitions] == "8"


def test_a_larger_run_on_a_cluster_is_planned_by_the_rows_that_its_stages_find() -> None:
    assert within(SMALL_BYTES + 1, "spark://host:7077") == {}


def test_what_the_next_tables_read_decides_again_about_the_settings() -> None:
    spark = cast("SparkSession", FakeSpark("local[*]"))
    spark.conf.set("spark.sql.codegen.wholeStage", "true")

    with sized(spark, SMALL_BYTES) as sizing:
        assert runs_small(spark)
        sizing.resize(SMALL_BYTES + 1)
        assert not runs_small(spark)
        assert spark.conf.get("spark.sql.codegen.wholeStage") == "true"
        sizing.resize(1)
        assert runs_small(spark)


def test_settings_for_at_least_some_bytes_hold_for_a_while() -> None:
    spark = cast("SparkSession", FakeSpark("local[*]"))

    with sized(spark, SMALL_BYTES) as sizing:
        with sizing.at_least(1):
            assert runs_small(spark)
        with sizing.at_least(SMALL_BYTES + 1):
            assert not runs_small(spark)
        assert runs_small(spark)
