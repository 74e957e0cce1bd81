"""The tool's arguments, and each difference from Apache's tool."""

import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cli.reassign.command import LONG, Arguments, BadArguments, check, help_text, parse
from ktui.cli.reassign.options import DEFAULTS, OPTIONS, Action
from ktui.lab.layout import DEFAULT_VERSION
from ktui.ops.reassign import tool
from ktui.ops.reassign.tool import ReassignProblem, parse_broker_list
from support.contract.release_page import tool_differences
from support.reassign_tool.cases import argument_lists
from support.reassign_tool.differences import (
    DIFFERENCES,
    HINT,
    LINES,
    THROTTLES,
    agrees,
    compared,
    expected,
    expected_state,
)
from support.reassign_tool.flows import FLOWS
from support.reassign_tool.own_outcomes import OWN, recorded_own
from support.reassign_tool.programs import PROGRAM, KtuiHere
from support.reassign_tool.recording import (
    HELP,
    Answer,
    ClusterState,
    PartitionState,
    RecordedList,
    load,
    normalised,
    write_files,
)

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


@pytest.mark.parametrize("text", ["5\n", "--5", "-", "9" * 5000])
def test_what_is_no_number_is_refused_with_the_tools_message(text: str) -> None:
    arguments = parse([f"--throttle={text}"])

    assert the_error(arguments, "throttle") == f"Cannot parse argument '{text}' of option throttle"


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


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("5,2,3,4", (5, 2, 3, 4)),
        ("1", (1,)),
        ("1,", (1,)),
        ("1,2,,", (1, 2)),
        (",", ()),
        ("+1,-2", (1, -2)),
        ("007,00000000000008", (7, 8)),
        ("2147483647,-2147483648", (2**31 - 1, -(2**31))),
    ],
)
def test_brokers_are_parsed_in_their_order(text: str, brokers: tuple[int, ...]) -> None:
    assert parse_broker_list(text) == brokers


@pytest.mark.parametrize(("text", "shown"), [("1_0", "1_0"), ("1,\x1b[2J", "\\x1b[2J")])
def test_anything_but_a_32_bit_integer_is_refused(text: str, shown: str) -> None:
    with pytest.raises(ReassignProblem) as problem:
        parse_broker_list(text)
    assert str(problem.value) == f'For input string: "{shown}"'


RECORDING = load()
NO_CORDONS = (
    "stdout: Error: All brokers are currently fenced.",
    (
        "stdout: Error: The target replication factor of N cannot be reached because only N "
        "broker(s) are registered."
    ),
)
OLDER = {"4.3.1": (), "4.2.2": NO_CORDONS}
"""What the tool of other releases prints in another way: before 4.3 nothing about cordons."""
WITHOUT_CLUSTER = {each.words for each in argument_lists() if not each.needs_cluster}
ANSWERED_WITHOUT = [each for each in RECORDING.lists if each.words in WITHOUT_CLUSTER]


@pytest.fixture(scope="module")
def ktui(tmp_path_factory: pytest.TempPathFactory) -> KtuiHere:
    folder = tmp_path_factory.mktemp("reassign")
    return KtuiHere(write_files(folder / "files"), folder / "state")


@pytest.mark.parametrize("recorded", ANSWERED_WITHOUT, ids=lambda each: each.name)
def test_without_a_cluster_ktui_answers_as_apaches_tool_or_by_a_named_difference(
    ktui: KtuiHere, recorded: RecordedList
) -> None:
    wanted = expected(recorded.words, recorded.answer)

    answer = normalised(ktui.run(recorded.words), {HELP: help_text(PROGRAM)})

    assert agrees(answer, wanted.answer), f"{answer}\nand not\n{wanted}"


@pytest.mark.parametrize(
    "line",
    [
        tool.EXISTING_REASSIGNMENT,
        tool.THROTTLE_WARNING,
        tool.THROTTLE_SET.format(1_000_000),
        tool.LOG_DIR_THROTTLE_SET.format(0),
        tool.NO_MOVES_TO_CANCEL,
        tool.UNSUPPORTED_BY_CONTROLLER,
    ],
)
def test_a_line_of_ktui_is_one_that_apaches_tool_has_printed(line: str) -> None:
    played = [outcome.answer for flow in RECORDING.flows for outcome in flow.outcomes]
    answers = [*(each.answer for each in RECORDING.lists), *filter(None, played)]

    assert any(line in answer.stdout or line in answer.stderr for answer in answers)


