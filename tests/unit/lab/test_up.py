"""Problems that keep a lab from starting are reported before anything is started."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from ktui.cli.lab.command import connect
from ktui.lab import layout, nodes
from ktui.lab import up as up_module
from ktui.lab.java import Java
from ktui.lab.layout import Lab, LabError, WrongInput
from ktui.lab.up import LabRequest, up
from support.kafka.lab_layout import written_lab


class Usage(NamedTuple):
    total: int
    used: int
    free: int


def refused(folder: Path, request: LabRequest) -> LabError:
    with pytest.raises(LabError) as error:
        up(folder, request, connect, lambda _: None)
    return error.value


@pytest.mark.parametrize("brokers", [-1, 0, 100])
def test_a_lab_has_at_least_one_broker_and_broker_ids_below_the_controllers(
    tmp_path: Path, brokers: int
) -> None:
    error = refused(tmp_path / "lab", LabRequest(brokers=brokers))
    assert isinstance(error, WrongInput)
    assert str(error) == f"--brokers {brokers}. A lab has 1 to 99 brokers."


@pytest.mark.parametrize("log_dirs", [0, 10])
def test_a_broker_has_one_to_nine_log_dirs(tmp_path: Path, log_dirs: int) -> None:
    error = refused(tmp_path / "lab", LabRequest(log_dirs=log_dirs))
    assert isinstance(error, WrongInput)
    assert str(error) == f"--log-dirs {log_dirs}. A broker has 1 to 9 log dirs."


def test_a_kept_lab_is_only_started_with_as_many_log_dirs(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    layout.save(Lab(tmp_path, msgspec.structs.replace(lab.layout, ready=True, log_dirs=2)))

    error = refused(tmp_path, LabRequest(brokers=2))

    found = f"--brokers 2 --version {layout.DEFAULT_VERSION} --security plaintext --log-dirs 2."
    assert found in str(error)


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("all of it")
    assert "is not empty" in str(refused(tmp_path, LabRequest()))
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_nothing_is_started_without_disk_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up_module, "fetch", lambda *_: ("/jars/a.jar",))
    monkeypatch.setattr(up_module, "find_java", lambda *_: Java("/opt/jdk/bin/java", 17, "17"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 300 * 1024**2))
    error = refused(tmp_path / "lab", LabRequest())
    assert str(error).startswith(f"a lab needs 1 GiB of disk, and {tmp_path}")
    assert "300 MiB left" in str(error)
    assert not (tmp_path / "lab").exists()


def test_an_interrupted_start_must_be_cleared_first(tmp_path: Path) -> None:
    layout.save(written_lab(tmp_path))
    assert "whose start was interrupted. Clear it with: ktui lab down" in str(
        refused(tmp_path, LabRequest(brokers=2))
    )


def test_the_second_of_two_concurrent_starts_in_a_folder_is_refused(tmp_path: Path) -> None:
    lab = written_lab(tmp_path)
    layout.create(lab)
    with pytest.raises(LabError, match="another ktui is starting a lab"):
        layout.create(lab)
    assert layout.load(tmp_path) == lab


def test_a_malformed_version_is_refused_first(tmp_path: Path) -> None:
    error = refused(tmp_path / "lab", LabRequest(version="latest"))
    assert str(error).startswith("'latest' is not a Kafka version")


def test_a_generated_id_never_looks_like_an_option() -> None:
    ids = [nodes.new_id() for _ in range(2000)]
    assert not [made for made in ids if made.startswith("-")]
    assert {len(made) for made in ids} == {22}
    assert len(set(ids)) == 2000


def test_the_error_lines_of_a_log_are_its_last_errors_without_stack_frames(
    tmp_path: Path,
) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "10:00 INFO  starting\n"
        "10:01 ERROR KafkaServer: cannot start\n"
        "org.apache.kafka.common.config.ConfigException: Invalid value many\n"
        "\tat kafka.Kafka.main(Kafka.scala:1)\n"
        "\t... 3 more\n"
        "10:02 INFO  shutting down\n"
    )
    assert nodes.error_lines(log) == (
        "10:01 ERROR KafkaServer: cannot start",
        "org.apache.kafka.common.config.ConfigException: Invalid value many",
    )


def test_a_log_without_errors_yields_its_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("".join(f"line {number}\n" for number in range(20)))
    assert nodes.error_lines(log, most=2) == ("line 18", "line 19")


def test_a_missing_log_yields_no_lines(tmp_path: Path) -> None:
    assert nodes.error_lines(tmp_path / "server.log") == ()
