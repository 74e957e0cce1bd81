"""Parsing of limits as typed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.pacing.limits import (
    NUMBERS,
    InternalOrder,
    Limits,
    LimitsProblem,
    Mode,
    Order,
    Shape,
    default_limits,
    limit_text,
    parse_limits,
)


def problem(**options: object) -> str:
    with pytest.raises(LimitsProblem) as raised:
        parse_limits({name.replace("_", "-"): value for name, value in options.items()})
    return str(raised.value)


def test_a_limit_that_no_cluster_reaches_is_refused() -> None:
    assert "is too large" in problem(replicas=10**30)


def test_every_limit_has_the_name_of_its_option() -> None:
    typed: dict[str, object] = {f"--{name}": str(n) for n, name in enumerate(NUMBERS, 1)}
    typed |= {"--bytes-in-flight": "2GiB", "--bytes-per-broker": "50MB"}

    limits = parse_limits({**typed, "--mode": "wave", "--order": "size-desc", "--shape": "gentle"})

    assert limits == Limits(
        replicas=1,
        partitions=2,
        leader_movements=3,
        replica_movements=4,
        per_broker=5,
        per_leader=6,
        cuts_per_minute=7,
        bytes_in_flight=2 * 1024**3,
        bytes_per_broker=50_000_000,
        per_rack=10,
        extra_replicas=11,
        cut_together=12,
        mode=Mode.WAVE,
        order=Order.SIZE_DESC,
    )


def test_the_names_of_kip_435_set_the_same_limits() -> None:
    named = parse_limits(
        {
            "reassignment.parallel.replica.count": 1,
            "reassignment.parallel.partition.count": 2,
            "reassignment.parallel.leader.movements": 3,
            "reassignment.max.concurrent.replica.movements": 4,
        }
    )

    assert named == Limits(replicas=1, partitions=2, leader_movements=3, replica_movements=4)


def test_an_omitted_limit_stays_and_none_lifts_one() -> None:
    before = Limits(replicas=1, partitions=20, shape=Shape.KIP_435)

    assert parse_limits({"partitions": "none"}, before) == Limits(replicas=1, shape=Shape.KIP_435)


def test_a_run_defaults_to_gentle_with_one_replica_and_so_many_bytes_per_broker() -> None:
    assert default_limits() == Limits(
        replicas=1,
        cuts_per_minute=6_000,
        bytes_per_broker=32 * 1024 * 1024,
        shape=Shape.GENTLE,
        mode=Mode.ROLLING,
        order=Order.LONG_FIRST,
        internal=InternalOrder.LAST,
    )


@pytest.mark.parametrize(
    "option",
    ["--partitions", "per-broker", "reassignment.max.concurrent.replica.movements"],
)
def test_whoever_names_how_much_moves_at_once_gets_that_alone(option: str) -> None:
    assert default_limits({option: 3}) == replace(default_limits(), bytes_per_broker=None)


def test_other_limits_that_are_named_leave_the_default_as_it_is() -> None:
    assert default_limits({"replicas": 2, "mode": "wave"}) == default_limits()


def test_internal_topics_have_a_rule_in_shape_gentle_alone() -> None:
    kip_435 = default_limits({"shape": "kip-435"})
    assert kip_435.internal is InternalOrder.NONE
    assert parse_limits({"shape": "kip-435"}, default_limits()).internal is InternalOrder.NONE
    assert parse_limits({"internal": "first"}, default_limits()).internal is InternalOrder.FIRST
    assert problem(shape="kip-435", internal="last") == (
        "--internal: it has no effect in shape kip-435. Use --internal none, or --shape gentle"
    )
    assert parse_limits({"shape": "kip-435", "internal": "none"}, kip_435).shape is Shape.KIP_435


def test_a_pace_is_a_word_for_limits_and_what_is_named_beside_it_counts() -> None:
    before = Limits(replicas=2, partitions=7, bytes_in_flight=1)

    assert parse_limits({"pace": "fast"}, before) == Limits(
        replicas=3, partitions=7, bytes_per_broker=512 * 1024 * 1024
    )
    quiet = parse_limits({"--pace": "quiet", "--cuts-per-minute": 5}, Limits())
    assert (quiet.replicas, quiet.cuts_per_minute) == (1, 5)
    assert quiet.bytes_in_flight == 64 * 1024 * 1024
    assert parse_limits({"pace": "balanced"}, default_limits({"pace": "balanced"})) == (
        default_limits()
    )


def test_an_unknown_pace_is_refused_with_the_known_ones() -> None:
    words = "--pace: 'slow' is not a valid value. Use quiet or balanced or fast"
    assert problem(pace="slow") == words
    assert problem(pace=None) == words.replace("'slow'", "None")


@pytest.mark.parametrize("typed", ["none", "64MiB", "50MB", "1001B", "1TiB"])
def test_a_limit_in_bytes_is_shown_as_it_is_typed(typed: str) -> None:
    limits = parse_limits({"bytes-per-broker": typed})

    assert limit_text("bytes-per-broker", limits.bytes_per_broker) == typed


@pytest.mark.parametrize("value", ["64 apples", "", "-1MB", -1, True, "0", "2000PB"])
def test_a_limit_that_is_not_a_size_is_refused_with_its_option(value: object) -> None:
    message = problem(bytes_in_flight=value)

    assert message.startswith("--bytes-in-flight: ")
    assert message.endswith("Use a size such as 64MiB, or none to lift the limit")


@pytest.mark.parametrize("value", ["0", 0, "-1", -3, "2.5", 2.5, "many", "", True, "²"])
def test_a_limit_that_is_not_a_whole_number_from_1_is_refused_with_its_option(
    value: object,
) -> None:
    message = problem(per_broker=value)

    assert message.startswith("--per-broker: ")
    assert message.endswith("Use a whole number from 1, or none to lift the limit")


def test_an_unknown_word_is_refused_with_the_known_ones() -> None:
    assert problem(mode="waves") == ("--mode: 'waves' is not a valid value. Use rolling or wave")
    assert problem(shape=None).startswith("--shape: None is not")


def test_the_shape_of_reassign_cannot_be_chosen_but_its_other_limits_can_be_changed() -> None:
    whole = Limits(partitions=2, shape=Shape.WHOLE)

    assert problem(shape="whole") == "--shape: 'whole' is not a valid value. Use gentle or kip-435"
    assert parse_limits({"partitions": 5}, whole) == Limits(partitions=5, shape=Shape.WHOLE)


def test_an_unknown_option_is_refused_with_the_known_ones() -> None:
    assert problem(replica=1).startswith(
        "replica: there is no such limit. The limits are --replicas, "
    )


@pytest.mark.parametrize("option", ["extra-replicas", "cut-together"])
def test_a_limit_of_the_gentle_shape_is_refused_with_kip_435(option: str) -> None:
    fix = f"Use --{option} none, or --shape gentle"

    with pytest.raises(LimitsProblem) as raised:
        parse_limits({"shape": "kip-435"}, parse_limits({option: 2}))

    assert raised.value.option == f"--{option}"
    assert raised.value.fix == fix
