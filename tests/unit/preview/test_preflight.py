"""The preview of a plan: shares, findings and their words."""

from typing import Any

import msgspec
import pytest

from ktui.cluster.broker import BrokerConfig, LogDir
from ktui.cluster.errors import Failure, Operation
from ktui.insights import Prior, RateCurve, Spread
from ktui.pacing.limits import Limits, Mode, Order, Shape
from ktui.planning.check.findings import FindingKind, Severity
from ktui.preview import preview as preflight_module
from ktui.preview.facts import BrokerShare, Terms, broker_shares
from ktui.preview.preview import BrokerPreview, PlanPreview, ShapeCost
from ktui.preview.text import lines
from ktui.speed import simulate as schedule_module
from ktui.speed.answer import Bottleneck, Span
from ktui.speed.capacity import Capacity
from support.cli.start_sandbox import (
    GB,
    Way,
    a_plan,
    a_snapshot,
    base,
    how_long,
    least,
    preflight,
    throttled,
    tp,
)
from support.runs.pacing import WHOLE

ONE: Way = ((1, 2, 3), (4, 2, 3))
ALL: Way = ((1, 2, 3), (4, 5, 6))
START = Limits(replicas=1, partitions=6)
KIP = Limits(replicas=1, partitions=6, shape=Shape.KIP_435)
ROOMY = (100 * GB, 50 * GB)


def figures(
    *ways: Way, limits: Limits = START, given: float | None = None, **more: Any
) -> PlanPreview:
    known = Capacity(given=given)
    return preflight(a_plan(*ways), a_snapshot(*ways, **more), limits, known)


def time(*ways: Way, limits: Limits = START, **more: Any) -> Span:
    return how_long(figures(*ways, limits=limits, **more)).time_s


def cost(shape: Shape, *ways: Way, **more: Any) -> ShapeCost:
    return next(each for each in figures(*ways, **more).shapes if each.shape is shape)


def load(result: PlanPreview, broker: int) -> BrokerPreview:
    return next(each for each in result.brokers if each.broker == broker)


def kinds(result: PlanPreview) -> list[FindingKind]:
    return [finding.kind for finding in result.findings]


def only(result: PlanPreview) -> str:
    (finding,) = result.findings
    assert finding.severity is Severity.WARNING
    return finding.sentence


def test_each_broker_has_its_gains_losses_and_room() -> None:
    result = figures(ONE, ALL, sizes=[2 * GB, 3 * GB], rooms={4: ROOMY, 1: ROOMY})

    assert result.bytes_to_copy == 2 * GB + 3 * 3 * GB
    assert load(result, 4) == BrokerPreview(
        broker=4,
        replicas=0,
        gains=2,
        loses=0,
        leaders=0,
        leaders_after=2,
        throttle_bytes_s=None,
        bytes_in=5 * GB,
        bytes_out=0,
        disk_bytes=100 * GB,
        room_bytes=50 * GB,
        room_after_bytes=45 * GB,
        room_at_peak_bytes=45 * GB,
    )
    assert (load(result, 1).bytes_out, load(result, 1).room_after_bytes) == (5 * GB, 55 * GB)
    assert load(result, 1).room_at_peak_bytes == 50 * GB


def test_partitions_that_stay_cost_nothing() -> None:
    result = figures(((1, 2, 3), (1, 2, 3)))

    assert (result.bytes_to_copy, how_long(result).batches) == (0, 0)
    assert not any(each.changes for each in result.brokers)
    assert (how_long(result).time_s, how_long(result).pacesetter) == (Span(0, 0, 0), None)


@pytest.mark.parametrize(
    ("way", "gentle", "kip_435"),
    [
        (ALL, (4, 0, 1, 6), (4, 1, 4, 4)),
        (ONE, (2, 0, 1, 4), (2, 1, 2, 4)),
        (((1, 2, 3), (1, 2, 4)), (2, 0, 1, 4), (1, 0, 1, 4)),
        (((1, 2), (1, 2, 3, 4)), (2, 0, 0, 4), (2, 0, 0, 4)),
        (((1, 2, 3, 4), (1, 2)), (1, 0, 1, 4), (2, 0, 2, 4)),
        (((1, 2, 3), (3, 1, 2)), (1, 1, 1, 3), (1, 1, 1, 3)),
    ],
)
def test_both_shapes_have_alters_elections_epochs_and_the_most_replicas(
    way: Way, gentle: tuple[int, ...], kip_435: tuple[int, ...]
) -> None:
    result = figures(way).shapes

    assert [each.shape for each in result] == [Shape.GENTLE, Shape.KIP_435]
    assert [
        (each.alters, each.elections, each.leader_epoch_bumps, each.most_replicas)
        for each in result
    ] == [gentle, kip_435]