def test_every_argument_list_and_flow_is_recorded_from_the_named_version() -> None:
    lists = argument_lists()

    assert len(lists) >= 120
    assert {each.words for each in RECORDING.lists} == {each.words for each in lists}
    assert len({flow.name for flow in FLOWS}) == len(FLOWS) >= 40
    assert {each.name for each in RECORDING.flows} == {flow.name for flow in FLOWS}
    assert RECORDING.header.jar == f"kafka-tools-{DEFAULT_VERSION}.jar"
    assert HELP not in RECORDING.header.help


@pytest.mark.parametrize("version", OLDER)
def test_the_tool_of_an_older_release_answers_as_the_newest_but_for_what_is_named(
    version: str,
) -> None:
    kinds = {
        found.kind.partition(" -> ")[0] for found in tool_differences(load(version), RECORDING)
    }

    assert kinds == {*OLDER[version]}


def test_every_named_difference_is_met() -> None:
    met = {
        name for each in RECORDING.lists for name in expected(each.words, each.answer).differences
    }

    assert met == {each.name for each in DIFFERENCES}
    assert len(met) == len(DIFFERENCES)


def test_an_answer_without_a_named_difference_has_to_be_the_same() -> None:
    printed = Answer(0, "Status of partition reassignment:\n")

    assert expected(["--verify"], printed).answer == printed
    assert expected(["--verify"], printed).differences == ()


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (Answer(0, "a\n"), Answer(1, "a\n")),
        (Answer(0, "a\n"), Answer(0, "a")),
        (Answer(0, "a\n"), Answer(0, "", "a\n")),
        (Answer(1, "", f"ktui: a\nb\n{HINT}"), Answer(1, "", f"ktui: <own words>\n{HINT}")),
        (Answer(1, "", f"ktui: \n{HINT}"), Answer(1, "", f"ktui: <own words>\n{HINT}")),
    ],
)
def test_no_other_difference_is_overlooked(answer: Answer, wanted: Answer) -> None:
    assert not agrees(answer, wanted)
    assert agrees(answer, answer)


TRACE = "\tat org.apache.Some.main(Some.java:1)\n\t... 12 more\n\n"


@pytest.mark.parametrize(
    ("printed", "compared"),
    [
        (f"Error: a b\norg.apache.Bad: a b\n{TRACE}", "Error: a b\n"),
        (f"Done.\nError: a\n at b\nx.Bad: a\n at b\n{TRACE}", "Done.\nError: a\n at b\n"),
        ("Error: a\norg.apache.Bad: a\n\n", "Error: a\n"),
        (f"Error: null\njava.lang.Bad\n{TRACE}", "Error: null\n"),
        (f'Exception in thread "main" x.Bad: a\n{TRACE}', 'Exception in thread "main" x.Bad: a\n'),
        ("Error: a\nb: c\n", "Error: a\nb: c\n"),
        ("127.0.0.1:5000,localhost:5001", "127.0.0.1:PORT,localhost:PORT"),
        ("/srv/lab7/broker-1/data", "<lab>/broker-1/data"),
        ("deadlineMs=1795440000000, tries=1", "deadlineMs=TIME, tries=1"),
        (
            'Proposed partition reassignment configuration\n[{"replicas":[3,1]}]',
            'Proposed partition reassignment configuration\n[{"replicas":[N,N]}]',
        ),
        ('Current\n[{"replicas":[3,1]}]', 'Current\n[{"replicas":[3,1]}]'),
        (
            "Request Request(processor=0, envelope=Some(Request(processor=0))) needs ALTER.",
            "Request <request> needs ALTER.",
        ),
        ("message\nthe whole help", "message\n<help>"),
    ],
)
def test_only_what_differs_from_run_to_run_is_normalised(printed: str, compared: str) -> None:
    places = {"<lab>": "/srv/lab7", HELP: "the whole help"}

    assert normalised(Answer(1, printed, printed), places) == Answer(1, compared, compared)


