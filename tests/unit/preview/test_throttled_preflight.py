"""A preflight predicts what a throttle does to a run, with the rate or limit that would do."""

from typing import Any

import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.partition import PartitionState
from ktui.cluster.ports import ConfigSource, Setting
from ktui.cluster.settings import FOLLOWER_RATE, LEADER_RATE, LONGEST_LIST
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, Option, Severity
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.preview.facts import Terms
from ktui.preview.preview import PlanPreview
from ktui.preview.text import lines
from ktui.speed.capacity import Capacity
from support.cli.start_sandbox import (
    Way,
    a_plan,
    a_snapshot,
    base,
    how_long,
    preflight,
    throttled,
    tp,
)

MB = 10**6
ONE: Way = ((1, 2, 3), (4, 2, 3))
ALL: Way = ((1, 2, 3), (4, 5, 6))
START = Limits(replicas=1, partitions=6)


def forecast(
    *ways: Way,
    throttle: str,
    limits: Limits = START,
    inbound: tuple[int, ...] | None = None,
    leaders: bool = False,
    given: float | None = None,
    **more: Any,
) -> PlanPreview:
    """Return a preflight under a throttle; partitions have no writes unless `inbound` is given."""
    written = inbound if inbound is not None else (0,) * len(ways)
    snapshot = a_snapshot(*ways, inbound={tp(n): b for n, b in enumerate(written)}, **more)
    return preflight(
        a_plan(*ways),
        snapshot,
        limits,
        Capacity(given=given),
        parse_throttle_rates(throttle),
        throttle_leaders=leaders,
    )


def only(result: PlanPreview) -> Finding:
    (finding,) = result.findings
    return finding


def test_the_estimate_uses_the_throttle_that_will_be_in_force() -> None:
    existing = {4: BrokerConfig(follower_throttle_rate=1 * MB)}

    result = forecast(ONE, throttle="10MB", broker_configs=existing)

    assert throttled(result) == {4: 10 * MB}
    assert (how_long(result).time_s.low, how_long(result).time_s.middle) == pytest.approx(
        (73, 168), abs=1
    )
    assert lines(result)[-1] == "throttle  10 MB/s into each broker"


def test_a_broker_without_a_new_rate_keeps_the_one_it_has() -> None:
    existing = {5: BrokerConfig(follower_throttle_rate=3 * MB)}

    result = forecast(ALL, throttle="10MB,5=none,6=2MB", broker_configs=existing)

    assert throttled(result) == {4: 10 * MB, 5: 3 * MB, 6: 2 * MB}


def test_the_lower_of_a_given_rate_and_a_throttle_counts() -> None:
    result = forecast(ALL, throttle="10MB,6=2MB", given=5e6)

    assert throttled(result) == {6: 2 * MB}
    assert how_long(result).time_s.middle == 901


def test_the_preflight_is_computed_again_for_each_typed_throttle() -> None:
    ground = base(a_plan(ONE), a_snapshot(ONE, inbound={tp(0): 12 * MB}))

    low = ground.under(Terms(limits=START, throttle=parse_throttle_rates("10MB")))
    high = ground.under(Terms(limits=START, throttle=parse_throttle_rates("20MB")))

    assert [found.kind for found in low.findings] == [FindingKind.NEVER_ENDS]
    assert (high.findings, throttled(high)) == ((), {4: 20 * MB})
    assert ground.under(Terms(limits=START)).findings == ()


@pytest.mark.parametrize("rate", ["12MB", "10MB"])
def test_a_throttle_at_or_below_the_writes_to_a_partition_never_ends(rate: str) -> None:
    found = only(forecast(ONE, ALL, throttle=rate, inbound=(12 * MB, 1 * MB), limits=FEW))

    assert (found.severity, found.kind) == (Severity.WARNING, FindingKind.NEVER_ENDS)
    assert (found.partitions, found.option) == ((tp(0),), None)
    assert found.sentence == (
        f"at {rate[:2]} MB/s into broker 4 the run will never finish: 12 MB/s are written to "
        "orders-0; it needs more than 12 MB/s"
    )


