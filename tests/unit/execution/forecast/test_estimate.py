"""How far a run is and when it may have ended: one estimate for scripts, followers and the view."""

from __future__ import annotations

import msgspec
import pytest

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import Continued, Paused, PauseOrigin, StateEntered, ThrottleChanged
from ktui.execution.run.states import State
from ktui.insights.curve import RateCurve
from ktui.insights.prior import Prior
from ktui.insights.spread import Spread
from ktui.planning.throttle_rates import parse_throttle_rates
from support.journals.told_runs import BESIDE, GB, Told


def test_what_is_copied_counts_by_the_replicas_that_are_added() -> None:
    told = Told(GB, GB, target=(4, 5, 3))
    assert told.estimate.copied.whole == 4 * GB
    told.add()
    assert told.estimate.copied.done == GB
    told.begin(1)
    told.look(0.5, partition=1)
    assert told.estimate.copied.done == 1.5 * GB


def test_nothing_is_left_of_a_partition_that_has_ended_elsewhere() -> None:
    told = Told(GB, GB)
    told.happen(StateEntered(topic="a", partition=0, state=State.CHANGED_ELSEWHERE))
    assert told.estimate.copied.whole == GB


def test_the_time_left_is_what_is_left_by_the_rate_that_was_seen() -> None:
    told = Told(GB, GB)
    told.begin()
    for tenth in range(11):
        told.look(tenth / 10)
        told.pass_time(10)
    copied = told.estimate.copied
    assert copied.bytes_s == GB / 100
    assert copied.left_s is not None
    assert 100 <= copied.left_s.middle <= 100 + BESIDE
    assert copied.left_s.low <= copied.left_s.middle <= copied.left_s.high


def test_a_rate_that_changes_widens_the_range() -> None:
    told = Told(GB, GB)
    told.begin()
    share = 0.0
    for tenth in range(20):
        share += 0.08 if tenth < 10 else 0.01
        told.look(share)
        told.left_s()
        told.pass_time(10)
    left = told.estimate.copied.left_s
    assert left is not None
    assert left.low < 0.7 * left.middle < left.middle < left.high / 1.2


def test_nothing_is_forecast_from_a_moment_or_from_standstill() -> None:
    told = Told(GB, GB)
    told.begin()
    told.look(0.1)
    told.pass_time(10)
    told.look(0.2)
    assert told.estimate.copied.left_s is None
    still = Told(GB)
    for _ in range(10):
        still.look()
        still.pass_time(10)
    assert still.estimate.copied.left_s is None


def test_what_was_copied_and_is_no_more_has_no_rate_and_no_time_left() -> None:
    told = Told(GB, GB)
    told.begin()
    for tenth in range(5):
        told.look(tenth / 10)
        told.pass_time(10)
    assert told.estimate.copied.bytes_s is not None
    for _ in range(3):
        told.look(0.4)
        told.pass_time(10)
    still = told.estimate.copied
    assert still.bytes_s is None
    assert still.left_s is None
    told.look(0.5)
    assert told.estimate.copied.left_s is not None


def test_a_pause_makes_the_rate_start_anew() -> None:
    told = Told(GB, GB)
    told.begin()
    for tenth in range(5):
        told.look(tenth / 10)
        told.pass_time(10)
    assert told.estimate.copied.left_s is not None
    told.happen(Paused(by=PauseOrigin.OPERATOR))
    told.look(0.5)
    assert told.estimate.copied.left_s is None


def test_another_throttle_makes_the_rate_start_anew() -> None:
    told = Told(10 * GB)
    told.begin()
    for second in range(0, 40, 5):
        told.look(share=second / 400)
        told.pass_time(5.0)
    assert told.left_s() is not None

    told.happen(ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("1MB")))
    told.look(share=0.1)

    assert told.left_s() is None


def test_where_no_size_is_known_no_share_is_told() -> None:
    told = Told(0, 0)
    told.finish()
    assert told.estimate.copied.share is None


def test_whoever_reads_the_journal_later_tells_what_one_tells_who_followed_it() -> None:
    told = Told(*[GB] * 8)
    for n in range(4):
        told.begin(n)
        for _ in range(10):
            told.look()
            told.pass_time(10)
        told.over(n)
    told.look()
    followed, afresh = told.left_s(), told.afresh()
    assert followed is not None
    assert afresh is not None
    assert 350 <= afresh <= 450
    assert abs(followed - afresh) < 0.3 * afresh


def test_a_step_that_nobody_looks_at_is_copied_as_those_before_it_were() -> None:
    told = Told(GB, GB)
    told.begin()
    told.pass_time(100)
    told.over()
    told.begin(1)
    told.pass_time(50)
    told.look()
    assert told.estimate.copied.done == 1.5 * GB
    told.pass_time(500)
    told.look()
    assert told.estimate.copied.done == 2 * GB


def test_a_step_that_takes_much_longer_than_those_before_it_leaves_no_time_to_tell() -> None:
    told = Told(GB, GB, GB)
    told.begin()
    told.pass_time(100)
    told.over()
    told.begin(1)
    for _ in range(20):
        told.pass_time(10)
        told.look()
    assert told.left_s() is None


def test_before_any_step_is_over_the_journal_alone_tells_no_time() -> None:
    told = Told(GB, GB)
    told.begin()
    for _ in range(20):
        told.pass_time(10)
        told.look()
    assert told.left_s() is None