PAGE = Path(__file__).parents[4] / "docs" / "reassign.md"


def test_each_difference_that_the_tests_allow_is_in_the_docs_by_name() -> None:
    _, _, differs = PAGE.read_text(encoding="utf-8").partition("## Where it differs")
    rows = set(re.findall(r"^\| ([^|]+?) \|", differs, re.MULTILINE))

    allowed = {each.name for each in (*DIFFERENCES, *LINES, *THROTTLES)}
    allowed |= {name for own in OWN for name in own.steps.values()}

    assert allowed <= rows, sorted(allowed - rows)


def test_each_outcome_of_ktuis_own_was_recorded_in_a_flow_that_exists() -> None:
    flows = {flow.name: flow for flow in FLOWS}

    for own in OWN:
        assert max(own.steps) <= len(flows[own.flow].steps)
        assert recorded_own()[own.flow].keys() == own.steps.keys()
    assert recorded_own().keys() == {own.flow for own in OWN}


PARTITIONS = {"orders-0": PartitionState((1, 2))}
BOTH = {"leader.replication.throttled.rate": "5", "follower.replication.throttled.rate": "5"}
LEADER = {"leader.replication.throttled.rate": "5"}
FOLLOWER = {"follower.replication.throttled.rate": "5"}


def lists(leaders: str, followers: str) -> dict[str, str]:
    return {
        "leader.replication.throttled.replicas": leaders,
        "follower.replication.throttled.replicas": followers,
    }


def throttles_of_ktui(apaches: dict[str, dict[str, str]]) -> object:
    state = expected_state(ClusterState(PARTITIONS, apaches))
    assert state is not None
    assert state.partitions == PARTITIONS
    return state.throttles


def test_rates_are_expected_where_they_bind() -> None:
    listed = lists("0:1,0:2", "0:2,0:3")

    assert throttles_of_ktui(
        {"broker 1": BOTH, "broker 2": BOTH, "broker 3": BOTH, "topic orders": listed}
    ) == {"broker 1": LEADER, "broker 2": BOTH, "broker 3": FOLLOWER, "topic orders": listed}


def test_nothing_is_expected_to_be_throttled_where_nothing_is_copied() -> None:
    moved = lists("0:1", "0:2")

    assert throttles_of_ktui({"broker 1": BOTH, "topic orders": lists("0:1", "")}) == {}
    assert throttles_of_ktui(
        {"broker 1": BOTH, "topic orders": lists("0:1", ""), "topic payments": moved}
    ) == {"broker 1": LEADER, "topic payments": moved}


def test_throttles_of_others_are_expected_to_stay_where_apaches_tool_removes_them() -> None:
    state = expected_state(
        ClusterState(PARTITIONS, {"broker 1": {"a": "6"}}),
        {("broker 1", "a"): "5", ("broker 1", "b"): "7", ("topic orders", "c"): "*"},
    )

    assert state is not None
    assert state.throttles == {"broker 1": {"a": "6", "b": "7"}, "topic orders": {"c": "*"}}


def test_single_rates_of_others_are_expected_unchanged() -> None:
    throttles = {
        "broker 1": FOLLOWER,
        "topic orders": {"leader.replication.throttled.replicas": "*"},
    }

    assert throttles_of_ktui(throttles) == throttles


@pytest.mark.parametrize(
    ("words", "printed", "left"),
    [
        ("--verify", "a\nClearing broker-level throttles on broker 1\n", "a\n"),
        ("--list", "Clearing broker-level throttles on broker 1\n", None),
        ("--execute --additional", '{"version":1,"partitions":[]}\nb\n', "b\n"),
        ("--execute", '{"version":1,"partitions":[]}\nb\n', None),
        (
            "--cancel",
            "None of the specified partition moves are active.Clearing topic-level throttles on \n",
            "None of the specified partition moves are active.\n",
        ),
    ],
)
def test_only_named_lines_are_left_out(words: str, printed: str, left: str | None) -> None:
    expected = printed if left is None else left

    assert compared(words.split(), Answer(0, printed)) == Answer(0, expected)
