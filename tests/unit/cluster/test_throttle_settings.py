"""Kafka's lists of throttled replicas, as they are read and written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.settings import ALL, list_includes, parse_throttled_list, throttled_entry

IDS = st.integers(0, 100_000)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", set()),
        (" ", set()),
        (",", set()),
        ("0:1", {"0:1"}),
        ("0:1,12:104", {"0:1", "12:104"}),
        ("0:1 , 0:2,\t3:4 ", {"0:1", "0:2", "3:4"}),
        ("0:1,,0:1", {"0:1"}),
        ("*", {ALL}),
    ],
)
def test_a_list_is_read_as_kafka_reads_it(text: str, read: set[str]) -> None:
    assert parse_throttled_list(text) == read


@given(st.sets(st.tuples(IDS, IDS)))
def test_a_throttled_list_includes_only_the_replicas_it_names(
    replicas: set[tuple[int, int]],
) -> None:
    text = ",".join(throttled_entry(*each) for each in replicas)

    assert all(list_includes(text, *each) for each in replicas)
    for partition, broker in replicas:
        assert list_includes(text, broker, partition) == ((broker, partition) in replicas)
        assert list_includes(text, partition, broker + 1) == ((partition, broker + 1) in replicas)


@given(IDS, IDS)
def test_a_list_of_all_includes_every_replica_and_an_empty_one_none(
    partition: int, broker: int
) -> None:
    assert list_includes(ALL, partition, broker)
    assert not list_includes("", partition, broker)