def test_the_shape_in_force_comes_first() -> None:
    result = figures(ALL, limits=KIP)

    assert [each.shape for each in result.shapes] == [Shape.KIP_435, Shape.GENTLE]


def test_shape_whole_is_compared_only_where_it_is_in_force() -> None:
    whole, *others = figures(ALL, limits=WHOLE).shapes

    assert (whole.shape, whole.alters, whole.elections) == (Shape.WHOLE, 1, 0)
    assert [each.shape for each in others] == [Shape.GENTLE, Shape.KIP_435]


def test_extra_replicas_are_those_beyond_the_original_and_the_target() -> None:
    up: Way = ((1, 2), (1, 2, 3, 4))

    assert cost(Shape.GENTLE, ALL).peak_extra_replicas == 3
    assert cost(Shape.KIP_435, ALL).peak_extra_replicas == 1
    assert cost(Shape.GENTLE, up).peak_extra_replicas == 0
    assert cost(Shape.GENTLE, ((1, 2, 3, 4), (1, 5))).peak_extra_replicas == 1


def test_limits_reduce_the_extra_replicas() -> None:
    waiting_for_their_cut, in_flight = 6, 4
    peak = cost(Shape.GENTLE, *[ALL] * 10).peak_extra_replicas
    assert peak == waiting_for_their_cut * 3 + in_flight
    one_extra = msgspec.structs.replace(START, extra_replicas=1)
    peak = cost(Shape.GENTLE, *[ALL] * 10, limits=one_extra).peak_extra_replicas
    assert peak == waiting_for_their_cut + in_flight
    in_twos = msgspec.structs.replace(START, partitions=2, cut_together=1)
    assert cost(Shape.GENTLE, *[ALL] * 10, limits=in_twos).peak_extra_replicas == 2 * 3 + 2


def test_the_other_shape_of_a_large_plan_is_estimated_from_a_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = [cost(Shape.KIP_435, *[ALL] * 200, limits=limits) for limits in (START, Limits())]

    monkeypatch.setattr(preflight_module, "MOST_COMPARED", 20)
    part = [cost(Shape.KIP_435, *[ALL] * 200, limits=limits) for limits in (START, Limits())]

    assert [each.peak_extra_replicas for each in whole] == [6, 600]
    assert part == whole


def test_the_time_is_made_of_copies_polls_cuts_and_elections() -> None:
    assert time(ONE) == Span(10 + 1, 20 + 1, 50 + 1)
    assert time(ONE, limits=KIP) == Span(10 + 2, 20 + 2, 50 + 2)
    assert time(((1, 2, 3), (1, 2))) == Span(1, 1, 1)
    assert time(((1, 2, 3), (2, 1, 3))) == Span(2, 2, 2)


def test_the_end_of_a_copy_is_noticed_by_the_next_poll() -> None:
    assert time(ONE, sizes=[1_000_000]).middle == 2
    assert time(ONE, sizes=[70_000_000], limits=KIP).middle == 4


def test_replicas_share_the_broker_that_adds_them() -> None:
    # two at once get a third more than one, and what is left of the larger goes on alone
    assert time(ONE, ONE).middle == 32
    assert time(ONE, ONE, sizes=[GB, 3 * GB]).middle == 71
    assert time(ONE, ((1, 2, 3), (5, 2, 3))).middle == 21


def test_free_places_are_refilled_while_others_wait_for_their_cut() -> None:
    one_by_one = msgspec.structs.replace(START, partitions=1)

    result = figures(ONE, ((1, 2, 3), (5, 2, 3)), limits=one_by_one)

    assert (how_long(result).time_s.middle, how_long(result).batches) == (41, 3)