FEW = Limits(replicas=1, partitions=1)


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("50", "50MB"), ("50kB", "50MB"), ("50,4=20", "50MB,4=20MB"), ("total=400", "50MB")],
)
def test_a_rate_under_which_no_copy_ends_is_a_problem_that_names_the_rate_that_was_meant(
    typed: str, meant: str
) -> None:
    meant = "total=400MB" if typed.startswith("total") else meant

    found = only_problem(forecast(ALL, ALL, throttle=typed, inbound=(2 * MB, 1 * MB)))

    assert (found.kind, found.option) == (FindingKind.NEVER_ENDS, Option.SLOW)
    assert found.sentence.endswith(f". Did you mean {meant}?")


def test_a_rate_in_megabytes_under_which_no_copy_ends_is_a_problem_with_one_that_would() -> None:
    found = only_problem(forecast(ONE, throttle="10MB", inbound=(12 * MB,)))

    assert found.sentence == (
        "at 10 MB/s into broker 4 the run will never finish: 12 MB/s are written to orders-0; it "
        "needs more than 12 MB/s"
    )


def test_a_rate_that_takes_more_than_a_month_for_each_copy_is_a_problem_without_writes() -> None:
    found = only_problem(forecast(ONE, throttle="50"))

    assert found.sentence == (
        "at 50 B/s into broker 4 no copy ends within 30d; it needs more than 386 B/s. Did you mean "
        "50MB?"
    )
    assert problems(forecast(ONE, throttle="387")) == []


def test_a_rate_just_above_what_is_written_is_no_problem_of_a_small_partition() -> None:
    assert problems(forecast(ONE, throttle="12000001", inbound=(12 * MB,))) == []


def test_a_rate_is_refused_for_the_size_too_where_one_above_the_writes_would_not_be_enough() -> (
    None
):
    writes, size = problems(forecast(ONE, throttle="50", inbound=(60,)))

    assert "it needs more than 60 B/s" in writes.sentence
    assert "it needs more than 386 B/s" in size.sentence
    assert len(problems(forecast(ONE, throttle="50", inbound=(400,)))) == 1


def test_a_rate_under_which_one_copy_ends_or_may_end_is_no_problem() -> None:
    one_ends = forecast(ONE, ONE, throttle="10MB", inbound=(12 * MB, 9 * MB))
    unknown = preflight(
        a_plan(ONE), a_snapshot(ONE, inbound={}), START, None, parse_throttle_rates("50")
    )
    free = forecast(ONE, ALL, throttle="50,5=none,6=none,4=none", inbound=(MB, MB))

    for result in (one_ends, unknown, free):
        assert all(each.severity is not Severity.PROBLEM for each in result.findings)


def test_an_operator_may_insist_on_a_rate_under_which_no_copy_ends() -> None:
    snapshot, rate = a_snapshot(ONE, inbound={tp(0): 12 * MB}), parse_throttle_rates("50")

    result = preflight(a_plan(ONE), snapshot, START, None, rate, slow=True)

    never = result.findings[0]
    assert (never.severity, never.option) == (Severity.WARNING, Option.SLOW)


def only_problem(result: PlanPreview) -> Finding:
    (finding, *_) = problems(result)
    return finding


def problems(result: PlanPreview) -> list[Finding]:
    return [each for each in result.findings if each.severity is Severity.PROBLEM]


def test_the_sufficient_rate_counts_the_copies_that_share_it() -> None:
    result = forecast(ONE, ONE, throttle="10MB", inbound=(12 * MB, 9 * MB))

    assert only(result).sentence.endswith(
        "it needs more than 12 MB/s with --per-broker 1, more than 21 MB/s under these limits"
    )
    assert "where the throttle lets it end" in "\n".join(lines(result))


def test_a_throttle_below_concurrent_writes_may_never_end_and_suggests_a_limit() -> None:
    ways, inbound = (ONE, ONE, ONE), (6 * MB, 5 * MB, 4 * MB)

    assert only(forecast(*ways, throttle="12MB", inbound=inbound)).sentence == (
        "at 12 MB/s into broker 4 the run may never finish: up to 15 MB/s are written at once to "
        "the replicas copied to one broker; it needs --per-broker 2, or more than 15 MB/s"
    )
    two = Limits(replicas=1, partitions=6, per_broker=2)
    assert forecast(*ways, throttle="12MB", inbound=inbound, limits=two).findings == ()
    assert forecast(*ways, throttle="15000001", inbound=inbound).findings == ()


