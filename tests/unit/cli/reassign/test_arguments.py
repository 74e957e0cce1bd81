"""The words of `ktui reassign` are read as Apache Kafka's own tool reads them."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cli.reassign.command import LONG, Arguments, BadArguments, check, parse
from ktui.cli.reassign.options import DEFAULTS, OPTIONS, Action

WITH_VALUE = sorted(
    name for name, each in OPTIONS.items() if each.metavar and not each.argument_optional
)
WORDS = st.one_of(
    st.sampled_from([f"{dashes}{name}" for name in OPTIONS for dashes in ("-", "--")]),
    st.sampled_from([f"--{name}=" for name in OPTIONS]),
    st.sampled_from(["-", "--", "", " ", "=", "-=", "--=", "5", "-5", "a:9092", "9" * 5000]),
    st.text(max_size=8),
)


def the_error(arguments: Arguments, name: str) -> str:
    with pytest.raises(BadArguments) as refused:
        arguments.number(name) if name in DEFAULTS else arguments.text(name)
    return str(refused.value)


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("--list", [("list", None)]),
        ("-list", [("list", None)]),
        ("--list=anything", [("list", None)]),
        ("--list --list", [("list", None), ("list", None)]),
        ("--throttle 5 --list", [("throttle", "5"), ("list", None)]),
        ("--throttle=5", [("throttle", "5")]),
        ("-throttle 5", [("throttle", "5")]),
        ("-throttle=5", [("throttle", "5")]),
        ("--throttle=", [("throttle", "")]),
        ("--throttle -5", [("throttle", "-5")]),
        ("--command-config a=b", [("command-config", "a=b")]),
        ("--command-config=a=b", [("command-config", "a=b")]),
        ("--command-config --", [("command-config", "--")]),
        ("--reassignment-json-file --additional", [("reassignment-json-file", "--additional")]),
        ("--bootstrap-server a:1", [("bootstrap-server", "a:1")]),
        ("--bootstrap-server -", [("bootstrap-server", "-")]),
        ("--bootstrap-server=", [("bootstrap-server", "")]),
        ("--bootstrap-server", [("bootstrap-server", None)]),
        ("--bootstrap-server --list", [("bootstrap-server", None), ("list", None)]),
        ("--bootstrap-server -- --list", [("bootstrap-server", None)]),
        ("--bootstrap-controller -list", [("bootstrap-controller", None), ("list", None)]),
        ("some words - --list", [("list", None)]),
        ("--list -- --bogus --execute", [("list", None)]),
    ],
)
def test_options_are_read_in_each_spelling_of_the_tool(
    line: str, options: list[tuple[str, str | None]]
) -> None:
    assert list(parse(line.split(" ")).given) == options


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--bogus", "bogus is not a recognized option"),
        ("--bogus=5", "bogus is not a recognized option"),
        ("--help --bogus", "bogus is not a recognized option"),
        ("--lis", "lis is not a recognized option"),
        ("---list", "-list is not a recognized option"),
        ("--LIST", "LIST is not a recognized option"),
        ("-bogus", "b is not a recognized option"),
        ("-LIST", "L is not a recognized option"),
        ("-=x", "= is not a recognized option"),
        ("--=x", " is not a recognized option"),
        ("--bootstrap-server -x", "x is not a recognized option"),
        ("--throttle", "Option throttle requires an argument"),
        ("--list --timeout", "Option timeout requires an argument"),
    ],
)
def test_a_line_that_cannot_be_read_has_the_tools_message(line: str, message: str) -> None:
    with pytest.raises(BadArguments) as refused:
        parse(line.split(" "))

    assert str(refused.value) == message


def test_an_option_has_its_value_wherever_it_stands() -> None:
    arguments = parse(["--throttle", "5", "--list", "--command-config=x", "--state-dir", "d"])

    assert arguments.has("list")
    assert not arguments.has("verify")
    assert arguments.action is Action.LIST
    assert (arguments.text("command-config"), arguments.text("state-dir")) == ("x", "d")
    assert arguments.text("reassignment-json-file") is None


def test_numbers_that_are_not_given_have_their_defaults() -> None:
    arguments = parse(["--execute"])

    assert {name: arguments.number(name) for name in DEFAULTS} == {
        "throttle": -1,
        "replica-alter-log-dirs-throttle": -1,
        "timeout": 10_000,
        "reassignment-batch-size": 0,
        "reassignment-poll-interval-ms": 1000,
    }


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("+5", 5),
        ("-1", -1),
        ("007", 7),
        ("\N{ARABIC-INDIC DIGIT THREE}", 3),
        ("9223372036854775807", LONG[-1]),
        ("-9223372036854775808", LONG[0]),
    ],
)
def test_a_number_is_read_as_java_reads_a_long(text: str, number: int) -> None:
    assert parse(["--throttle", text]).number("throttle") == number


@pytest.mark.parametrize(
    "text",
    ["abc", "", "1.5", " 5", "5\n", "1_0", "0x1", "--5", "-", "9223372036854775808", "9" * 5000],
)
def test_what_is_no_number_is_refused_with_the_tools_message(text: str) -> None:
    arguments = parse([f"--throttle={text}"])

    assert the_error(arguments, "throttle") == f"Cannot parse argument '{text}' of option throttle"


@pytest.mark.parametrize(
    "name", ["throttle", "bootstrap-server", "reassignment-json-file", "context"]
)
def test_an_option_with_two_values_is_refused_with_the_tools_message(name: str) -> None:
    arguments = parse([f"--{name}=1", f"--{name}=1"])

    assert the_error(arguments, name) == (
        f"Found multiple arguments for option {name}, but you asked for only one"
    )


def test_a_value_that_is_no_number_is_named_before_its_repetition() -> None:
    arguments = parse(["--timeout", "5", "--timeout", "abc"])

    assert the_error(arguments, "timeout") == "Cannot parse argument 'abc' of option timeout"


def test_brokers_that_are_left_out_are_missed_when_they_are_needed() -> None:
    arguments = parse(["--bootstrap-server", "--list"])

    assert the_error(arguments, "bootstrap-server") == (
        "Option bootstrap-server requires an argument"
    )
    once = parse(["--bootstrap-server", "--bootstrap-server", "a:1"])
    assert once.text("bootstrap-server") == "a:1"


@given(st.lists(WORDS, max_size=8))
def test_whatever_the_words_they_are_accepted_or_refused_with_a_message(words: list[str]) -> None:
    with suppress(BadArguments):
        arguments = parse(words)
        check(arguments)
        assert len(arguments.actions) == 1
        for name in OPTIONS:
            with suppress(BadArguments):
                arguments.number(name) if name in DEFAULTS else arguments.text(name)


@given(st.lists(st.tuples(st.sampled_from(WITH_VALUE), st.text(max_size=8))), st.data())
def test_every_spelling_of_an_option_means_the_same(
    options: list[tuple[str, str]], data: st.DataObject
) -> None:
    words: list[str] = []
    for name, value in options:
        dashes = data.draw(st.sampled_from(["-", "--"]))
        one_word = data.draw(st.booleans())
        option = f"{dashes}{name}"
        words += [f"{option}={value}"] if one_word else [option, value]

    assert list(parse(words).given) == options
