"""A preflight says what a throttle does to a run, each time with the number that would do."""

from __future__ import annotations

from typing import Any

import pytest

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.ports import ConfigSource, Setting
from ktui.cluster.throttle_settings import FOLLOWER_RATE, LEADER_RATE, LONGEST_LIST
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Finding, FindingKind, Severity
from ktui.planning.preflight.preflight import Preflight, PreflightBase, preflight
from ktui.planning.preflight.text import lines
from ktui.planning.preflight.throttle_findings import STALLED_AFTER_S
from ktui.planning.simulate.copy_rates import BrokerThrottle
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.progress import stalls
from ktui.units import Rate
from support.cli.preflights import Way, a_plan, a_snapshot, tp

MB = 10**6
ONE: Way = ((1, 2, 3), (4, 2, 3))
ALL: Way = ((1, 2, 3), (4, 5, 6))
START = Limits(replicas=1, partitions=6)


def foreseen(
    *ways: Way,
    throttle: str,
    limits: Limits = START,
    inbound: tuple[int, ...] | None = None,
    leaders: bool = False,
    assume: float | None = None,
    **more: Any,
) -> Preflight:
    """A preflight under a throttle; nothing is written to the partitions unless it is said."""
    written = inbound if inbound is not None else (0,) * len(ways)
    snapshot = a_snapshot(*ways, inbound={tp(n): b for n, b in enumerate(written)}, **more)
    rate = None if assume is None else Rate(assume)
    return preflight(
        a_plan(*ways),
        snapshot,
        limits,
        rate,
        parse_throttle_rates(throttle),
        throttle_leaders=leaders,
    )


def only(told: Preflight) -> Finding:
    (finding,) = told.warnings
    return finding


def throttles(told: Preflight) -> dict[int, int]:
    return {each.broker: each.bytes_s for each in told.rates.throttles}


def test_the_estimate_goes_by_the_throttle_that_will_be_in_force() -> None:
    there = {4: BrokerConfig(follower_throttle_rate=1 * MB)}

    told = foreseen(ONE, throttle="10MB", broker_configs=there)

    assert told.rates.throttles == (BrokerThrottle(4, 10 * MB),)
    assert told.time_s is not None
    assert told.time_s.middle == 101
    assert lines(told)[-1].strip() == "at 10 MB/s into broker 4, which is throttled"


def test_each_broker_has_its_own_rate_and_keeps_what_is_there_where_it_has_none() -> None:
    there = {5: BrokerConfig(follower_throttle_rate=3 * MB)}

    told = foreseen(ALL, throttle="10MB,5=none,6=2MB", broker_configs=there)

    assert throttles(told) == {4: 10 * MB, 5: 3 * MB, 6: 2 * MB}


def test_of_an_assumed_rate_and_a_throttle_the_lower_counts() -> None:
    told = foreseen(ALL, throttle="10MB,6=2MB", assume=5e6)

    assert throttles(told) == {6: 2 * MB}
    assert told.rates.of(4) == 5e6


def test_the_throttle_is_worked_out_anew_as_it_is_typed() -> None:
    ground = PreflightBase(a_plan(ONE), a_snapshot(ONE, inbound={tp(0): 12 * MB}))

    low = ground.under(START, throttle=parse_throttle_rates("10MB"))
    high = ground.under(START, throttle=parse_throttle_rates("20MB"))

    assert [found.kind for found in low.warnings] == [FindingKind.NEVER_ENDS]
    assert (high.warnings, throttles(high)) == ((), {4: 20 * MB})
    assert ground.under(START).warnings == ()


@pytest.mark.parametrize("rate", ["12MB", "10MB"])
def test_a_rate_at_or_under_what_is_written_to_one_partition_never_ends(rate: str) -> None:
    found = only(foreseen(ONE, ALL, throttle=rate, inbound=(12 * MB, 1 * MB), limits=FEW))

    assert (found.severity, found.kind) == (Severity.WARNING, FindingKind.NEVER_ENDS)
    assert found.partitions == (tp(0),)
    assert found.sentence == (
        f"at {rate[:2]} MB/s into broker 4 the run never ends: 12 MB/s are written to orders-0; "
        "more than 12 MB/s would end it"
    )


FEW = Limits(replicas=1, partitions=1)


