"""What is imported, and when: listing reassignments must not wait for unused modules."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.strip()


def test_reading_a_cluster_loads_no_second_client_no_consumer_and_no_producer() -> None:
    loaded = run("import sys, ktui.kafka.reader, ktui.kafka.writer; print(*sys.modules)").split()

    assert "kafka.net.manager" in loaded
    for unused in ("confluent_kafka", "kafka.consumer", "kafka.producer", "kafka.admin"):
        assert unused not in loaded


def test_reading_connection_settings_loads_no_client() -> None:
    loaded = run("import sys, ktui.kafka.connection.connection; print(*sys.modules)").split()

    assert not [m for m in loaded if m.startswith(("kafka.", "confluent_kafka"))]


@pytest.mark.parametrize(
    "use",
    [
        "from kafka import KafkaConsumer; print(KafkaConsumer.__name__)",
        "import kafka; print(kafka.KafkaConsumer.__name__)",
        "import kafka, kafka.errors; print(kafka.consumer.KafkaConsumer.__name__)",
    ],
)
def test_the_kafka_package_is_still_complete_for_other_users(use: str) -> None:
    assert run(f"import ktui.kafka.reader; {use}") == "KafkaConsumer"


def test_an_unknown_name_in_the_kafka_package_is_still_an_error() -> None:
    program = "import ktui.kafka.reader, kafka; print(hasattr(kafka, 'NoSuchName'))"

    assert run(program) == "False"
