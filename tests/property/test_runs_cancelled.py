"""Whatever is cancelled, at any stage, ends as forecast, and nothing else is sent."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest

from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits, Shape
from ktui.pacing.situation import Situation
from ktui.pacing.steps import all_steps
from support.runs.cancel_stories import CalledOffStory, altered, begun, done, nth, step_over
from support.runs.stories import Such
from support.simulated.moving_clusters import tp

BROKERS = range(1, 10)
WAYS = {
    "accounts-0": ((1, 2, 3), (4, 5, 6)),
    "orders-0": ((2, 1, 3), (4, 5, 6)),
    "orders-1": ((3, 2, 1), (3, 5, 6)),
}
"""In the order in which they begin."""
SCOPES = {
    "a partition": CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),)),
    "a topic": CancelMoves(CancelKind.STOP, topics=("orders",)),
    "all": CancelMoves(CancelKind.STOP),
}


def _steps(limits: Limits) -> int:
    original, target = WAYS["orders-0"]
    calm = Situation(
        replicas=original,
        isr=original,
        leader=original[0],
        target=target,
        online=frozenset(BROKERS),
    )
    return len(all_steps(calm, limits))


def _stages(limits: Limits) -> dict[str, Such]:
    """Return the moments of orders-0 at which something is cancelled."""
    count = _steps(limits)
    middle = (count + 1) // 2
    stages = {
        "queued": nth(1, begun("accounts-0")),
        "about to begin": nth(1, begun("orders-0")),
        "adding": nth(1, altered("orders-0")),
        "first step done": nth(1, step_over("orders-0")),
        "mid": nth(middle, altered("orders-0")),
        "last step about to go": nth(count, begun("orders-0")),
        "last step": nth(count, altered("orders-0")),
        "done": done("orders-0"),
    }
    if count == 1:
        del stages["mid"], stages["last step"], stages["last step about to go"]
    return stages


class Case(NamedTuple):
    """What is cancelled, how, and when."""

    limits: Limits
    version: str
    stage: str
    kind: CancelKind
    scope: str


def _cases() -> Iterator[Case]:
    for replicas, shape, version in product((1, 2, None), Shape, ("4.2", "4.3")):
        limits = Limits(replicas=replicas, partitions=1, shape=shape)
        for stage, kind, scope in product(_stages(limits), CancelKind, SCOPES):
            yield Case(limits, version, stage, kind, scope)


CASES = [*_cases()]
SOME_CASES = CASES[::23]  # few enough for each day; the soak has all


def _called_off(case: Case, folder: Path) -> None:
    more = {"messages": 2_500, "version": case.version}
    story = CalledOffStory(folder, WAYS, case.limits, more)
    scope = SCOPES[case.scope]
    story.called_off(
        _stages(case.limits)[case.stage], CancelMoves(case.kind, scope.topics, scope.partitions)
    )

    assert story.played().ended

    assert story.all_came
    story.assert_as_foreseen()


@pytest.mark.parametrize("number", range(len(SOME_CASES)))
def test_cancelled_partitions_end_as_forecast(number: int, tmp_path: Path) -> None:
    _noted(SOME_CASES[number], tmp_path)


def test_among_these_are_all_limits_versions_stages_kinds_and_scopes() -> None:
    for some, every in zip(zip(*SOME_CASES, strict=True), zip(*CASES, strict=True), strict=True):
        assert {*some} == {*every}


@pytest.mark.soak
@pytest.mark.parametrize("first", range(0, len(CASES), 50))
def test_every_cancel_ends_as_its_preview_shows(first: int, tmp_path: Path) -> None:
    for number, case in enumerate(CASES[first : first + 50]):
        folder = tmp_path / str(number)
        folder.mkdir()
        _noted(case, folder)


def _noted(case: Case, folder: Path) -> None:
    try:
        _called_off(case, folder)
    except Exception as error:
        error.add_note(str(case))
        raise
