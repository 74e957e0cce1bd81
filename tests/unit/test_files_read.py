"""Files that people write, and numbers with units: what is read, and what a mistake is told."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ktui.durable import make_folder, write_whole
from ktui.execution.host.state_dir import StateDirProblem, resolve_state_dir
from ktui.inputfile import (
    MOST_BYTES,
    FileProblem,
    Unreadable,
    expand_home,
    open_input,
    read_input,
    unknown_key,
)
from ktui.kafka.connection.connection import Connection
from ktui.kafka.connection.properties import ConnectionProblem
from ktui.planning.json_cursor import BadPlan
from ktui.planning.read import read_plan
from ktui.quantities import Rate, Seconds, Share, Size, parse_quantity
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


class Door(msgspec.Struct, forbid_unknown_fields=True):
    width: float
    colour: str = "white"


class House(msgspec.Struct, forbid_unknown_fields=True):
    door: Door
    rooms: list[int] = []


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "file.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def read_house(path: Path) -> House:
    file = read_yaml(path)
    return file.convert((), file.data, House)


def problem_of(path: Path) -> FileProblem:
    with pytest.raises(FileProblem) as caught:
        read_house(path)
    return caught.value


def test_a_good_file_is_read(write: Callable[[str], Path]) -> None:
    path = write("door:\n  width: 1.5\nrooms: [1, 2]\n")

    assert read_house(path) == House(Door(1.5), [1, 2])


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("door: [\n", 2, "not valid YAML"),
        ("door:\n  width: wide\n", 2, "door.width: expected a number, got text"),
        ("door:\n  width: 1\n  color: red\n", 3, "did you mean 'colour'?"),
        (
            "door:\n  width: 1\nrooms:\n  - 1\n  - two\n",
            5,
            "rooms.1: expected a whole number, got text",
        ),
        ("door:\n  width: 1\n  width: 2\n", 3, "'width' is given twice"),
        ("door: {}\n", 1, "missing required field `width`"),
        ("a: &x [*x]\n", 1, "an alias to itself"),
        ("door: !!python/object:os.system {}\n", 1, "not valid YAML"),
        ("", 1, "expected a mapping, got nothing"),
    ],
)
def test_a_bad_file_is_reported_with_the_line_and_the_reason(
    write: Callable[[str], Path], text: str, line: int, words: str
) -> None:
    problem = problem_of(write(text))

    assert problem.line == line
    assert words in problem.problem
    assert str(problem).startswith(f"{problem.path}:{line}: ")


def test_a_missing_yaml_file_is_reported_as_unreadable(tmp_path: Path) -> None:
    assert "cannot be read: No such file" in str(problem_of(tmp_path / "missing.yaml"))


def test_a_file_that_is_not_utf8_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"\xff\xfe\x00")

    assert "not UTF-8" in str(problem_of(path))


def test_an_unknown_key_lists_the_known_ones() -> None:
    assert unknown_key("zzz", ["b", "a"]) == "unknown key 'zzz'; known keys: a, b"


@pytest.mark.parametrize(
    "written", ["!hunter2", "!hunter2!x", "*hunter2", "&hunter2 a\nb: &hunter2 c"]
)
def test_an_unquoted_password_is_not_shown(write: Callable[[str], Path], written: str) -> None:
    problem = problem_of(write(f"password: {written}\n")).problem

    assert "hunter2" not in problem


@pytest.mark.parametrize("written", ["!hunter2", "*hunter2"])
def test_an_unquoted_text_is_reported_with_the_advice_to_quote_it(
    write: Callable[[str], Path], written: str
) -> None:
    problem = problem_of(write(f"door: 1\npassword: {written}\n"))

    assert problem.line == 2
    assert "in quotes" in problem.problem


def test_an_impossible_date_is_a_problem_of_the_file(
    write: Callable[[str], Path],
) -> None:
    assert "in quotes" in problem_of(write("password: 2026-99-99\n")).problem


@pytest.mark.parametrize("tagged", ["!!timestamp x", "!!bool x", "!!int x", "!!float x"])
def test_a_value_with_a_wrong_tag_is_a_problem_of_the_file(
    write: Callable[[str], Path], tagged: str
) -> None:
    assert "not valid YAML: a value looks like" in str(problem_of(write(f"door: {tagged}")))


def test_a_number_of_too_many_digits_is_reported_with_its_line(
    write: Callable[[str], Path],
) -> None:
    problem = problem_of(write(f"door:\n  width: 0x{'f' * 5000}"))
    assert problem.line == 2
    assert "a number of more than 40 digits; if it is text, put it in quotes" in str(problem)


def test_too_deep_nesting_is_a_problem_of_the_file(
    write: Callable[[str], Path],
) -> None:
    assert "deep" in problem_of(write("[" * 5_000)).problem


def test_a_large_file_is_read_as_a_small_one(write: Callable[[str], Path]) -> None:
    notes = "# a note that nobody needs, but that makes the file large\n" * 2_000
    large = write(f"{notes}door:\n  width: 1.5\n  colour:\n    dark\n    green\nrooms: [1, 2]\n")

    assert read_house(large) == House(Door(1.5, "dark green"), [1, 2])
    assert problem_of(write(f"{notes}door:\n  width: wide\n")).line == 2_002
    assert problem_of(write(f"{notes}door: [\n")).line == 2_002
    assert "deep" in problem_of(write(f"{notes}{'[' * 50}{']' * 50}")).problem


def test_aliases_that_expand_without_bound_are_a_problem_of_the_file(
    write: Callable[[str], Path],
) -> None:
    tens = "".join(f"x{n}: &x{n} [{', '.join([f'*x{n - 1}'] * 10)}]\n" for n in range(1, 10))

    assert "more than 200,000 values" in problem_of(write(f"x0: &x0 [1]\n{tens}")).problem


def test_a_control_character_is_named_with_its_line(write: Callable[[str], Path]) -> None:
    problem = problem_of(write("door:\n  colour: re\x07d\n"))

    assert problem.line == 2
    assert "the character U+0007 is not allowed" in problem.problem


def test_a_yes_in_place_of_text_is_reported_with_the_advice_to_quote_it(
    write: Callable[[str], Path],
) -> None:
    problem = problem_of(write("door:\n  width: 1\n  colour: yes\n"))

    assert problem.line == 3
    assert problem.problem == "door.colour: expected text, got true or false; put it in quotes"


@pytest.mark.parametrize("written", ["door: {width: 010}", "door: {width: -010}", "010: 1"])
def test_a_number_with_a_leading_zero_is_refused(
    write: Callable[[str], Path], written: str
) -> None:
    problem = problem_of(write(f"rooms: []\n{written}\n"))

    assert problem.line == 2
    assert "may not begin with 0" in problem.problem


def test_a_file_is_synced_to_disk_before_it_replaces_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollback.json"
    path.write_text("old", encoding="utf-8")
    syncs: list[tuple[str, str]] = []

    def synced(file: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(file).st_mode) else "file"
        syncs.append((kind, path.read_text(encoding="utf-8")))

    monkeypatch.setattr(os, "fsync", synced)
    write_whole(path, b"new")

    assert syncs == [("file", "old"), ("folder", "new")]
    assert path.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rollback.json"
    path.write_text("old", encoding="utf-8")

    def full(_file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, b"new")

    assert path.read_text(encoding="utf-8") == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_making_a_folder_where_a_file_exists_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(FileExistsError):
        make_folder(tmp_path / "file")


@pytest.mark.parametrize(
    ("kind", "written", "expected"),
    [
        (Size, 0, 0),
        (Size, 1_024, 1_024),
        (Size, "50MB", 50_000_000),
        (Size, "50 MB", 50_000_000),
        (Size, "50MiB", 52_428_800),
        (Size, "1.5GiB", 1_610_612_736),
        (Size, "8kB", 8_000),
        (Rate, "30MB/s", 30e6),
        (Rate, "30MB", 30e6),
        (Rate, 2_500, 2_500),
        (Seconds, 90, 90),
        (Seconds, "90s", 90),
        (Seconds, "5m", 300),
        (Seconds, "1h30m", 5_400),
        (Seconds, "1h 30m", 5_400),
        (Seconds, "250ms", 0.25),
        (Share, "30%", 0.3),
        (Share, 0.3, 0.3),
        (Share, 1, 1),
    ],
)
def test_a_quantity_is_parsed_with_its_unit(kind: type, written: object, expected: float) -> None:
    found = parse_quantity(kind, written)

    assert type(found) is kind
    assert found == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "written", "words"),
    [
        (Size, "50Mb", "unknown unit 'Mb'; expected a size such as 50MB, 4GiB"),
        (Size, "lots", "expected a size such as 50MB"),
        (Size, "-5MB", "expected a size such as 50MB"),
        (Size, -5, "not less than 0"),
        (Size, float("inf"), "not less than 0"),
        (Size, float("nan"), "not less than 0"),
        (Size, "999999999999999PB", "too large"),
        (Size, True, "expected a size"),
        (Size, None, "expected a size"),
        (Rate, "30MB/h", "expected a rate such as 50MB/s"),
        (Seconds, "5 minutes", "expected a time such as 90s, 5m, 1h30m"),
        (Seconds, -1, "not less than 0"),
        (Share, "130%", "at most 100 %"),
        (Share, 30, "at most 100 %"),
    ],
)
def test_a_malformed_quantity_is_refused_with_what_was_expected(
    kind: type, written: object, words: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        parse_quantity(kind, written)