def test_what_shares_the_rate_with_it_is_counted_in_the_number_that_would_do() -> None:
    told = foreseen(ONE, ONE, throttle="10MB", inbound=(12 * MB, 9 * MB))

    assert only(told).sentence.endswith(
        "more than 12 MB/s would end it with --per-broker 1, more than 21 MB/s under these limits"
    )
    assert "where the throttle lets it end" in "\n".join(lines(told))


def test_a_rate_under_what_comes_at_once_may_never_end_and_a_limit_would_end_it() -> None:
    ways, inbound = (ONE, ONE, ONE), (6 * MB, 5 * MB, 4 * MB)

    assert only(foreseen(*ways, throttle="12MB", inbound=inbound)).sentence == (
        "at 12 MB/s into broker 4 the run may never end: up to 15 MB/s are written to what comes "
        "to one broker at once; --per-broker 2 would end it, or more than 15 MB/s"
    )
    two = Limits(replicas=1, partitions=6, per_broker=2)
    assert foreseen(*ways, throttle="12MB", inbound=inbound, limits=two).warnings == ()
    assert foreseen(*ways, throttle="15000001", inbound=inbound).warnings == ()


@pytest.mark.parametrize(
    "limits",
    [
        Limits(replicas=1, partitions=2),
        Limits(replicas=1, per_broker=2),
        Limits(replicas=1, replica_movements=2),
    ],
)
def test_what_the_limits_keep_apart_does_not_share_the_rate(limits: Limits) -> None:
    told = foreseen(ONE, ONE, ONE, throttle="9MB", inbound=(4 * MB,) * 3, limits=limits)

    assert told.warnings == ()


def test_the_number_that_would_do_is_never_rounded_down() -> None:
    sentence = only(foreseen(ONE, throttle="1MB", inbound=(12_345_678,))).sentence

    assert "more than 13 MB/s would end it" in sentence


def test_a_rate_at_which_one_fetch_outlasts_the_stall_alarm_is_told() -> None:
    told = only(foreseen(ALL, throttle="20kB"))

    assert told.kind is FindingKind.SLOWER_THAN_A_FETCH
    assert told.sentence == (
        "at 20 kB/s into brokers 4, 5 and 6 one fetch of 1 MiB takes 52 s: copies are shown as "
        "stalled in between; from 35 kB/s on they are not"
    )
    assert foreseen(ALL, throttle="35kB").warnings == ()
    assert STALLED_AFTER_S == stalls.STALLED_AFTER_S


def test_where_the_inbound_rate_is_not_known_that_is_said_with_the_reason() -> None:
    failure = Failure(Operation.LOG_ENDS, "no answer", broker=1)

    told = only(foreseen(ONE, ALL, throttle="10MB", inbound=(0,), failures=(failure,)))

    assert (told.severity, told.kind, told.partitions) == (
        Severity.NOTE,
        FindingKind.INBOUND_UNKNOWN,
        (tp(1),),
    )
    assert told.sentence == (
        "how much is written to orders-1 is not known, nor whether the throttle lets through more"
        ": broker 1: log ends: no answer"
    )


def test_throttled_leaders_come_with_their_warning_and_whom_they_may_starve() -> None:
    told = foreseen(ALL, throttle="20MB", inbound=(5 * MB,), leaders=True)
    alone = Limits(partitions=1)

    warned = (
        "--throttle-leaders: what in-sync followers fetch of the partitions in flight counts "
        "against the rate of their leaders, too, and goes first"
    )
    assert only(foreseen(ALL, throttle="20MB", leaders=True)).sentence == warned
    assert only(told).sentence == (
        f"{warned}: on broker 1 it is up to 25 MB/s with the new ones, no less than the rate, so "
        "that they may never catch up; more than 25 MB/s would do, or no --throttle-leaders"
    )
    enough = foreseen(ALL, throttle="26MB", inbound=(5 * MB,), leaders=True, limits=alone)
    assert only(enough).sentence == warned


def test_where_nothing_is_copied_there_is_nothing_to_say_of_a_throttle() -> None:
    reorder: Way = ((1, 2, 3), (3, 2, 1))

    assert foreseen(reorder, throttle="1", leaders=True).warnings == ()


