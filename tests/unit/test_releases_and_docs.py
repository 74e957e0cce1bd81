"""The scripts beside the product, and the pages that they hold to it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path
from zipfile import ZipFile

import click
import pytest
from msgspec.structs import replace
from stale_names import in_docstrings, in_pages

from support.contract.record_release import newest_before
from support.contract.release_page import Simulated, Version, page
from support.contract.sequences import (
    AddPartitions,
    Alter,
    Answer,
    Cordon,
    Outcome,
    Played,
    Seen,
    Sequence,
    Step,
)
from support.contract.surroundings import Surroundings, named_classes, where_classes_are
from support.reassign_tool.recording import Answer as Printed
from support.reassign_tool.recording import Header, RecordedList, Recording

HERE = Outcome((Seen((2, 1), (1, 2), 2),))
ACCEPTED = replace(HERE, answers={0: Answer("accepted")})
REFUSED = replace(HERE, answers={0: Answer("refused", "NO", "broker 4 is cordoned")})
AROUND = Surroundings(
    formatted=("meta.properties",),
    apis={"broker": {"Metadata": "0-13"}, "controller": {}},
    features={"metadata.version": "7-30, finalized 30"},
    classes={"kafka.Kafka": "kafka"},
)
TOOL = Recording(
    Header(jar="kafka-tools-1.0.0.jar", help="the help"),
    (RecordedList(("--list",), Printed(0, "No partition reassignments found.\n")),),
    (),
)


def played(name: str, *outcomes: Outcome) -> Played:
    steps: tuple[Step, ...] = (Cordon(4), *(Alter({0: (4, 1)}) for _ in outcomes[1:]))
    return Played(Sequence(name=name, replicas=((2, 1),), steps=steps), outcomes)


def shown(
    was: list[Played],
    now: list[Played],
    simulated: list[Played] | None = None,
    *,
    around: Surroundings = AROUND,
    tool: Recording = TOOL,
    contract: tuple[str, ...] = (),
) -> str:
    old = Version("1.0.0", was, AROUND, TOOL)
    new = Version("1.1.0", now, around, tool)
    in_its_place = {one.sequence.name: one for one in simulated or now}
    return page(old, new, Simulated("1.0", in_its_place), contract)


def test_releases_that_do_the_same_have_nothing_to_tell() -> None:
    text = shown([played("a", HERE, ACCEPTED)], [played("a", HERE, ACCEPTED)])

    assert text.count("The same.") == 3
    assert "ktui's simulated 1.0 does what 1.1.0 does in all of them." in text


def test_answers_of_one_kind_are_told_once_with_the_smallest_example() -> None:
    long = [played("long", HERE, ACCEPTED, ACCEPTED), played("short", HERE, ACCEPTED)]
    now = [played("long", HERE, ACCEPTED, REFUSED), played("short", HERE, REFUSED)]

    text = shown(long, now, long)

    assert '- 2 x Alter beside a cordoned broker: accepted -> refused NO "broker N is' in text
    assert "'short', from [2, 1]" in text
    assert "'long', from" not in text
    assert "  1.0.0: accepted\n" in text
    assert '  1.1.0: refused NO "broker 4 is cordoned"\n' in text
    assert "  simulated 1.0: accepted\n" in text
    assert "  simulated 1.0: the same\n" in shown(long, now)
    assert "in all but 2, 'long' among them." in text


def test_what_follows_from_a_difference_is_no_further_one() -> None:
    was = [played("a", HERE, ACCEPTED, ACCEPTED)]
    now = [played("a", HERE, REFUSED, REFUSED)]

    assert "- 1 x Alter beside a cordoned broker" in shown(was, now)


def test_other_replicas_after_the_same_answer_are_told_by_what_is_other_about_them() -> None:
    moved = replace(ACCEPTED, partitions=(Seen((4, 1), (1, 4), 4),))

    text = shown([played("a", HERE, ACCEPTED)], [played("a", HERE, moved)])

    assert "1 x Alter beside a cordoned broker: other replicas, isr, leader" in text


def test_a_move_that_is_done_where_it_went_on_before_is_told_as_that() -> None:
    going_on = replace(ACCEPTED, partitions=(Seen((4, 1, 2), (1, 2), 2, listed=True),))

    text = shown([played("a", HERE, going_on)], [played("a", HERE, ACCEPTED)])

    assert "1 x Alter beside a cordoned broker: a move is done" in text
    text = shown([played("a", HERE, ACCEPTED)], [played("a", HERE, going_on)])
    assert "1 x Alter beside a cordoned broker: a move goes on" in text


def test_partitions_that_only_one_release_adds_are_told() -> None:
    sequence = Sequence(name="a", replicas=((1,),), steps=(AddPartitions(2),))
    was, now = Outcome(HERE.partitions, placed=(3,)), Outcome(HERE.partitions)

    text = shown([Played(sequence, (was,))], [Played(sequence, (now,))])

    assert "AddPartitions: [N] -> []" in text


def test_a_line_that_kafkas_tool_prints_in_another_way_is_told_as_it_was_and_as_it_is() -> None:
    other = Printed(0, "Nothing moves.\n")
    tool = Recording(TOOL.header, (RecordedList(("--list",), other),), ())

    text = shown([], [], tool=tool)

    assert "stdout: No partition reassignments found. -> Nothing moves." in text


def test_moved_classes_and_other_files_levels_and_api_versions_are_told() -> None:
    around = Surroundings(
        formatted=("meta.properties", "0.checkpoint"),
        apis={"broker": {"Metadata": "0-14", "New": "0-0"}, "controller": {}},
        features={"metadata.version": "7-31, finalized 31"},
        classes={"kafka.Kafka": "not there; org.apache.kafka.Kafka is", "a.Later": "kafka"},
    )

    text = shown([], [], around=around)

    assert "- a formatted controller has, new: 0.checkpoint" in text
    assert "- API of a broker (* ktui builds its requests), new: New 0-0" in text
    assert "Metadata* 0-13 -> 0-14" in text
    assert "- feature, other: metadata.version 7-30, finalized 30 -> 7-31, finalized 31" in text
    assert "- class, other: kafka.Kafka kafka -> not there; org.apache.kafka.Kafka is" in text
    assert "a.Later" not in text


def test_failing_tests_of_the_contract_are_told() -> None:
    assert "- FAILED test_moving" in shown([], [], contract=("1 failed", "FAILED test_moving"))


def test_a_page_of_many_kinds_stays_short_enough_to_read() -> None:
    names = [chr(ord("a") + number) for number in range(26)]
    was = [played(name, HERE, ACCEPTED) for name in names]
    now = [
        played(name, HERE, replace(HERE, answers={0: Answer("refused", name)})) for name in names
    ]

    text = shown(was, now)

    assert "18 more, of 18 other kinds" in text
    assert text.count("\n") < 100


def test_a_class_is_found_in_its_jar_or_by_those_of_its_name(tmp_path: Path) -> None:
    jar = tmp_path / "kafka-tools-4.4.0.jar"
    with ZipFile(jar, "w") as classes:
        classes.writestr("org/apache/kafka/tools/A.class", "")

    assert where_classes_are(["org.apache.kafka.tools.A", "kafka.admin.A", "kafka.B"], [jar]) == {
        "kafka.B": "not there",
        "kafka.admin.A": "not there; org.apache.kafka.tools.A is",
        "org.apache.kafka.tools.A": "kafka-tools",
    }


def test_the_classes_that_labs_start_are_among_those_looked_for() -> None:
    assert {
        "kafka.Kafka",
        "kafka.tools.StorageTool",
        "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    } <= set(named_classes())


def test_a_release_is_compared_with_the_newest_recorded_one_before_it() -> None:
    assert newest_before("4.3.2") == "4.3.1"
    assert newest_before("4.3.1").startswith("4.2.")
    with pytest.raises(click.UsageError, match="--against"):
        newest_before("3.0.0")


MODULE = '''
from click import ClickException

class Full(ValueError):
    """There is no room."""

class Late(Full):
    """It is too late."""

class Limits:
    """Limits.

    Args:
        most: how many.
    """

    def __init__(self, most: int) -> None:
        self.most = most

def check(limits: Limits) -> None:
    """Check limits.

    Args:
        limits: those in force. They apply at once:
            not later: never.

    Raises:
        Full, Late: there is no room.
        ClickException: they cannot be read.
        KeyError: they are missing.
    """
'''
PAGE = """
| a limit | `Limits` of `pacing/limits.py`; `room.py` and `limits.py` of `pacing/` |

