"""The JSON files of kafka-reassign-partitions, and its messages about them."""

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import Replica, TopicPartition
from ktui.ops.reassign.tool import (
    ReassignmentFile,
    ReassignmentRow,
    ReassignProblem,
    assignment_json,
    check_executable,
    parse_reassignments,
    parse_topics,
    read_file,
)

FOO0, FOO1, BAR0 = (TopicPartition("foo", 0), TopicPartition("foo", 1), TopicPartition("bar", 0))
IN_FILE_ORDER = b"""
{"version": 1, "partitions": [
  {"topic": "foo", "partition": 1, "replicas": [1, 2, 3], "log_dirs": ["any", "/d1", "d2"]},
  {"topic": "bar", "partition": 0, "replicas": [3, 1]}
]}
"""
IDS = st.integers(-(2**31), 2**31 - 1)
REPLICAS = st.builds(
    Replica, st.builds(TopicPartition, st.text(max_size=5), IDS), st.integers(0, 5)
)


def problem_of(text: str) -> str:
    with pytest.raises(ReassignProblem) as problem:
        parse_reassignments(text.encode())
    return str(problem.value)


def problem_of_topics(text: str) -> str:
    with pytest.raises(ReassignProblem) as problem:
        parse_topics(text.encode())
    return str(problem.value)


def problem_of_execute(*rows: str) -> str:
    with pytest.raises(ReassignProblem) as problem:
        check_executable(file_of(*rows))
    return str(problem.value)


def file_of(*rows: str) -> ReassignmentFile:
    return parse_reassignments(one_line(*rows).encode())


def one_line(*rows: str) -> str:
    return f'{{"version": 1, "partitions": [{", ".join(rows)}]}}'


def row(topic: str, partition: int, replicas: str, more: str = "") -> str:
    return f'{{"topic": "{topic}", "partition": {partition}, "replicas": {replicas}{more}}}'


def test_rows_are_read_in_the_files_order() -> None:
    file = parse_reassignments(IN_FILE_ORDER)
    assert file.rows == (
        ReassignmentRow(FOO1, (1, 2, 3), (None, "/d1", "d2")),
        ReassignmentRow(BAR0, (3, 1), (None, None)),
    )
    assert file.replicas == {FOO1: (1, 2, 3), BAR0: (3, 1)}
    assert file.log_dirs == {Replica(FOO1, 2): "/d1", Replica(FOO1, 3): "d2"}


def test_the_last_row_of_a_partition_and_the_last_log_dir_of_a_replica_count() -> None:
    file = file_of(
        row("foo", 0, "[1, 2, 3]", ', "log_dirs": ["/a1", "/a2", "/a3"]'),
        row("foo", 0, "[2, 1, 4]", ', "log_dirs": ["any", "/b1", "/b4"]'),
    )
    assert file.replicas == {FOO0: (2, 1, 4)}
    assert file.log_dirs == {
        Replica(FOO0, 1): "/b1",
        Replica(FOO0, 2): "/a2",
        Replica(FOO0, 3): "/a3",
        Replica(FOO0, 4): "/b4",
    }


@pytest.mark.parametrize("text", ["{}", '{"version": 1}', '{"partitions": []}'])
def test_a_file_may_have_no_partitions(text: str) -> None:
    assert parse_reassignments(text.encode()) == ReassignmentFile(())


@pytest.mark.parametrize(
    "text",
    [
        one_line(row("foo", 0, "[1]", ', "comment": {"by": [null, 1.5, "ops"]}')),
        one_line(row("bar", 7, "[9]", ', "topic": "foo", "partition": 0, "replicas": [1]')),
        f'{{"version": 2, "by": "ops", {one_line(row("foo", 0, "[1]"))[1:]}',
        f"\r\n\t {one_line(row('foo', 0, '[1]'))} and more",
        one_line(row("foo", 0, "[1]")) * 2,
        one_line(row("f\\u006fo", 0, "[1]")),
    ],
    ids=["unknown keys", "repeated keys", "repeated version", "more text", "two", "escapes"],
)
def test_unknown_keys_repeated_keys_and_more_text_do_no_harm(text: str) -> None:
    assert parse_reassignments(text.encode()).replicas == {FOO0: (1,)}


def test_names_and_numbers_are_not_checked_beyond_their_types() -> None:
    assert file_of(row("", -1, "[-2147483648, 2147483647]")).replicas == {
        TopicPartition("", -1): (-(2**31), 2**31 - 1)
    }


def test_bytes_that_are_not_utf_8_are_replaced_as_in_java() -> None:
    text = one_line(row("foo", 0, "[1]")).encode().replace(b"foo", b"f\xffo")
    assert parse_reassignments(text).rows[0].tp.topic == "f\ufffdo"