def test_waves_are_counted_and_wait_for_each_other() -> None:
    waves = msgspec.structs.replace(START, partitions=2, mode=Mode.WAVE)
    ways: list[Way] = [((1, 2, 3), (broker, 2, 3)) for broker in (4, 5, 6, 7)]

    result = figures(*ways, limits=waves, sizes=[GB, 2 * GB, GB, GB])

    assert (how_long(result).time_s.middle, how_long(result).batches) == (41 + 21, 2)


def test_the_order_of_the_queue_affects_the_time() -> None:
    ways: list[Way] = [((1, 2, 3), (broker, 2, 3)) for broker in (4, 5, 6)]
    by_size = msgspec.structs.replace(START, partitions=2, order=Order.SIZE_DESC)
    sizes = [GB, GB, 2 * GB]

    assert time(*ways, limits=by_size, sizes=sizes).middle == 41
    by_topic = msgspec.structs.replace(by_size, order=Order.TOPIC)
    assert time(*ways, limits=by_topic, sizes=sizes).middle == 61
    by_plan = msgspec.structs.replace(by_size, order=Order.PLAN)
    assert time(*ways, limits=by_plan, sizes=sizes).middle == 61


def test_the_size_of_the_waiting_queue_does_not_change_the_figures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ways: list[Way] = [((1, 2, 3), (4 + n % 5, 2, 3)) for n in range(60)]
    sizes = [GB * (1 + n % 7) for n in range(60)]
    limits = [msgspec.structs.replace(START, order=order, partitions=4) for order in Order]
    whole = [figures(*ways, limits=each, sizes=sizes) for each in limits]

    monkeypatch.setattr(schedule_module, "_WAITING", 1)

    assert [figures(*ways, limits=each, sizes=sizes) for each in limits] == whole


def test_no_run_is_faster_than_its_busiest_broker() -> None:
    bound = least(figures(ONE, ONE, ONE))

    assert bound is not None
    assert (bound.broker, bound.time_s) == (4, Span(20, 40, 100))


@pytest.mark.parametrize(
    ("limit", "bottleneck", "seconds"),
    [
        ({}, Bottleneck.RECEIVER, 30),
        ({"replicas": 1}, Bottleneck.PARTITION, 60),
        ({"replicas": 1, "per_leader": 1}, Bottleneck.SENDER, 80),
        ({"replicas": 1, "partitions": 1}, Bottleneck.PARTITIONS, 80),
        ({"replicas": 1, "replica_movements": 1}, Bottleneck.REPLICAS, 80),
        ({"replicas": 1, "bytes_per_broker": 10**9}, Bottleneck.BROKER, 80),
    ],
)
def test_the_least_time_is_that_of_what_the_limits_leave_narrowest(
    limit: dict[str, int], bottleneck: Bottleneck, seconds: int
) -> None:
    # 1 GB at 50 MB/s alone: broker 1 sends all four replicas, broker 4 gets two of them
    ways: list[Way] = [((1, 2, 3), (4, 5, 6)), ((1, 2, 3), (1, 2, 4))]

    result = figures(*ways, limits=msgspec.structs.replace(Limits(), **limit))

    assert (least(result).bottleneck, least(result).time_s.middle) == (bottleneck, seconds)
    assert how_long(result).time_s.middle >= seconds


def test_what_three_brokers_copy_among_each_other_goes_one_by_one() -> None:
    # 1 GB at 50 MB/s each way: every broker takes part in two of the three copies
    ways: list[Way] = [((1,), (2,)), ((2,), (3,)), ((3,), (1,))]

    result = figures(*ways, limits=Limits(bytes_per_broker=10**9))

    assert (least(result).bottleneck, least(result).brokers) == (Bottleneck.BROKERS, (1, 2, 3))
    assert (least(result).time_s.middle, how_long(result).time_s.middle) == (60, 63)


def test_of_five_brokers_four_exchange_at_a_time() -> None:
    ways: list[Way] = [((a,), (b,)) for a in range(1, 6) for b in range(1, 6) if a < b]

    result = figures(*ways, limits=Limits(bytes_per_broker=10**9))

    assert (least(result).brokers, least(result).time_s.middle) == ((1, 2, 3, 4, 5), 100)


def test_a_step_that_exceeds_a_limit_and_goes_alone_is_in_the_least_time() -> None:
    result = figures(((1, 2, 3), (4, 5, 6)), limits=Limits(replica_movements=1, per_leader=1))

    assert (least(result).time_s.middle, how_long(result).time_s.middle) == (20, 26)


