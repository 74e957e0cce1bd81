"""How far a run is and when it may end: one estimate for scripts, followers and the view."""

from itertools import pairwise

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import Continued, Paused, PauseOrigin, StateEntered, ThrottleChanged
from ktui.execution.run.states import State
from ktui.insights import Prior, RateCurve, Spread
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.speed.answer import Basis, Misfit, Source
from ktui.speed.capacity import ASSUMED
from ktui.speed.capacity import THROTTLED as USUAL_SHARE
from support.journals.journals import BESIDE, GB, TWO_AT_ONCE, ScriptedRun


def test_copied_bytes_count_each_added_replica() -> None:
    scripted = ScriptedRun(GB, GB, target=(4, 5, 3))
    assert scripted.estimate.copied.whole == 4 * GB
    scripted.add()
    assert scripted.estimate.copied.done == GB
    scripted.begin(1)
    scripted.look(0.5, partition=1)
    assert scripted.estimate.copied.done == 1.5 * GB


def test_a_partition_changed_elsewhere_has_nothing_left_to_copy() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.happen(StateEntered(topic="a", partition=0, state=State.CHANGED_ELSEWHERE))
    assert scripted.estimate.copied.whole == GB


def test_time_left_is_the_remaining_bytes_at_the_observed_rate() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.begin()
    for tenth in range(11):
        scripted.look(tenth / 10)
        scripted.pass_time(10)
    copied = scripted.estimate.copied
    assert copied.bytes_s == GB / 100
    assert copied.left_s is not None
    assert 100 <= copied.left_s.middle <= 100 + BESIDE
    assert copied.left_s.low <= copied.left_s.middle <= copied.left_s.high


def test_a_changing_rate_widens_the_range_of_time_left() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.begin()
    share = 0.0
    for tenth in range(20):
        share += 0.08 if tenth < 10 else 0.01
        scripted.look(share)
        scripted.left_s()
        scripted.pass_time(10)
    left = scripted.estimate.copied.left_s
    assert left is not None
    assert left.low < left.middle < left.high / 2


def test_a_run_says_at_once_what_a_check_assumes_when_nothing_is_known() -> None:
    scripted = ScriptedRun(5 * GB)
    scripted.begin()
    scripted.look(0.0)
    copied = scripted.estimate.copied
    assert copied.basis == Basis()
    assert copied.bytes_s is None
    left = copied.left_s
    assert left is not None
    assert left.middle == pytest.approx(5 * GB / ASSUMED.middle, abs=BESIDE)
    assert left.low == pytest.approx(5 * GB / ASSUMED.high, abs=BESIDE)
    assert left.high == pytest.approx(5 * GB / ASSUMED.low, abs=BESIDE)


@pytest.mark.parametrize("bytes_s", [30e6, 45e6, 60e6])
def test_what_was_assumed_becomes_what_the_run_shows_without_a_leap(bytes_s: float) -> None:
    scripted = ScriptedRun(10 * GB)
    scripted.begin()
    ends = []
    for second in range(40):
        scripted.look(bytes_s * second / (10 * GB))
        left = scripted.estimate.copied.left_s
        assert left is not None
        assert left.low <= left.middle <= left.high
        ends.append((second + left.middle, scripted.estimate.copied.basis.source))
        scripted.pass_time(1)
    assert [source for _, source in ends][:2] == [Source.ASSUMED] * 2
    assert {source for _, source in ends[10:]} == {Source.THIS_RUN}
    for (before_s, _), (after_s, _) in pairwise(ends):
        assert 0.5 <= after_s / before_s <= 2.0
    assert ends[-1][0] == pytest.approx(10 * GB / bytes_s, rel=0.1)


def test_nothing_is_forecast_from_a_standstill() -> None:
    still = ScriptedRun(GB)
    for _ in range(10):
        still.look()
        still.pass_time(10)
    assert still.estimate.copied.left_s is None


def test_a_copy_that_stops_has_no_rate_and_no_time_left() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.begin()
    for tenth in range(5):
        scripted.look(tenth / 10)
        scripted.pass_time(10)
    assert scripted.estimate.copied.bytes_s is not None
    for _ in range(3):
        scripted.look(0.4)
        scripted.pass_time(10)
    still = scripted.estimate.copied
    assert still.bytes_s is None
    assert still.left_s is None
    scripted.look(0.5)
    assert scripted.estimate.copied.left_s is not None