Judged in tests/support, run by `python -m support.judge`. `--json` is an option.
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pacing, support = tmp_path / "src" / "ktui" / "pacing", tmp_path / "tests" / "support"
    for folder in (pacing, support, tmp_path / "docs", tmp_path / "bench"):
        folder.mkdir(parents=True)
    (pacing / "limits.py").write_text(MODULE)
    (pacing / "room.py").write_text("")
    (support / "judge.py").write_text("")
    (tmp_path / "docs" / "architecture.md").write_text(PAGE)
    (tmp_path / "CONTRIBUTING.md").write_text("tests/support/judge.py\n")
    return tmp_path


def test_nothing_is_found_where_every_name_exists(root: Path) -> None:
    assert [*in_pages(root), *in_docstrings(root)] == []


@pytest.mark.parametrize(
    ("stale", "found"),
    [
        ("`pacing/roster.py`", "no pacing/roster.py"),
        ("`pacing/` has `steps.py`", "no steps.py"),
        ("tests/support/gone.py", "no tests/support/gone.py"),
        ("python -m support.gone", "no module support.gone"),
        ("`Roster`", "nothing is called Roster"),
        ("`ROOM` of `pacing/room.py`", "no ROOM in pacing/room.py"),
    ],
)
def test_a_name_on_a_page_that_does_not_exist_is_found(root: Path, stale: str, found: str) -> None:
    (root / "CONTRIBUTING.md").write_text(f"first\n{stale}\n")

    assert f"CONTRIBUTING.md:2: {found}" in [*in_pages(root)]


