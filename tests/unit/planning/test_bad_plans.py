"""A plan with mistakes is refused with all of them, each with its place: corpus/problems.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.planning.read.json_cursor import BadPlan
from ktui.planning.read.read import read_plan

CORPUS = Path(__file__).parent / "corpus"
EXPECTED = dict(
    entry.split("\n", 1) for entry in (CORPUS / "problems.txt").read_text().strip().split("\n\n")
)


def _expected(name: str) -> list[str]:
    return [line.strip() for line in EXPECTED[name].splitlines()]


def test_every_bad_plan_of_the_corpus_has_its_expected_mistakes() -> None:
    assert {file.name for file in CORPUS.glob("*.json")} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_bad_plan_is_refused_with_every_mistake_and_its_place(name: str) -> None:
    with pytest.raises(BadPlan) as bad:
        read_plan((CORPUS / name).read_bytes())
    assert str(bad.value).splitlines() == _expected(name)
    assert bad.value.problems
    assert all(problem.place is not None for problem in bad.value.problems)


def test_each_mistake_of_a_plan_is_reported_with_the_file_name() -> None:
    file = CORPUS / "partition-three-times.json"
    with pytest.raises(BadPlan) as bad:
        read_plan(file)
    lines = str(bad.value).splitlines()
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines] == [
        "partition-three-times.json:5:5",
        "partition-three-times.json:6:5",
    ]