@pytest.mark.parametrize(
    "limits",
    [
        Limits(replicas=1, partitions=2),
        Limits(replicas=1, per_broker=2),
        Limits(replicas=1, replica_movements=2),
    ],
)
def test_partitions_that_the_limits_keep_apart_do_not_share_a_rate(limits: Limits) -> None:
    result = forecast(ONE, ONE, ONE, throttle="9MB", inbound=(4 * MB,) * 3, limits=limits)

    assert result.findings == ()


def test_the_sufficient_rate_is_never_rounded_down() -> None:
    sentence = only(forecast(ONE, throttle="1MB", inbound=(12_345_678,))).sentence

    assert "it needs more than 13 MB/s" in sentence


def test_a_rate_too_low_for_one_fetch_before_the_stall_alarm_is_a_warning() -> None:
    result = only(forecast(ALL, throttle="20kB"))

    assert result.kind is FindingKind.SLOWER_THAN_A_FETCH
    assert result.sentence == (
        "at 20 kB/s into brokers 4, 5 and 6 one fetch of 1 MiB takes 52 s: copies are shown as "
        "stalled in between; from 35 kB/s on they are not"
    )
    assert forecast(ALL, throttle="35kB").findings == ()
    without_unit = only(forecast(ALL, throttle="900"))
    assert without_unit.sentence.endswith("Did you mean 900MB?")


def test_an_unknown_inbound_rate_is_noted_with_the_reason() -> None:
    failure = Failure(Operation.LOG_ENDS, "no answer", broker=1)

    result = only(forecast(ONE, ALL, throttle="10MB", inbound=(0,), failures=(failure,)))

    assert (result.severity, result.kind, result.partitions) == (
        Severity.NOTE,
        FindingKind.INBOUND_UNKNOWN,
        (tp(1),),
    )
    assert result.sentence == (
        "how much is written to orders-1 is not known, nor whether the throttle lets through more"
        ": broker 1: log ends: no answer"
    )


def test_throttled_leaders_are_a_warning_with_the_followers_they_may_starve() -> None:
    result = forecast(ALL, throttle="20MB", inbound=(5 * MB,), leaders=True)
    alone = Limits(partitions=1)

    warning = (
        "--throttle-leaders: what in-sync followers fetch of the partitions in flight counts "
        "against the rate of their leaders, too, and goes first"
    )
    assert only(forecast(ALL, throttle="20MB", leaders=True)).sentence == warning
    assert only(result).sentence == (
        f"{warning}: on broker 1 it is up to 25 MB/s with the new ones, no less than the rate, so "
        "that they may never catch up; more than 25 MB/s would do, or no --throttle-leaders"
    )
    enough = forecast(ALL, throttle="26MB", inbound=(5 * MB,), leaders=True, limits=alone)
    assert only(enough).sentence == warning


def test_a_plan_without_copies_has_no_throttle_warnings() -> None:
    reorder: Way = ((1, 2, 3), (3, 2, 1))

    assert forecast(reorder, throttle="1", leaders=True).findings == ()


def test_someone_elses_rate_is_reported_with_its_source_and_as_restored_later() -> None:
    config = BrokerConfig(follower_throttle_rate=5 * MB, leader_throttle_rate=6 * MB)
    existing = dict.fromkeys((1, 4, 5, 6), config)
    sources = {
        4: {FOLLOWER_RATE: Setting("5000000", ConfigSource.EVERY_BROKER)},
        5: {FOLLOWER_RATE: Setting("5000000", ConfigSource.OWN)},
        6: {FOLLOWER_RATE: Setting("5000000", ConfigSource.FILE)},
    }

    result = forecast(ALL, throttle="20MB", broker_configs=existing, rates=sources).findings

    end = "20 MB/s takes its place while the run needs it, and it is put back after"
    assert [found.sentence for found in result] == [
        f"broker 5 has a {FOLLOWER_RATE} of 5.0 MB/s already: {end}",
        f"broker 4 has a {FOLLOWER_RATE} of 5.0 MB/s already, set for every broker: {end}",
        f"broker 6 has a {FOLLOWER_RATE} of 5.0 MB/s already, set in a file: {end}",
    ]
    leaders = forecast(
        ALL, throttle="20MB,4=5MB,5=none,6=5MB", broker_configs=existing, leaders=True
    )
    assert [f.sentence for f in leaders.findings if f.kind is FindingKind.THROTTLE_REPLACED] == [
        f"broker 1 has a {LEADER_RATE} of 6.0 MB/s already: {end}"
    ]