def test_a_module_on_any_page_that_does_not_exist_is_found(root: Path) -> None:
    (root / "docs" / "runs.md").write_text("`pacing/limits.py` and `pacing/gone.py`\n")

    assert [*in_pages(root)] == ["docs/runs.md: no pacing/gone.py"]


@pytest.mark.parametrize(
    ("old", "stale", "found"),
    [
        ("        KeyError: they", "        Gone: they", "raises Gone, which is no exception here"),
        ("        Full, Late: there", "        Full, Limits: there", "raises Limits, which is no"),
        ("        limits: those", "        limit: those", "has no argument limit"),
        ("        most: how many", "        more: how many", "has no argument more"),
    ],
)
def test_a_name_in_a_docstring_that_does_not_exist_is_found(
    root: Path, old: str, stale: str, found: str
) -> None:
    (root / "src" / "ktui" / "pacing" / "limits.py").write_text(MODULE.replace(old, stale))

    (line,) = in_docstrings(root)

    assert line.startswith("src/ktui/pacing/limits.py:")
    assert found in line


ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_that_a_page_names_exists(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
    sources = (path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    defined = {name for source in sources for name in re.findall(r"def (test_\w+)", source)}

    assert named <= defined, sorted(named - defined)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_links_to_exists(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text(encoding="utf-8"))

    missing = [link for link in links if not (page.parent / link).exists()]

    assert missing == []


def test_the_site_the_index_and_the_readme_put_every_page_into_the_same_group() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    groups = {name: pages for one in site["project"]["nav"][1:] for name, pages in one.items()}
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", index, re.MULTILINE | re.DOTALL)
    paragraphs = re.findall(r"^\*\*(\w+)\*\*: (.+?)\n\n", readme, re.MULTILINE | re.DOTALL)

    assert list(groups) == ["Start", "Operate", "Analyse", "Extend"]
    assert {*chain(*groups.values())} == {page.name for page in PAGES if page.parent != ROOT} - {
        "index.md"
    }
    assert {name: re.findall(r"\]\(([\w-]+\.md)\)", text) for name, text in sections} == groups
    assert {
        name: re.findall(r"\]\(docs/([\w-]+\.md)\)", text) for name, text in paragraphs
    } == groups


def test_the_pages_build_a_site_without_a_broken_link(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)

    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page.stem for page in (tmp_path / "docs").glob("*.md")} - {"index"}
    built_pages = {page.parent.name for page in (tmp_path / "build" / "site").glob("*/index.html")}
    assert pages <= built_pages