@pytest.mark.parametrize("name", ["missing.json", ".", "nul\0", "\x1b.json"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(ReassignProblem) as problem:
        read_file(path)
    shown = str(path).replace("\0", "\\x00").replace("\x1b", "\\x1b")
    assert str(problem.value) == f"Unable to read file {shown}"
    assert problem.value.__cause__ is not None


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(IN_FILE_ORDER)
    assert read_file(path) == IN_FILE_ORDER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{invalid_json: 'invalid'", "Unexpected character ('i' (code 105)) at line 1, column 2: "),
        ("{'a': 1}", "Unexpected character (''' (code 39)) at line 1, column 2: "),
        ('{"a" 1}', "Unexpected character ('1' (code 49)) at line 1, column 6: "),
        ('{"a":\n  1\n  "b": 2}', "Unexpected character ('\"' (code 34)) at line 3, column 3: "),
        ('\n{"a": "b\n"}', "Unexpected character ((CTRL-CHAR, code 10)) at line 2, column 9: "),
        (
            "\ufeff{}",
            "Unexpected character ('\\ufeff' (code 65279 / 0xfeff)) at line 1, column 1: ",
        ),
        ("\x0c{}", "Unexpected character ((CTRL-CHAR, code 12)) at line 1, column 1: "),
        (
            '{"NaN": "\\"NaN", "b": [NaN]}',
            "Unexpected character ('N' (code 78)) at line 1, column 24: JSON has no NaN",
        ),
        (
            "[1,\n-Infinity]",
            "Unexpected character ('-' (code 45)) at line 2, column 1: JSON has no -Infinity",
        ),
        ("{", "Unexpected end-of-input at line 1, column 2: "),
        ('{"partitions": [\n', "Unexpected end-of-input at line 2, column 1: "),
        ('{"partitions": [1, ', "Unexpected end-of-input at line 1, column 20: "),
        ('{"partitions": "a\\', "Unexpected end-of-input at line 1, column 19: "),
        ('{"partitions": "a', "Unexpected end-of-input at line 1, column 18: "),
    ],
)
def test_a_syntax_error_is_reported_with_its_place(text: str, message: str) -> None:
    assert problem_of(text).startswith(message)
    assert problem_of_topics(text) == "The input string is not a valid JSON"


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, f"[{'9' * 5_000}]"])
def test_absurd_json_is_refused(text: str) -> None:
    assert "\n" not in problem_of(text)


def test_deeply_nested_json_is_refused_at_any_depth() -> None:
    for depth in range(800, 1_000):
        assert problem_of("[" * depth + "]" * depth)


@given(st.text(alphabet='{}[]",:\\ \n0-.eE+ntrufalsN\x1b', max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ReassignProblem):
        parse_reassignments(text.encode())


def test_names_in_messages_are_escaped() -> None:
    hostile = row("\u202e\\u001b[2J", 0, "[1, 1]")
    messages = [
        problem_of('["\u202e"]'),
        problem_of(one_line(row("\u202e\\n", 0, "[1]", ', "log_dirs": []'))),
        problem_of_topics('{"topics": [{"topic": "\\u001b"}, {"topic": "\\u001b"}]}'),
        problem_of_execute(hostile),
        problem_of_execute(hostile, hostile),
    ]
    assert all(message.isprintable() for message in messages)


def test_topics_are_read_in_the_files_order() -> None:
    text = b'{"topics": [{"topic": "foo", "x": 1}, {"topic": "bar"}], "version": 1} more'
    assert parse_topics(text) == ("foo", "bar")


@pytest.mark.parametrize("text", ["{}", '{"topics": []}'])
def test_a_topics_file_may_be_empty(text: str) -> None:
    assert parse_topics(text.encode()) == ()


def test_execute_needs_a_row_with_replicas_and_nothing_twice() -> None:
    check_executable(parse_reassignments(IN_FILE_ORDER))


def test_an_assignment_is_written_in_one_line_with_its_log_dirs() -> None:
    written = assignment_json(
        {FOO1: (3, 4), FOO0: (1, 2), BAR0: (5,)},
        {Replica(FOO0, 2): "/d2", Replica(FOO1, 3): "/d3", Replica(BAR0, 4): "/d4"},
    )
    assert written == (
        '{"version":1,"partitions":['
        '{"topic":"bar","partition":0,"replicas":[5],"log_dirs":["any"]},'
        '{"topic":"foo","partition":0,"replicas":[1,2],"log_dirs":["any","/d2"]},'
        '{"topic":"foo","partition":1,"replicas":[3,4],"log_dirs":["/d3","any"]}]}'
    )


def test_an_empty_assignment_is_written_as_an_empty_list() -> None:
    assert assignment_json({}) == '{"version":1,"partitions":[]}'


@given(st.dictionaries(REPLICAS, st.text(min_size=1, max_size=9).filter(lambda d: d != "any")))
def test_a_written_assignment_is_read_as_it_was(log_dirs: dict[Replica, str]) -> None:
    replicas = {
        tp: tuple(each.broker for each in log_dirs if each.tp == tp)
        for tp in {each.tp for each in log_dirs}
    }
    text = assignment_json(replicas, log_dirs)
    file = parse_reassignments(text.encode())
    assert (file.replicas, file.log_dirs) == (replicas, log_dirs)
    assert text == json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":"))