def test_the_time_left_of_empty_partitions_goes_by_their_number() -> None:
    told = Told(*[0] * 4)
    for n in range(3):
        told.begin(n)
        told.pass_time(60)
        told.over(n)
        told.happen(StateEntered(topic="a", partition=n, state=State.DONE))
        told.look()
    assert told.left_s() == 60
    assert told.estimate.copied.bytes_s is None


def test_nothing_is_told_while_the_run_does_not_go_on_and_then_anew() -> None:
    told = Told(*[GB] * 4)
    for n in range(2):
        told.begin(n)
        told.pass_time(60)
        told.over(n)
        told.look()
    assert told.left_s() is not None
    told.happen(Paused(by=PauseOrigin.OPERATOR))
    told.look()
    assert told.left_s() is None
    told.pass_time(3_600)
    told.happen(Continued(by=PauseOrigin.OPERATOR))
    told.begin(2)
    for _ in range(6):
        told.pass_time(5)
        told.look()
    left = told.left_s()
    assert left is not None
    assert left < 120


def test_looks_every_second_leave_a_range_and_are_forgotten_bit_by_bit() -> None:
    told = Told(100 * GB)
    told.begin()
    share, lefts = 0.0, []
    for second in range(1_300):
        share += 0.0002 if second % 120 < 60 else 0.0004
        told.look(share)
        told.pass_time(1)
        lefts.append(told.estimate.copied.left_s)
    assert None not in lefts[60:]
    assert all(left.low < left.middle < left.high for left in lefts[120:] if left is not None)


CURVE = RateCurve(most_bytes_s=20e6, half_at=1.0, most_at_once=4, low=0.5, high=2.0)
EARLIER = Prior(Spread(5e6, 10e6, 20e6, count=40), step_s=0.0, curve=CURVE, runs=3)


def test_before_a_run_has_a_rate_of_its_own_that_of_earlier_runs_tells() -> None:
    told = Told(GB, prior=EARLIER)
    told.begin()
    told.look(0.0)
    copied = told.estimate.copied
    assert copied.by_earlier_runs
    assert copied.bytes_s is None
    left = copied.left_s
    assert left is not None
    for told_s, expected_s in zip((left.low, left.middle, left.high), (50, 100, 200), strict=True):
        assert expected_s <= told_s <= expected_s + BESIDE


def test_replicas_that_are_added_at_once_are_as_fast_as_so_many_were_in_earlier_runs() -> None:
    told = Told(GB, GB, prior=EARLIER)
    told.begin(0)
    told.begin(1)
    told.look(0.0)
    assert 150 <= (told.left_s() or 0) <= 150 + BESIDE


def test_no_more_is_expected_by_earlier_runs_than_a_throttle_lets_through() -> None:
    told = Told(GB, prior=EARLIER)
    told.happen(ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("5MB")))
    told.begin()
    told.look(0.0)
    assert 200 <= (told.left_s() or 0) <= 200 + BESIDE


THROTTLED = msgspec.structs.replace(
    EARLIER, curve=RateCurve(most_bytes_s=50e6, half_at=0.0, most_at_once=4, known_to=5e6)
)
"""Of runs in which a throttle of 5 MB/s held all copies up."""


@pytest.mark.parametrize(
    ("throttle", "is_told"),
    [("5MB", True), ("2MB", True), ("5MB,7=50MB", True), ("6MB", False), ("none", False)],
)
def test_of_earlier_runs_that_a_throttle_held_up_nothing_faster_is_foretold(
    throttle: str, *, is_told: bool
) -> None:
    told = Told(GB, prior=THROTTLED)
    told.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates(throttle))
    )
    told.begin()
    told.look(0.0)
    copied = told.estimate.copied
    assert (copied.left_s is not None) is is_told
    assert copied.by_earlier_runs is is_told


def test_what_a_step_takes_beside_copying_counts_too() -> None:
    told = Told(GB, prior=Prior(EARLIER.replica_bytes_s, step_s=50.0, curve=CURVE, runs=3))
    told.begin()
    told.look(0.0)
    assert 150 <= (told.left_s() or 0) <= 150 + BESIDE


def test_a_rate_of_its_own_takes_the_place_of_that_of_earlier_runs() -> None:
    told = Told(GB, GB, prior=EARLIER)
    told.begin()
    for tenth in range(11):
        told.look(tenth / 10)
        told.pass_time(10)
    copied = told.estimate.copied
    assert not copied.by_earlier_runs
    assert copied.left_s is not None
    assert 100 <= copied.left_s.middle <= 100 + BESIDE


def test_earlier_runs_say_nothing_of_standstill_of_a_pause_or_before_anything_is_seen() -> None:
    still = Told(GB, prior=EARLIER)
    still.look()
    assert still.left_s() is None
    still.begin()
    for _ in range(10):
        still.look(0.0)
        still.pass_time(10)
    assert still.left_s() is None
    unseen = Told(GB, prior=EARLIER)
    unseen.begin()
    assert unseen.left_s() is None
    paused = Told(GB, prior=EARLIER)
    paused.begin()
    paused.happen(Paused(by=PauseOrigin.OPERATOR))
    paused.look(0.0)
    assert paused.left_s() is None


def test_partitions_are_expected_to_take_what_they_did_in_earlier_runs() -> None:
    told = Told(GB, prior=EARLIER)
    track = told.run.tracks[TopicPartition("a", 0)]
    assert told.estimate.pace.needed_s(track, parse_throttle_rates("none")) == 100.0
    assert Told(GB).estimate.pace.needed_s(track, parse_throttle_rates("none")) < 30.0