def test_a_pause_restarts_the_rate() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.begin()
    for tenth in range(5):
        scripted.look(tenth / 10)
        scripted.pass_time(10)
    assert scripted.estimate.copied.left_s is not None
    scripted.happen(Paused(by=PauseOrigin.OPERATOR))
    scripted.look(0.5)
    assert scripted.estimate.copied.left_s is None


def test_a_changed_throttle_restarts_the_rate() -> None:
    scripted = ScriptedRun(10 * GB)
    scripted.begin()
    for second in range(0, 40, 5):
        scripted.look(share=second / 400)
        scripted.pass_time(5.0)
    assert scripted.left_s() is not None

    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("1MB"))
    )
    scripted.look(share=0.1)

    assert scripted.estimate.copied.bytes_s is None
    assert (scripted.left_s() or 0) >= 9 * GB / 1e6  # what the new throttle lets through, at once


def test_no_share_is_given_when_no_size_is_known() -> None:
    scripted = ScriptedRun(0, 0)
    scripted.finish()
    assert scripted.estimate.copied.share is None


def test_a_later_reader_of_the_journal_forecasts_about_the_same_as_a_follower() -> None:
    scripted = ScriptedRun(*[GB] * 8)
    for n in range(4):
        scripted.begin(n)
        for _ in range(10):
            scripted.look()
            scripted.pass_time(10)
        scripted.over(n)
    scripted.look()
    followed, afresh = scripted.left_s(), scripted.afresh()
    assert followed is not None
    assert afresh is not None
    assert afresh == pytest.approx(400 / TWO_AT_ONCE, rel=0.1)
    assert abs(followed - afresh) < 0.3 * afresh


def test_an_unpolled_step_is_assumed_to_copy_as_earlier_steps_did() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.begin()
    scripted.pass_time(100)
    scripted.over()
    scripted.begin(1)
    scripted.pass_time(50)
    scripted.look()
    assert scripted.estimate.copied.done == 1.5 * GB
    scripted.pass_time(500)
    scripted.look()
    assert scripted.estimate.copied.done == 2 * GB


def test_time_left_is_unknown_when_a_step_takes_much_longer_than_earlier_ones() -> None:
    scripted = ScriptedRun(GB, GB, GB)
    scripted.begin()
    scripted.pass_time(100)
    scripted.over()
    scripted.begin(1)
    for _ in range(20):
        scripted.pass_time(10)
        scripted.look()
    assert scripted.left_s() is None


def test_time_left_is_unknown_from_the_journal_alone_until_a_step_completes() -> None:
    scripted = ScriptedRun(GB, GB)
    scripted.begin()
    for _ in range(20):
        scripted.pass_time(10)
        scripted.look()
    assert scripted.left_s() is None


def test_the_time_left_of_empty_partitions_depends_on_their_number() -> None:
    scripted = ScriptedRun(*[0] * 4)
    for n in range(3):
        scripted.begin(n)
        scripted.pass_time(60)
        scripted.over(n)
        scripted.happen(StateEntered(topic="a", partition=n, state=State.DONE))
        scripted.look()
    assert scripted.left_s() == 60
    assert scripted.estimate.copied.bytes_s is None


def test_time_left_is_unknown_during_a_pause_and_forecast_again_after_it() -> None:
    scripted = ScriptedRun(*[GB] * 4)
    for n in range(2):
        scripted.begin(n)
        scripted.pass_time(60)
        scripted.over(n)
        scripted.look()
    assert scripted.left_s() is not None
    scripted.happen(Paused(by=PauseOrigin.OPERATOR))
    scripted.look()
    assert scripted.left_s() is None
    scripted.pass_time(3_600)
    scripted.happen(Continued(by=PauseOrigin.OPERATOR))
    scripted.begin(2)
    for _ in range(6):
        scripted.pass_time(5)
        scripted.look()
    left = scripted.left_s()
    assert left is not None
    assert left < 120


def test_polls_every_second_keep_a_range_and_are_forgotten_gradually() -> None:
    scripted = ScriptedRun(100 * GB)
    scripted.begin()
    share, lefts = 0.0, []
    for second in range(1_300):
        share += 0.0002 if second % 120 < 60 else 0.0004
        scripted.look(share)
        scripted.pass_time(1)
        lefts.append(scripted.estimate.copied.left_s)
    assert None not in lefts[60:]
    assert all(left.low < left.middle < left.high for left in lefts[120:] if left is not None)