def test_a_given_rate_is_taken_as_exact() -> None:
    assert time(ONE, given=10e6) == Span(101, 101, 101)


def test_a_throttled_broker_never_exceeds_the_rate_of_its_throttle() -> None:
    configs = {4: BrokerConfig(follower_throttle_rate=5_000_000), 1: BrokerConfig()}

    result = figures(ONE, ((1, 2, 3), (5, 2, 3)), broker_configs=configs)

    assert throttled(result) == {4: 5_000_000}
    assert (how_long(result).time_s.low, how_long(result).time_s.high) == pytest.approx(
        (145, 573), abs=1
    )
    assert how_long(result).time_s.middle == 335
    least_s = least(result).time_s
    assert (least(result).broker, round(least_s.low), round(least_s.high)) == (4, 143, 571)


def test_a_given_rate_overrides_throttles() -> None:
    configs = {4: BrokerConfig(follower_throttle_rate=5_000_000)}

    assert time(ONE, given=10e6, broker_configs=configs).middle == 101


def test_unknown_sizes_leave_only_their_own_figures_unknown() -> None:
    failure = Failure(Operation.LOG_DIRS, "not authorized", broker=1, denied=True)
    ways: list[Way] = [ONE, ((2, 3, 1), (2, 3, 5))]

    result = figures(*ways, sizes=[None, GB], failures=(failure,), rooms={4: ROOMY, 5: ROOMY})

    assert (result.sizes_unknown, result.bytes_to_copy) == (1, None)
    assert result.how_long is None
    assert load(result, 4).bytes_in is None
    assert load(result, 4).room_bytes == 50 * GB
    assert load(result, 4).room_after_bytes is None
    assert load(result, 5).room_after_bytes == 49 * GB
    assert result.in_force.leader_epoch_bumps == 2
    assert kinds(result) == [FindingKind.DISKS_UNREADABLE]
    assert only(result) == (
        "the log dirs of broker 1 could not be read, so the size of 1 partition is not known: "
        "not authorized"
    )


def test_a_partition_that_only_loses_replicas_needs_no_size_for_its_time() -> None:
    result = figures(((1, 2, 3), (1, 2)), sizes=[None])

    assert (result.bytes_to_copy, how_long(result).time_s) == (0, Span(1, 1, 1))
    assert load(result, 3).bytes_out is None


def test_a_full_disk_is_forecast_as_a_warning() -> None:
    result = figures(ONE, sizes=[8 * GB], rooms={4: (100 * GB, 5 * GB)})

    assert load(result, 4).room_after_bytes == -3 * GB
    assert kinds(result) == [FindingKind.DISK_FULL]
    assert only(result) == (
        "broker 4 gets 7.5 GiB, has room for 4.7 GiB now, and would be full: 2.8 GiB too much"
    )


def test_a_disk_that_would_be_full_until_the_cut_is_a_warning() -> None:
    swap: list[Way] = [((1, 2, 3), (4, 2, 3)), ((4, 2, 3), (1, 2, 3))]
    rooms = {1: (100 * GB, 30 * GB), 4: (100 * GB, 6 * GB)}
    kip = msgspec.structs.replace(KIP, partitions=1)

    result = figures(*swap, sizes=[8 * GB, 8 * GB], rooms=rooms)
    other = figures(*swap, sizes=[8 * GB, 4 * GB], rooms=rooms, limits=kip)

    assert (load(result, 4).room_after_bytes, load(result, 4).room_at_peak_bytes) == (
        6 * GB,
        -2 * GB,
    )
    assert only(result) == (
        "broker 4 gets 7.5 GiB, has room for 5.6 GiB now, and would be full before old replicas "
        "leave it: 1.9 GiB too much"
    )
    assert load(other, 4).room_at_peak_bytes == -2 * GB


def test_replicas_that_leave_a_disk_make_room_for_later_ones() -> None:
    swap: list[Way] = [((4, 2, 3), (1, 2, 3)), ((1, 2, 3), (4, 2, 3))]
    rooms = {4: (100 * GB, 15 * GB)}
    kip = msgspec.structs.replace(KIP, partitions=1)

    result = figures(*swap, sizes=[8 * GB, 8 * GB], rooms=rooms, limits=kip)

    assert load(result, 4).room_at_peak_bytes == 15 * GB
    assert result.findings == ()


