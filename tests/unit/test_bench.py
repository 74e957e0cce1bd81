"""What the scripts of bench/ work out, and what they refuse."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from statistics import fmean, median

import msgspec
import pytest
from bench.forecast import plans
from bench.forecast.ablation import learnt_on
from bench.forecast.baselines import LINEAR, SmoothedRate
from bench.forecast.before_start import checks
from bench.forecast.moments import KTUI, Moment
from bench.forecast.priors import forward_chained
from bench.forecast.real_runs import Machine
from bench.forecast.report import real_judges
from bench.forecast.scores import (
    by_run,
    compare,
    coverage,
    relative_error,
    surely_short,
    with_interval,
)
from bench.forecast.stored import real, simulated_runs
from bench.machine import Sample, Samples
from bench.peers.cases import ALL, Case, cases, topics_of
from bench.peers.examples import TOPIC, Example, examples, layout_of, published
from bench.peers.figures import Spread, figures_of
from bench.pipeline.session import SessionSpec, record
from bench.producing import Load
from bench.rehearsal.figures import Figures, same_order
from bench.rehearsal.figures import figures_of as figures_figures_of
from bench.stalls import Cause, Change, Judged, Stall, judged, stalls_of
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import Ended, JournalEntry, decode
from ktui.execution.run.run import Run
from ktui.planning.intents.made_plan import Wishes
from ktui.planning.plan import PartitionTarget, Plan
from ktui.recording.reading import GoodLine, PlayedPoll, find_sessions, play_session, read_lines
from ktui.recording.segments import RunLine, files_under, from_wall_ms
from ktui.rehearsal.summary import Summary
from ktui.rehearsal.twin import Pace
from ktui.rehearsal.twins import rehearse
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.answer import Source, Span
from support.simulated.moving_clusters import ONTO_4, TWIN, TWIN_SIZE, rehearsal_of


def moment(
    forecast_s: float, truth_s: float | None, *, at_least_s: float | None = None, run: str = "a"
) -> Moment:
    left = Span(forecast_s / 2, forecast_s, forecast_s * 2)
    return Moment("c", run, "run", 0.5, left, {LINEAR: 30.0}, truth_s, at_least_s, truth_s)


def test_a_run_counts_once_however_many_moments_it_has() -> None:
    moments = [moment(20, 10, run="long")] * 9 + [moment(10, 10, run="short")]
    errors = by_run(moments, lambda one: relative_error(one, KTUI), median)
    assert [figure.value for figure in errors] == [1.0, 0.0]


def test_a_moment_that_was_cut_short_bounds_the_coverage_from_below_and_above() -> None:
    cut = [moment(10, None, at_least_s=15.0), moment(10, None, at_least_s=25.0)]
    found = coverage([moment(10, 12), moment(10, 30), *cut])
    assert found is not None
    assert found.known.value == 0.5
    assert (found.least, found.most) == (0.25, 0.5)
    assert surely_short(cut) == 1.0


def test_ktui_is_behind_where_a_baseline_errs_less_at_the_same_moments() -> None:
    without = moment(10, 10)._replace(naive={LINEAR: None})
    found = compare([moment(10, 20), without], LINEAR)
    assert found is not None
    assert (found.runs, found.ktui, found.baseline) == (1, 0.5, 0.5)
    worse = compare([moment(10, 30)], LINEAR)
    assert worse is not None
    assert worse.behind.value == pytest.approx(2 / 3)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_figure_lies_within_its_interval_of_resampled_runs(values: list[float]) -> None:
    runs = [moment(10, 10 * (1 + value), run=str(n)) for n, value in enumerate(values)]
    figures = by_run(runs, lambda one: relative_error(one, KTUI), fmean)
    found = with_interval(figures, median)
    assert found.low - 1e-9 <= found.value <= found.high + 1e-9


def test_a_steady_rate_is_forecast_exactly() -> None:
    smoothed, left = SmoothedRate(), None
    for second in range(20):
        left = smoothed.left_s(float(second), second / 100)
    assert left == pytest.approx(81.0)


def test_a_run_knows_the_rates_of_the_runs_before_it_and_of_no_later_one() -> None:
    (runs,) = list(simulated_runs(frozen=False).clusters.values())[:1]

    chained = list(forward_chained(runs))

    assert [prior and prior.runs for _, prior in chained] == [None, 1, 2]
    for number in range(1, len(runs)):
        _, without_later = list(forward_chained(runs[:number]))[-1]
        assert chained[number - 1][1] == without_later


def test_nothing_is_chosen_by_the_runs_that_judge() -> None:
    chosen_by = {run.cluster for runs in learnt_on() for run in runs.runs}
    judging = {
        run.cluster for runs in (*real_judges(), simulated_runs(frozen=True)) for run in runs.runs
    }

    assert chosen_by
    assert judging
    assert not chosen_by & judging


def test_checks_before_real_runs_know_the_runs_of_the_lab_before_them_and_miss_by_less() -> None:
    lab = real(Machine.SHARES, frozen=True).clusters["frozen-7"]

    found = list(checks(lab))

    assert [each.stored.number for each in found] == [2, 3, 4]
    assert [each.known.basis.runs for each in found] == [1, 2, 3]
    for each in found:
        assert each.flat.basis.source is Source.GIVEN
        assert each.assumed.basis.source is Source.ASSUMED
        assert each.known.basis.source is Source.EARLIER_RUNS
    assert median(each.error(each.known) for each in found) < 0.2
    assert median(each.error(each.flat) for each in found) > 0.4


def test_checks_leave_out_runs_in_which_something_happened_that_nobody_could_know_of() -> None:
    lab = real(Machine.BUSY, frozen=True).clusters["frozen-2"]
    names = [each.stored.name for each in checks(lab)]
    assert names == ["four-at-once", "written-to", "one-on-each-broker", "all-at-once"]


@pytest.mark.parametrize("number", [1, 22, 24])
def test_a_check_with_one_earlier_run_known_says_what_the_run_then_takes(number: int) -> None:
    """The brokers of the cluster copy as those of real runs did, second by second."""
    played = plans.play(number)

    assert played.good, played


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_no_more_is_copied_than_in_the_published_result(example: Example) -> None:
    layout = layout_of(example)
    theirs = figures_of(layout, published(example), example.brokers)

    made = example.ktui(layout, Wishes(keep_order=True)).plan
    ours = figures_of(layout, made, example.brokers)

    assert ours.moves <= theirs.moves
    assert ours.leader_changes <= theirs.leader_changes
    assert ours.spread.replicas <= theirs.spread.replicas
    assert ours.spread.leaders <= theirs.spread.leaders


def test_the_published_result_is_counted_as_it_is_printed() -> None:
    """Brokers 1001, 1003 and 1004 have 4, 2 and 2 replicas, and lead 2, 1 and 1."""
    found = figures_of(layout_of(EXAMPLES[0]), published(EXAMPLES[0]), EXAMPLES[0].brokers)

    assert (found.moves, found.leader_changes) == (4, 2)
    assert found.spread == Spread(1.5, 1.5, 1.5)


def test_a_plan_with_a_broker_twice_or_a_broker_that_is_to_have_none_is_not_compared() -> None:
    layout = layout_of(EXAMPLES[0])
    for wrong in ((1001, 1001), (1001, 1002)):
        with pytest.raises(SystemExit):
            figures_of(
                layout,
                Plan((PartitionTarget(TOPIC, 0, wrong),)),
                among=[1001, 1003, 1004],
            )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_both_planners_get_the_same_topics_in_each_run(case: Case) -> None:
    racks = {broker: "abc"[broker % 3] for broker in ALL}
    topics = topics_of(case, racks)

    assert topics == topics_of(case, racks)
    lists = [brokers for topic in topics for brokers in topic.replicas]
    assert all(len({*brokers}) == case.factor for brokers in lists)
    shared = sum(len({racks[b] for b in brokers}) < len(brokers) for brokers in lists)
    assert (shared > 0) == (case.off_rack > 0)


@pytest.mark.parametrize(
    ("at_s", "written"), [(0.0, 0.0), (10.0, 10.0), (15.0, 20.0), (20.0, 30.0), (25.0, 35.0)]
)
def test_a_rush_doubles_what_is_written_while_it_lasts(at_s: float, written: float) -> None:
    assert Load(1.0, factor=2.0, since_s=10.0, until_s=20.0).written(at_s) == written


def test_a_steady_load_needs_no_rush() -> None:
    assert Load(8e6).written(3.0) == 24e6


RUN = SessionSpec(
    cluster="prod", story="story", session="0" * 32, began=datetime(2026, 1, 1, tzinfo=UTC),
    samples=1_500, in_flight=6, by_run=True,
)  # fmt: skip


def test_a_session_has_exactly_the_samples_asked_for_and_a_run_that_ktui_folds_to_its_end(
    tmp_path: Path,
) -> None:
    polls = record(tmp_path, RUN)

    seen = [
        each.observation.partitions
        for each in play_session(find_sessions(tmp_path)[0])
        if isinstance(each, PlayedPoll)
    ]
    assert (len(seen), sum(map(len, seen))) == (polls, RUN.samples)
    run = Run("drain")
    events = [line for line in _lines(tmp_path) if isinstance(line, RunLine)]
    for line in events:
        run.apply(JournalEntry(line.entry, from_wall_ms(line.at), decode(bytes(line.event))))
    assert run.ended
    assert run.over == len(run.tracks) > 10
    assert isinstance(decode(bytes(events[-1].event)), Ended)


def test_the_same_spec_records_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "other"):
        record(tmp_path / name, RUN)

    one, other = (
        [file.read_bytes() for file in files_under(tmp_path / name)] for name in ("one", "other")
    )
    assert one == other


def _lines(folder: Path) -> list[object]:
    return [
        each.line
        for file in files_under(folder)
        for each in read_lines(file.read_bytes())
        if isinstance(each, GoodLine)
    ]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Figures, Summary]:
    folder = tmp_path_factory.mktemp("recorded")
    (twin,) = rehearse(rehearsal_of(ONTO_4), TWIN.at(50e6), start=FIRST_MOMENT, record=folder)
    assert twin.pace is Pace.USUAL
    return figures_figures_of(folder), twin.summary


def test_a_recording_shows_the_time_and_the_bytes_of_its_rehearsal(
    recorded: tuple[Figures, Summary],
) -> None:
    figures, summary = recorded

    assert figures.seconds == pytest.approx(summary.time_s, abs=0.01)
    assert figures.copied == pytest.approx(2 * TWIN_SIZE, rel=0.02)
    assert sorted(figures.order) == [target.tp for target in ONTO_4.partitions]


def test_the_peak_is_an_average_that_no_broker_exceeds_at_any_time(
    recorded: tuple[Figures, Summary],
) -> None:
    figures, summary = recorded
    most = {use.broker: use.inflow for use in summary.brokers if use.inflow}

    assert figures.inflow.keys() == most.keys() == {4}
    assert 0.5 * most[4] < figures.inflow[4] < 1.01 * most[4]


def _ordered(batches: tuple[int, ...], base: Figures, *, together: bool) -> Figures:
    order = {TopicPartition("orders", n): batch for n, batch in enumerate(batches)}
    return msgspec.structs.replace(base, order=order, together=together)


@pytest.mark.parametrize(
    ("first", "second", "in_flight", "alike"),
    [
        ((1, 2, 3), (2, 5, 9), 1, 1.0),
        ((1, 2, 3), (2, 9, 5), 1, 0.0),
        ((1, 2, 3), (3, 2, 1), 2, -1.0),
        ((1, 1, 2), (3, 3, 7), 2, 1.0),
        ((1, 1, 1), (1, 2, 3), 2, None),
    ],
)
def test_orders_are_equal_one_by_one_and_else_as_far_as_their_batches_are(
    first: tuple[int, ...],
    second: tuple[int, ...],
    in_flight: int,
    alike: float | None,
    recorded: tuple[Figures, Summary],
) -> None:
    of = [_ordered(each, recorded[0], together=in_flight > 1) for each in (first, second)]

    assert same_order(*of) == (None if alike is None else pytest.approx(alike))


STALL = Stall(partition=3, sent_s=10.0, since_s=10.3, until_s=11.3)


def _machine(gc_s: float = 0.0, busy: int = 0, disk_s: float = 0.0, held_s: float = 0.0) -> Samples:
    machine = Samples()
    first = Sample(0.0, 0, 0, (0.0, 0.0), 0.0, (0.0, 0.0))
    machine.all = [first, Sample(20.0, busy, 100, (gc_s, 0.0), disk_s, (0.0, held_s))]
    return machine


def test_messages_that_are_late_at_the_same_time_are_one_stall_of_their_partition() -> None:
    timed = [(10.0, 1.3, 3), (10.2, 0.9, 3), (10.0, 1.0, 4), (10.5, 0.1, 3), (30.0, 0.5, 3)]

    assert stalls_of(timed) == [
        Stall(3, 10.0, 10.3, 11.3),
        Stall(3, 30.0, 30.3, 30.5),
        Stall(4, 10.0, 10.3, 11.0),
    ]


@pytest.mark.parametrize(
    ("changes", "machine", "cause"),
    [
        ((Change(9.0, 3, Cause.JOINED), Change(9.5, 3, Cause.LEADER)), _machine(), Cause.LEADER),
        ((Change(9.0, 3, Cause.JOINED), Change(9.5, 4, Cause.LEADER)), _machine(), Cause.JOINED),
        ((Change(8.0, 3, Cause.LEADER),), _machine(), Cause.UNKNOWN),
        ((Change(9.5, 4, Cause.LEADER),), _machine(), Cause.BESIDE),
        ((Change(9.5, 4, Cause.LEADER),), _machine(gc_s=0.2), Cause.GARBAGE),
        ((), _machine(busy=99), Cause.CPU),
        ((), _machine(busy=99, disk_s=6.0), Cause.DISK),
        ((), _machine(disk_s=4.0), Cause.UNKNOWN),
        ((), _machine(held_s=11.0), Cause.SHARE),
        ((), _machine(held_s=9.0), Cause.UNKNOWN),
        ((Change(9.5, 3, Cause.LEADER),), _machine(held_s=11.0), Cause.LEADER),
        ((Change(12.0, 3, Cause.LEADER),), _machine(busy=50), Cause.UNKNOWN),
    ],
)
def test_a_stall_is_put_down_to_the_first_cause_with_evidence(
    changes: tuple[Change, ...], machine: Samples, cause: Cause
) -> None:
    assert judged([STALL], changes, machine) == [Judged(STALL, cause)]
