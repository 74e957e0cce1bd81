"""Each verb pays only for what it uses."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import ktui

HOUSE = Path(ktui.__file__).parent
LIGHT = {
    "--help": "cli cli.context cluster planning + click msgspec",
    "list": (
        "cli cli.context cli.options cli.run cluster execution execution.host "
        "kafka kafka.connection kafka.requests kafka.transport planning progress speed "
        "tui tui.draw + click kafka msgspec platformdirs"
    ),
    "status": (
        "cli cli.context cli.options cli.output cli.run cluster execution execution.engine "
        "execution.forecast execution.host execution.journal execution.run execution.time_left "
        "ops pacing planning planning.check preview progress recording "
        "speed + click msgspec platformdirs"
    ),
}
"""The rooms and libraries from which light verbs import anything; each costs a start its time."""
CLIENTS = {"kafka", "confluent_kafka", "pyspark"}
OWN = {"ktui", "typing_extensions"}  # the latter is msgspec's, on some versions of Python


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
    """Return the modules that a command line imports until it asks the cluster."""
    code = (
        "import json, sys; before = {*sys.modules}\n"
        "from ktui.cli.main import ktui; sys.argv[0] = 'ktui'\n"
        "try: ktui()\n"
        "except SystemExit: pass\n"
        "print(json.dumps([*sys.modules.keys() - before]))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    loaded: list[str] = json.loads(ran.stdout.splitlines()[-1])
    return loaded


def test_listing_loads_no_requests_of_the_client_that_ktui_never_sends() -> None:
    loaded = modules_loaded_by("list", "--help")

    assert "kafka.protocol.admin.topics" in loaded
    assert not {"kafka.protocol.admin.acl", "kafka.protocol.consumer.fetch"} & {*loaded}


def lines_of(module: str) -> int:
    place = HOUSE.joinpath(*module.split(".")[1:])
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    return len(file.read_text(encoding="utf-8").splitlines())


@pytest.mark.parametrize("verb", LIGHT)
def test_a_light_verb_imports_only_from_these_rooms_and_libraries(verb: str) -> None:
    loaded = modules_loaded_by(verb, "--help")
    rooms = {name.removeprefix("ktui.").rpartition(".")[0] for name in loaded if "ktui." in name}
    libraries = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names - OWN

    assert f"{' '.join(sorted(rooms - {''}))} + {' '.join(sorted(libraries))}" == LIGHT[verb]


def test_listing_imports_a_tenth_of_the_house() -> None:
    loaded = [name for name in modules_loaded_by("list", "--help") if "ktui." in name]
    house = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in HOUSE.rglob("*.py"))

    assert sum(map(lines_of, loaded)) < 0.12 * house


@pytest.mark.parametrize("words", [("--version",), ("list", "--help")])
def test_what_is_imported_is_kept_from_the_search_for_garbage(words: tuple[str, ...]) -> None:
    code = (
        "import gc; from ktui.__main__ import main\n"
        "try: main()\n"
        "finally: print(gc.isenabled(), gc.get_freeze_count() > 20 * len(gc.get_objects()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )

    assert ran.stdout.splitlines()[-1] == "True True"


def test_no_library_reports_at_the_exit_what_was_kept_from_that_search() -> None:
    words = [sys.executable, "-m", "ktui", "pipeline", "sql", "--help"]  # DuckDB would
    ran = subprocess.run(words, capture_output=True, text=True, check=True)

    assert ran.stderr == ""


@pytest.mark.parametrize("room", ["execution.run", "recording", "pacing", "yamlfile"])
def test_listing_loads_nothing_of_runs_recordings_and_config_files(room: str) -> None:
    loaded = modules_loaded_by("list", "--help")

    assert [name for name in loaded if name.startswith(f"ktui.{room}")] == []
