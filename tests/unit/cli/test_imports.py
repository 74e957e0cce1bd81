"""Each verb pays only for what it uses."""

from __future__ import annotations

import subprocess
import sys

CLIENTS = {"kafka", "confluent_kafka", "pyspark"}


def roots_loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_neither_the_command_nor_the_screens_nor_progress_load_a_kafka_client() -> None:
    modules = "ktui.cli, ktui.cli.main, ktui.tui.app.app, ktui.progress"

    assert not CLIENTS & roots_loaded_by(f"import {modules}")


def test_listing_loads_neither_textual_nor_the_second_kafka_client() -> None:
    loaded = roots_loaded_by("import ktui.cli.run.list, ktui.kafka.reader")

    assert "kafka" in loaded
    assert not {"textual", "confluent_kafka"} & loaded