def test_a_disk_with_less_than_a_tenth_left_is_a_warning() -> None:
    result = figures(ONE, sizes=[8 * GB], rooms={4: (100 * GB, 15 * GB)})

    assert kinds(result) == [FindingKind.DISK_LOW]
    assert only(result).endswith("now, and would have 6.5 GiB, 7% of its disk, left")


def test_offline_and_cordoned_log_dirs_are_no_room_and_offline_ones_a_warning() -> None:
    offline = LogDir(4, "/a", error="KAFKA_STORAGE_ERROR")
    working = LogDir(4, "/b", total_bytes=100 * GB, usable_bytes=50 * GB)
    closed = LogDir(4, "/c", total_bytes=100 * GB, usable_bytes=50 * GB, cordoned=True)

    one_offline = figures(ONE, log_dirs={4: (offline, working)})
    one_cordoned = figures(ONE, log_dirs={4: (working, closed)})
    all_cordoned = figures(ONE, log_dirs={4: (closed, offline)})

    assert load(one_offline, 4).room_bytes == load(one_cordoned, 4).room_bytes == 50 * GB
    assert load(all_cordoned, 4).room_bytes is None
    assert only(one_offline) == (
        "broker 4 gets 1 replica, and a log dir is offline: /a (KAFKA_STORAGE_ERROR)"
    )
    assert one_cordoned.findings == ()
    assert kinds(all_cordoned) == [FindingKind.LOG_DIR_OFFLINE]


def test_a_broker_that_gains_nothing_is_not_judged_by_its_disks() -> None:
    full = LogDir(1, "/a", total_bytes=100 * GB, usable_bytes=0, cordoned=True)

    assert figures(ONE, log_dirs={1: (full,)}).findings == ()


def test_a_step_beyond_the_limits_is_reported_as_going_alone() -> None:
    limits = Limits(replicas=3, partitions=6, replica_movements=2)

    result = figures(ONE, ALL, limits=limits)

    assert result.findings[0].partitions == (tp(1),)
    assert only(result) == (
        "a step adds more replicas than --replica-movements 2 allows, and goes alone, when nothing "
        "else moves: orders-1"
    )
    assert figures(ONE, ALL, limits=START).findings == ()


def test_replicas_added_to_reach_min_isr_are_bound_by_no_limit() -> None:
    limits = Limits(replicas=1, partitions=6, replica_movements=1)

    assert figures(((1,), (1, 2, 3)), limits=limits, min_isr=3).findings == ()


def test_one_base_serves_preflights_under_several_limits() -> None:
    ways, again = [ONE, ALL, ONE], msgspec.structs.replace(START, partitions=1)
    ground = base(a_plan(*ways), a_snapshot(*ways))

    for limits in (START, KIP, again, START):
        assert ground.under(Terms(limits=limits)) == figures(*ways, limits=limits)


STAYS: Way = ((3, 2, 1), (3, 2, 1))


def shares(*ways: Way) -> dict[int, BrokerShare]:
    return {each.broker: each for each in broker_shares(a_plan(*ways), a_snapshot(*ways))}


def test_a_broker_gains_and_loses_replicas_and_leaders() -> None:
    found = shares(ONE, ALL, STAYS)

    assert found[1] == BrokerShare(
        broker=1, replicas=3, gains=0, loses=2, leaders=2, leaders_after=0
    )
    assert (found[4].replicas, found[4].replicas_after, found[4].leaders_after) == (0, 2, 2)
    assert (found[2].replicas, found[2].replicas_after) == (3, 2)
    assert found[2].changes


def test_a_broker_that_the_plan_leaves_alone_does_not_change() -> None:
    found = shares(STAYS, ((1, 2), (1, 4)))

    assert not found[3].changes
    assert (found[3].leaders, found[3].leaders_after) == (1, 1)
    assert found[2].changes


def test_partitions_outside_the_plan_count_with_their_topic() -> None:
    plan, cluster = a_plan(ONE), a_snapshot(ONE, STAYS)
    found = {each.broker: each for each in broker_shares(plan, cluster)}

    assert (found[3].replicas, found[3].leaders) == (2, 1)
    assert (found[1].replicas, found[1].replicas_after) == (2, 1)