CURVE = RateCurve(most_bytes_s=20e6, half_at=1.0, most_at_once=4, low=0.5, high=2.0)
EARLIER = Prior(Spread(5e6, 10e6, 20e6, count=40), step_s=0.0, curve=CURVE, runs=3)


def test_a_run_without_a_rate_of_its_own_uses_that_of_earlier_runs() -> None:
    scripted = ScriptedRun(GB, prior=EARLIER)
    scripted.begin()
    scripted.look(0.0)
    copied = scripted.estimate.copied
    assert copied.basis.source is Source.EARLIER_RUNS
    assert copied.bytes_s is None
    left = copied.left_s
    assert left is not None
    for forecast_s, expected_s in zip(
        (left.low, left.middle, left.high), (50, 100, 200), strict=True
    ):
        assert expected_s <= forecast_s <= 1.05 * expected_s + BESIDE


def test_replicas_added_at_once_are_as_fast_as_that_many_were_in_earlier_runs() -> None:
    scripted = ScriptedRun(GB, GB, prior=EARLIER)
    scripted.begin(0)
    scripted.begin(1)
    scripted.look(0.0)
    assert 150 <= (scripted.left_s() or 0) <= 150 + BESIDE


def test_a_forecast_from_earlier_runs_never_exceeds_the_throttle() -> None:
    scripted = ScriptedRun(GB, prior=EARLIER)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("5MB"))
    )
    scripted.begin()
    scripted.look(0.0)
    usual_s = 200 / USUAL_SHARE.middle  # earlier runs had no throttle: they do not show the share
    assert 200 <= (scripted.left_s() or 0) <= usual_s + BESIDE


THROTTLED = msgspec.structs.replace(
    EARLIER, curve=RateCurve(most_bytes_s=50e6, half_at=0.0, most_at_once=4, known_to=5e6)
)
"""Learned from runs in which a throttle of 5 MB/s limited all copies."""


@pytest.mark.parametrize(
    ("throttle", "fits"),
    [("5MB", True), ("2MB", True), ("5MB,7=50MB", True), ("6MB", False), ("none", False)],
)
def test_earlier_runs_limited_by_a_throttle_do_not_fit_a_higher_one(
    throttle: str, *, fits: bool
) -> None:
    scripted = ScriptedRun(GB, prior=THROTTLED)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates(throttle))
    )
    scripted.begin()
    scripted.look(0.0)
    copied = scripted.estimate.copied
    assert copied.left_s is not None
    assert copied.basis.source is Source.EARLIER_RUNS
    assert copied.basis.misfits == (() if fits else (Misfit.THROTTLE,))


def test_the_overhead_of_a_step_counts_in_the_time_left() -> None:
    scripted = ScriptedRun(
        GB, prior=Prior(EARLIER.replica_bytes_s, step_s=50.0, curve=CURVE, runs=3)
    )
    scripted.begin()
    scripted.look(0.0)
    assert 150 <= (scripted.left_s() or 0) <= 150 + BESIDE


def test_a_runs_own_rate_replaces_that_of_earlier_runs() -> None:
    scripted = ScriptedRun(GB, GB, prior=EARLIER)
    scripted.begin()
    for tenth in range(11):
        scripted.look(tenth / 10)
        scripted.pass_time(10)
    copied = scripted.estimate.copied
    assert copied.basis.source is Source.THIS_RUN
    assert copied.left_s is not None
    assert 100 <= copied.left_s.middle <= 100 + BESIDE


def test_earlier_runs_forecast_nothing_at_standstill_in_a_pause_or_before_a_poll() -> None:
    still = ScriptedRun(GB, prior=EARLIER)
    still.look()
    assert still.left_s() is None
    still.begin()
    for _ in range(10):
        still.look(0.0)
        still.pass_time(10)
    assert still.left_s() is None
    unseen = ScriptedRun(GB, prior=EARLIER)
    unseen.begin()
    assert unseen.left_s() is None
    paused = ScriptedRun(GB, prior=EARLIER)
    paused.begin()
    paused.happen(Paused(by=PauseOrigin.OPERATOR))
    paused.look(0.0)
    assert paused.left_s() is None


def test_partitions_are_expected_to_take_as_long_as_in_earlier_runs() -> None:
    scripted = ScriptedRun(GB, prior=EARLIER)
    track = scripted.run.tracks[TopicPartition("a", 0)]
    assert scripted.estimate.time_needed().of(track) == pytest.approx(100.0)
    assert ScriptedRun(GB).estimate.time_needed().of(track) < 30.0
