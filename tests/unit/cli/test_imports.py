"""Each verb pays only for what it uses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ktui

HOUSE = Path(ktui.__file__).parent
LIGHT = (
    "cli cli.context cli.options cli.output cli.run cluster execution execution.host "
    "kafka kafka.connection kafka.requests kafka.transport planning progress speed "
    "tui tui.draw"
)
"""The rooms from which `ktui list` imports anything at all; a new one costs each start its time."""
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


def modules_loaded_by(*words: str) -> list[str]:
    """Return the modules of ktui that a command line imports until it asks the cluster."""
    code = (
        "import json, sys; from ktui.cli.main import ktui; sys.argv[0] = 'ktui'\n"
        "try: ktui()\n"
        "except SystemExit: pass\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('ktui.')]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    loaded: list[str] = json.loads(ran.stdout.splitlines()[-1])
    return loaded


def lines_of(module: str) -> int:
    place = HOUSE.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return len(file.read_text(encoding="utf-8").splitlines())


def test_listing_imports_a_tenth_of_the_house_and_only_from_these_rooms() -> None:
    loaded = modules_loaded_by("list", "--help")
    rooms = {name.removeprefix("ktui.").rpartition(".")[0] for name in loaded} - {""}
    house = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in HOUSE.rglob("*.py"))

    assert sorted(rooms) == LIGHT.split()
    assert sum(map(lines_of, loaded)) < 0.12 * house


@pytest.mark.parametrize("room", ["execution.run", "recording", "pacing", "yamlfile"])
def test_listing_loads_nothing_of_runs_recordings_and_config_files(room: str) -> None:
    loaded = modules_loaded_by("list", "--help")

    assert [name for name in loaded if name.startswith(f"ktui.{room}")] == []