OTHER: Way = ((1, 2, 3), (5, 2, 3))
ROOMS = {1: (100 * GB, 50 * GB), 4: (100 * GB, 40 * GB)}


def printed(*ways: Way, limits: Limits = START, known: Capacity | None = None, **more: Any) -> str:
    return "\n".join(lines(preflight(a_plan(*ways), a_snapshot(*ways, **more), limits, known)))


def test_a_preflight_fits_a_narrow_terminal_in_blocks() -> None:
    text = printed(ONE, ((1, 2, 3), (1, 2, 3)), rooms=ROOMS)

    assert text.splitlines() == [
        "partitions in the plan         2",
        "already at their target        1",
        "replica movements              1",
        "leader movements               1",
        "to be copied             954 MiB",
        "batches, about                 2",
        "",
        "BROKER  GAINS  LOSES       IN      OUT  ROOM NOW   AFTER  AT PEAK",
        "     1      0      1      0 B  954 MiB    47 GiB  47 GiB   47 GiB",
        "     4      1      0  954 MiB      0 B    37 GiB  36 GiB   36 GiB",
        "",
        "shape                         gentle, chosen  kip-435",
        "reassignments sent            2               2",
        "elections sent                0               1",
        "leader epoch bumps            1               2",
        "extra replicas at peak        1               1",
        "most replicas of a partition  4               4",
        "until they are dropped, monitors see the extra replicas as a higher factor",
        "",
        "time  about 21 s (11 to 51), assumed; broker 4 receives the most",
    ]
    assert max(map(len, text.splitlines())) <= 80


def test_a_plan_with_nothing_to_do_has_no_time() -> None:
    assert printed(((1, 2, 3), (1, 2, 3))).splitlines()[-1] == "leader movements         0"


def test_a_disk_that_lacks_room_is_shown_with_a_negative_figure() -> None:
    assert "     4      1      0  7.5 GiB      0 B   1.9 GiB  -5.6 GiB  -5.6 GiB" in printed(
        ONE, sizes=[8 * GB], rooms={4: (100 * GB, 2 * GB)}
    )


def test_unknown_figures_are_a_dash_with_the_reason() -> None:
    text = printed(ONE, OTHER, sizes=[None, GB])

    assert "to be copied             -" in text
    assert "     4      1      0        -    -         -      -        -" in text
    assert text.splitlines()[-1] == "time  unknown: the size of 1 partition is not known"


def test_the_time_says_whether_it_is_assumed_given_or_by_earlier_runs() -> None:
    curve = RateCurve(most_bytes_s=60e6, half_at=0.5, most_at_once=8, unthrottled_runs=3)
    earlier = Prior(Spread(1e6, 2e6, 3e6, 9), 1.0, curve, runs=3)

    given, learnt = Capacity(given=80e6), Capacity(earlier)

    assert "time  about 21 s (11 to 51), assumed; broker 4" in printed(ONE)
    assert "time  about 14 s, at 80 MB/s, as given; broker 4" in printed(ONE, known=given)
    assert "time  about 27 s (22 to 33), by 3 earlier runs; broker 4" in printed(ONE, known=learnt)


def test_a_throttle_that_the_time_counts_with_is_shown() -> None:
    configs = {b: BrokerConfig(follower_throttle_rate=r) for b, r in ((4, 5 * 10**6), (5, 10**8))}

    own = printed(ONE, OTHER, broker_configs=configs).splitlines()[-1]
    lower = printed(ONE, OTHER, known=Capacity(given=80e6), broker_configs=configs).splitlines()[-1]

    assert own == "throttled already: 5.0 MB/s into broker 4, 100 MB/s into broker 5"
    assert "throttled" not in lower


def test_both_shapes_are_one_column_when_all_replicas_are_added_at_once() -> None:
    text = printed(ONE, limits=Limits(partitions=6))

    assert "\nshape                         all at once\nreassignments sent            1\n" in text


def test_batches_of_waves_are_called_waves() -> None:
    waves = msgspec.structs.replace(START, partitions=1, mode=Mode.WAVE)

    assert "\nwaves                          2\n" in printed(ONE, OTHER, limits=waves)
