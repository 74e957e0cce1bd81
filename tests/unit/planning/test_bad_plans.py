"""A plan with mistakes is refused with all of them, each with its place: corpus/told.txt."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.planning.read.problems import BadPlan
from ktui.planning.read.read import read_plan

CORPUS = Path(__file__).parent / "corpus"
TOLD = dict(
    entry.split("\n", 1) for entry in (CORPUS / "told.txt").read_text().strip().split("\n\n")
)


def _told(name: str) -> list[str]:
    return [line.strip() for line in TOLD[name].splitlines()]


def test_every_bad_plan_has_its_answer_and_every_answer_its_plan() -> None:
    assert {file.name for file in CORPUS.glob("*.json")} == set(TOLD)


@pytest.mark.parametrize("name", sorted(TOLD))
def test_a_bad_plan_is_told_every_mistake_with_its_place(name: str) -> None:
    with pytest.raises(BadPlan) as bad:
        read_plan((CORPUS / name).read_bytes())
    assert str(bad.value).splitlines() == _told(name)
    assert bad.value.problems
    assert all(problem.place is not None for problem in bad.value.problems)


def test_the_file_is_named_with_each_mistake() -> None:
    file = CORPUS / "partition-three-times.json"
    with pytest.raises(BadPlan) as bad:
        read_plan(file)
    lines = str(bad.value).splitlines()
    assert [line.split(": ")[0].rpartition("/")[2] for line in lines] == [
        "partition-three-times.json:5:5",
        "partition-three-times.json:6:5",
    ]