def test_a_rate_under_which_a_broker_recovers_is_reported_before_it_is_replaced() -> None:
    behind = PartitionState(tp(1), None, (1, 2, 4), (1, 2), 1)
    states = {**a_snapshot(ONE).partitions, tp(1): behind}

    (found, _) = forecast(
        ONE,
        throttle="20MB",
        partitions=states,
        configs={"orders": TopicConfig(follower_throttled_replicas="*")},
        broker_configs={4: BrokerConfig(follower_throttle_rate=5 * MB)},
    ).findings

    assert found.sentence.endswith(
        "It is in use for 1 replica out of sync, which would catch up at 20 MB/s then: wait until "
        "all are in sync, or give --throttle 5000000"
    )


@pytest.mark.parametrize(
    ("listed", "what"), [("*", "all replicas"), ("7:9,0:4", "replicas"), ("0:9", None)]
)
def test_replicas_that_others_have_listed_are_reported_as_throttled_too(
    listed: str, what: str | None
) -> None:
    configs = {"orders": TopicConfig(follower_throttled_replicas=listed)}

    result = forecast(ONE, throttle="20MB", configs=configs).findings

    sentence = (
        f"someone else has {what} of orders in follower.replication.throttled.replicas: the run "
        "leaves that as it is, and its rates on broker 4 bind them too, even those in sync"
    )
    assert [found.sentence for found in result] == ([] if what is None else [sentence])


MANY = [ALL] * 4_000


def longest(result: PlanPreview) -> str:
    return next(f.sentence for f in result.findings if f.kind is FindingKind.LIST_TOO_LONG)


def test_a_list_that_may_grow_too_long_is_a_warning_with_the_limit_that_avoids_it() -> None:
    whole = sum(3 * len(f"{number}:4,") for number in range(4_000))

    result = forecast(*MANY, throttle="1GB", limits=Limits())

    assert longest(result) == (
        f"follower.replication.throttled.replicas of orders may grow to {whole:,} bytes under "
        "these limits, and Kafka takes 32,767: steps wait until there is room; --partitions 1560 "
        "would do"
    )
    assert 1_560 * 3 * len("1000:4,") <= LONGEST_LIST < 1_561 * 3 * len("1000:4,")


@pytest.mark.parametrize(
    "limits", [Limits(partitions=1_560), Limits(replica_movements=4_000), Limits(replicas=1)]
)
def test_a_list_that_the_limits_keep_short_is_no_warning(limits: Limits) -> None:
    assert forecast(*MANY, throttle="1GB", limits=limits).findings == ()


def test_entries_of_others_count_towards_the_list_and_a_wildcard_does_not() -> None:
    theirs = ",".join(f"{number}:9" for number in range(5_000, 6_000))
    listed = {"orders": TopicConfig(follower_throttled_replicas=theirs)}
    everything = {"orders": TopicConfig(follower_throttled_replicas="*")}

    result = longest(forecast(*MANY, throttle="1GB", limits=Limits(replicas=1), configs=listed))

    assert ", of which someone else's entries take 7,000: " in result
    assert result.endswith("--partitions 3794 would do")
    kinds = {
        f.kind
        for f in forecast(*MANY, throttle="1GB", limits=Limits(), configs=everything).findings
    }
    assert kinds == {FindingKind.OTHERS_THROTTLED}


def test_the_list_of_leaders_counts_all_replicas_that_may_lead() -> None:
    limits = Limits(replicas=1, partitions=1_000)

    result = longest(forecast(*MANY, throttle="1GB", limits=limits, leaders=True))

    assert result.startswith("leader.replication.throttled.replicas of orders may grow to 42,000 ")
    assert result.endswith("--partitions 780 would do")
