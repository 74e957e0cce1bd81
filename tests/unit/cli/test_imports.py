"""Each verb pays only for what it uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

CLIENTS = {"kafka", "confluent_kafka", "pyspark"}


def roots_loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "module", ["ktui.cli", "ktui.cli.main", "ktui.tui.app.app", "ktui.progress"]
)
def test_importing_it_loads_no_kafka_client(module: str) -> None:
    assert not CLIENTS & roots_loaded_by(f"import {module}")


def test_listing_loads_neither_the_screens_library_nor_the_second_client() -> None:
    loaded = roots_loaded_by("import ktui.cli.run.list, ktui.kafka.reader")

    assert "kafka" in loaded
    assert not {"textual", "confluent_kafka"} & loaded
