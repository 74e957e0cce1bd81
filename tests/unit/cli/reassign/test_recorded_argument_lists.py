"""`ktui reassign` answers argument lists as Apache's tool did, but for the named differences.

The answers of the tool were recorded by `make kafka`.
"""

from __future__ import annotations

import pytest

from ktui.cli.reassign.command import help_text
from ktui.lab.layout import DEFAULT_VERSION
from support.contract.release_page import tool_differences
from support.reassign_tool.answer import Answer
from support.reassign_tool.cases import argument_lists
from support.reassign_tool.differences import (
    DIFFERENCES,
    HINT,
    agrees,
    expected,
)
from support.reassign_tool.files import write_files
from support.reassign_tool.flows import FLOWS
from support.reassign_tool.normalise import HELP, normalised
from support.reassign_tool.programs import PROGRAM, KtuiHere
from support.reassign_tool.recording import RecordedList, load

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
