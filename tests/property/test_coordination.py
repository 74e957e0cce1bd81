"""Each group and transactional id is found in the partition in which Kafka keeps it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ktui.cluster.coordination import (
    CoordinatedId,
    coordinating_partition,
    java_hash,
    share_state_key,
)

ids = st.text(st.characters(exclude_categories=()), max_size=12)


def slow_hash(text: str) -> int:
    """Return the hash by its definition in the Java documentation: s[0]*31^(n-1) + ... + s[n-1]."""
    data = text.encode("utf-16-le", "surrogatepass")
    units = [data[n] + 256 * data[n + 1] for n in range(0, len(data), 2)]
    whole = sum(unit * 31 ** (len(units) - 1 - n) for n, unit in enumerate(units))
    low = int(whole % 2**32)
    return low if low < 2**31 else low - 2**32


@given(ids)
@example("polygenelubricants")
def test_the_hash_of_an_id_is_that_of_java(text: str) -> None:
    assert java_hash(text) == slow_hash(text)


@pytest.mark.parametrize(
    ("text", "hashed", "partition"),
    [
        ("", 0, 0),
        ("a", 97, 47),
        ("orders", -1008770331, 31),
        ("Aa", 2112, 12),
        ("BB", 2112, 12),
        ("😀", 1772899, 49),
        ("polygenelubricants", -(2**31), 0),
    ],
)
def test_ids_are_in_the_partition_of_fifty_in_which_kafka_has_them(
    text: str, hashed: int, partition: int
) -> None:
    assert java_hash(text) == hashed
    assert coordinating_partition(CoordinatedId(text, hashed), 50) == partition


@pytest.mark.parametrize(
    ("group", "found"), [("g-java", (0, 2, 1, 0, 2, 1)), ("g-py", (1, 0, 2, 1, 0, 2))]
)
def test_state_of_share_groups_is_in_the_partition_of_three_in_which_kafka_4_4_kept_it(
    group: str, found: tuple[int, ...]
) -> None:
    topic_id = "aJ3DPSc8T5CKuPbqlDZZ0Q"
    keys = [share_state_key(group, topic_id, partition) for partition in range(6)]

    assert found == tuple(
        coordinating_partition(CoordinatedId(group, java_hash(key)), 3) for key in keys
    )


@given(ids, st.integers(1, 500))
def test_every_id_has_a_partition(text: str, partitions: int) -> None:
    found = coordinating_partition(CoordinatedId(text, java_hash(text)), partitions)

    assert 0 <= found < partitions
