"""An error in a file that a user wrote is reported with its line and its fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ktui.inputfile import FileProblem, unknown_key
from ktui.yamlfile import read_yaml


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
