"""A file that a user names is read up to a bound, and never waited for."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ktui.execution.host.state_dir import StateDirProblem, resolve_state_dir
from ktui.inputfile import MOST_BYTES, FileProblem, Unreadable, expand_home, open_input, read_input
from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.property_table import ConnectionProblem
from ktui.planning.read.json_cursor import BadPlan
from ktui.planning.read.read import read_plan
from ktui.simulated.scenario.library import load_scenario
from ktui.yamlfile import read_yaml

BROKERS = {"bootstrap.servers": "kafka-1:9092"}


def _as_secret(path: Path) -> object:
    return Connection.of({**BROKERS, "sasl.password": {"file": str(path)}})


def _as_authority(path: Path) -> object:
    return Connection.of({**BROKERS, "ssl.ca.location": str(path)})


def _as_client_file(path: Path) -> object:
    return Connection.of(command_config=path)


def _as_store(path: Path) -> object:
    return Connection.of({**BROKERS, "ssl.truststore.location": str(path)})


UNKNOWN_HOME = "~nobody-has-this-name/file"


@pytest.mark.parametrize(
    "read",
    [
        expand_home,
        resolve_state_dir,
        lambda path: Connection.of({**BROKERS, "ssl.ca.location": path}),
        lambda path: Connection.of({**BROKERS, "sasl.password": {"file": path}}),
    ],
)
def test_an_unknown_home_folder_is_named(read: Callable[[str], object]) -> None:
    with pytest.raises((Unreadable, StateDirProblem, ConnectionProblem)) as caught:
        read(UNKNOWN_HOME)
    assert "~nobody-has-this-name" in str(caught.value)


READERS: tuple[Callable[[Path], object], ...] = (
    read_yaml,
    load_scenario,
    read_plan,
    _as_client_file,
    _as_secret,
    _as_authority,
    _as_store,
)


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A named pipe without a writer."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("read", READERS)
def test_a_pipe_or_a_device_is_refused_at_once_with_its_path(
    pipe: Path, read: Callable[[Path], object]
) -> None:
    for path, kind in ((pipe, "a named pipe"), (Path("/dev/zero"), "a device")):
        with pytest.raises((FileProblem, ConnectionProblem, BadPlan)) as refused:
            read(path)

        assert str(path) in str(refused.value)
        if read is not _as_store:  # which is reported as an invalid store
            assert f"it is {kind}; only regular files are read" in str(refused.value)


@pytest.mark.parametrize(
    ("read", "mib"), [(read_yaml, 1), (load_scenario, 64), (_as_client_file, 1), (_as_secret, 1)]
)
def test_a_file_that_is_too_large_is_refused_with_the_bound(
    tmp_path: Path, read: Callable[[Path], object], mib: int
) -> None:
    path = tmp_path / "large"
    path.write_bytes(b"#")
    os.truncate(path, mib * 1024**2 + 1)

    with pytest.raises((FileProblem, ConnectionProblem)) as refused:
        read(path)

    assert str(path) in str(refused.value)
    assert f"it is larger than {mib} MiB, the limit" in str(refused.value)


@pytest.mark.parametrize("read", [read_plan, _as_authority])
def test_a_huge_plan_or_certificate_is_refused_unread(
    tmp_path: Path, read: Callable[[Path], object]
) -> None:
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 2**40)

    with pytest.raises((ConnectionProblem, BadPlan), match=r"larger than \d+ MiB"):
        read(path)


def test_a_file_of_the_largest_allowed_size_is_read(tmp_path: Path) -> None:
    path = tmp_path / "full"
    path.write_bytes(b"#" * MOST_BYTES)

    assert len(read_input(path)) == MOST_BYTES


def test_a_pipe_from_a_shell_is_read_up_to_the_bound() -> None:
    for sent, bound in ((b"client.id=me\n", 13), (b"client.id=me\n", 12)):
        read, write = os.pipe()
        os.write(write, sent)
        os.close(write)
        try:
            if len(sent) <= bound:
                assert read_input(Path(f"/dev/fd/{read}"), bound) == sent
            else:
                with pytest.raises(Unreadable, match="larger"):
                    read_input(Path(f"/dev/fd/{read}"), bound)
        finally:
            os.close(read)


@pytest.mark.parametrize(
    ("name", "words"),
    [(".", "Is a directory"), ("none", "No such file or directory"), ("a\0b", "NUL character")],
)
def test_an_unreadable_file_is_refused_with_the_reason(
    tmp_path: Path, name: str, words: str
) -> None:
    with pytest.raises(Unreadable, match=words), open_input(tmp_path / name, 1):
        pass
