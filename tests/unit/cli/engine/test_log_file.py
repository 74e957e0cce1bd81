"""The log of an engine stays small, repeats nothing, and is followed across its files."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ktui.cli.engine.log import LogFile, WarningReader


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "engine.log"


@contextmanager
def an_engine(log: Path, most_bytes: int = 400) -> Iterator[logging.Logger]:
    """Yield a logger whose process writes its output to the log, as an engine does."""
    with log.open("a", encoding="utf-8") as output:
        handler = LogFile(log, output, (output.fileno(),), most_bytes)
        engine = logging.Logger("an engine")  # noqa: LOG001 - of this test alone
        engine.addHandler(handler)
        yield engine
        handler.close()


def messages(log: Path) -> list[str]:
    return [line.partition(" ")[2] for line in log.read_text(encoding="utf-8").splitlines()]


def test_a_long_log_is_rotated_and_two_old_files_are_kept(log: Path) -> None:
    with an_engine(log) as engine:
        for number in range(60):
            engine.info("decision %d", number)

    kept = sorted(path.name for path in log.parent.iterdir())
    assert kept == ["engine.log", "engine.log.1", "engine.log.2"]
    assert all(path.stat().st_size < 450 for path in log.parent.iterdir())
    files = [log.with_name(name) for name in ("engine.log.2", "engine.log.1", "engine.log")]
    lines = [line for path in files for line in messages(path)]
    assert lines == [f"INFO decision {number}" for number in range(60)][-len(lines) :]
    assert len(lines) > 20
    assert {path.stat().st_mode & 0o077 for path in files[2:]} == {0}


def test_a_library_writes_to_the_new_file_after_a_rotation(log: Path) -> None:
    with log.open("a", encoding="utf-8") as output, an_engine(log) as engine:
        handler = LogFile(log, output, (output.fileno(),), 10)
        engine.addHandler(handler)
        engine.info("decision 1")
        engine.info("decision 2")
        os.write(output.fileno(), b"a library complains\n")

    assert messages(log)[-1] == "library complains"


def test_no_rotation_replaces_what_is_no_regular_file(log: Path) -> None:
    os.mkfifo(log.with_name("engine.log.2"))
    log.with_name("engine.log.1").symlink_to("elsewhere")

    with an_engine(log, 10) as engine:
        for number in range(3):
            engine.info("decision %d", number)

    assert log.with_name("engine.log.2").is_fifo()
    assert log.with_name("engine.log.1").is_symlink()
    assert len(messages(log)) == 3


def test_output_that_goes_elsewhere_rotates_no_log(log: Path) -> None:
    log.write_text("another engine's " * 100, encoding="utf-8")
    elsewhere = log.with_name("terminal")

    with elsewhere.open("w", encoding="utf-8") as output:
        handler = LogFile(log, output, (output.fileno(),), 10)
        for number in range(3):
            handler.handle(logging.makeLogRecord({"msg": f"decision {number}"}))

    assert len(messages(elsewhere)) == 3
    assert sorted(path.name for path in log.parent.iterdir()) == ["engine.log", "terminal"]


def test_repeated_messages_are_logged_once_with_their_count(log: Path) -> None:
    with an_engine(log, 10_000) as engine:
        for _ in range(42):
            engine.warning("the cluster is lost")
        engine.info("decision 7")
        engine.info("decision 7")

    assert messages(log) == [
        "WARNING the cluster is lost",
        "WARNING repeated 41 times: the cluster is lost",
        "INFO decision 7",
        "INFO repeated once: decision 7",
    ]


def test_a_follower_misses_no_warning_when_the_log_rotates(log: Path) -> None:
    with an_engine(log) as engine:
        warnings = WarningReader(log)
        received = []
        for number in range(40):
            engine.warning("trouble %d", number)
            if number % 3 == 0:
                received += warnings.new()
        received += warnings.new()

    assert received == [f"trouble {number}" for number in range(40)]


def test_a_follower_gets_only_new_and_complete_warnings(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("2026-11-21T12:00:00.000Z WARNING before\n")
    warnings = WarningReader(log)
    with log.open("a") as file:
        file.write("2026-11-21T12:00:01.000Z INFO decision 1\n")
        file.write("2026-11-21T12:00:02.000Z WARNING the cluster is lost: \x1b[2J\n")
        file.write("2026-11-21T12:00:03.000Z WARNING half")

    assert warnings.new() == ["the cluster is lost: \\x1b[2J"]
    with log.open("a") as file:
        file.write(" a line\n")
    assert warnings.new() == ["half a line"]
    assert warnings.new() == []