def test_someone_elses_rate_is_said_to_be_put_back_and_where_it_comes_from() -> None:
    config = BrokerConfig(follower_throttle_rate=5 * MB, leader_throttle_rate=6 * MB)
    there = dict.fromkeys((1, 4, 5, 6), config)
    sources = {
        4: {FOLLOWER_RATE: Setting("5000000", ConfigSource.EVERY_BROKER)},
        5: {FOLLOWER_RATE: Setting("5000000", ConfigSource.OWN)},
        6: {FOLLOWER_RATE: Setting("5000000", ConfigSource.FILE)},
    }

    told = foreseen(ALL, throttle="20MB", broker_configs=there, rates=sources).warnings

    end = "20 MB/s takes its place while the run needs it, and it is put back after"
    assert [found.sentence for found in told] == [
        f"broker 5 has a {FOLLOWER_RATE} of 5.0 MB/s already: {end}",
        f"broker 4 has a {FOLLOWER_RATE} of 5.0 MB/s already, set for every broker: {end}",
        f"broker 6 has a {FOLLOWER_RATE} of 5.0 MB/s already, set in a file: {end}",
    ]
    leaders = foreseen(ALL, throttle="20MB,4=5MB,5=none,6=5MB", broker_configs=there, leaders=True)
    assert [f.sentence for f in leaders.warnings if f.kind is FindingKind.THROTTLE_REPLACED] == [
        f"broker 1 has a {LEADER_RATE} of 6.0 MB/s already: {end}"
    ]


@pytest.mark.parametrize(
    ("listed", "what"), [("*", "all replicas"), ("7:9,0:4", "replicas"), ("0:9", None)]
)
def test_replicas_that_others_have_listed_are_said_to_be_bound_too(
    listed: str, what: str | None
) -> None:
    configs = {"orders": TopicConfig(follower_throttled_replicas=listed)}

    told = foreseen(ONE, throttle="20MB", configs=configs).warnings

    sentence = (
        f"someone else has {what} of orders in follower.replication.throttled.replicas: the run "
        "leaves that as it is, and its rates on broker 4 bind them, too, also those in sync"
    )
    assert [found.sentence for found in told] == ([] if what is None else [sentence])


MANY = [ALL] * 4_000


def longest(told: Preflight) -> str:
    return next(f.sentence for f in told.warnings if f.kind is FindingKind.LIST_TOO_LONG)


def test_a_list_that_may_grow_too_long_is_told_with_the_partitions_that_would_do() -> None:
    whole = sum(3 * len(f"{number}:4,") for number in range(4_000))

    told = foreseen(*MANY, throttle="1GB", limits=Limits())

    assert longest(told) == (
        f"follower.replication.throttled.replicas of orders may grow to {whole:,} bytes under "
        "these limits, and Kafka takes 32,767: steps wait until there is room; --partitions 1560 "
        "would do"
    )
    assert 1_560 * 3 * len("1000:4,") <= LONGEST_LIST < 1_561 * 3 * len("1000:4,")


@pytest.mark.parametrize(
    "limits",
    [Limits(partitions=1_560), Limits(replica_movements=4_000), Limits(replicas=1)],
)
def test_a_list_that_the_limits_keep_short_is_not_told(limits: Limits) -> None:
    assert foreseen(*MANY, throttle="1GB", limits=limits).warnings == ()


def test_entries_of_others_take_room_and_a_list_of_all_needs_none() -> None:
    theirs = ",".join(f"{number}:9" for number in range(5_000, 6_000))
    listed = {"orders": TopicConfig(follower_throttled_replicas=theirs)}
    everything = {"orders": TopicConfig(follower_throttled_replicas="*")}

    told = longest(foreseen(*MANY, throttle="1GB", limits=Limits(replicas=1), configs=listed))

    assert ", of which someone else's entries take 7,000: " in told
    assert told.endswith("--partitions 3794 would do")
    kinds = {
        f.kind
        for f in foreseen(*MANY, throttle="1GB", limits=Limits(), configs=everything).warnings
    }
    assert kinds == {FindingKind.OTHERS_THROTTLED}


def test_the_list_of_leaders_holds_all_replicas_that_may_lead() -> None:
    limits = Limits(replicas=1, partitions=1_000)

    told = longest(foreseen(*MANY, throttle="1GB", limits=limits, leaders=True))

    assert told.startswith("leader.replication.throttled.replicas of orders may grow to 42,000 ")
    assert told.endswith("--partitions 780 would do")
