"""Kafka's errors stand in one table: nothing else has their names or numbers."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from kafka.errors import for_code

import ktui
from ktui.cluster.kafka_error import KafkaError, Means, error_of, means

SOURCE = Path(ktui.__file__).parent
OTHERWISE_CALLED = {
    KafkaError.UNKNOWN_SERVER_ERROR,
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.MESSAGE_TOO_LARGE,
    KafkaError.INVALID_TOPIC_EXCEPTION,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
}
"""Errors whose name in kafka-python differs from Kafka's."""
LIBRDKAFKA = {"workload.py", "probe.py"}
"""What they compare are names of confluent-kafka, some of which are Kafka's, too."""


def test_names_and_numbers_are_kafkas() -> None:
    assert {error for error in KafkaError if for_code(error.number).message != error} == (
        OTHERWISE_CALLED
    )
    assert max(Counter(error.number for error in KafkaError).values()) == 1


def test_an_error_is_found_by_its_number_and_its_name_and_one_that_is_not_there_means_nothing() -> (
    None
):
    assert error_of(41) is error_of("NOT_CONTROLLER") is KafkaError.NOT_CONTROLLER
    assert means(41, Means.UNCHANGED)
    assert means("REQUEST_TIMED_OUT", Means.DENIED, Means.UNDECIDED)
    assert not means("REQUEST_TIMED_OUT", Means.DENIED)
    for unknown in (0, 9_999, None, "SO_NEW_AN_ERROR"):
        assert error_of(unknown) is None
        assert not means(unknown, *Means)


def test_no_other_file_has_the_name_of_an_error_as_a_word() -> None:
    words = re.compile("|".join(f'"{error}"' for error in KafkaError))
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if file.name not in LIBRDKAFKA and words.search(file.read_text())
    }
    assert found == {"cluster/kafka_error.py"}
