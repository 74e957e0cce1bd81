"""Whatever is called off, at whichever stage: it ends as was said, and nothing else is sent."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.cancel_kind import CancelKind
from ktui.pacing.limits import Limits, Shape
from ktui.pacing.situation import Situation
from ktui.pacing.steps import all_steps
from support.runs.cancel_stories import CalledOffStory, Such, altered, begun, done, nth, step_over
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
    """Give the moments of orders-0 at which something is called off."""
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


def _cases() -> Iterator[Any]:
    """Give all cases; every so manieth of them is cheap enough for each day."""
    number = 0
    for replicas, shape, version in itertools.product((1, 2, None), Shape, ("4.2", "4.3")):
        limits = Limits(replicas=replicas, partitions=1, shape=shape)
        for stage, kind, scope in itertools.product(_stages(limits), CancelKind, SCOPES):
            number += 1
            marks = () if number % 23 == 0 else (pytest.mark.soak,)
            name = f"{kind} {scope} {stage} R={replicas} {shape} {version}"
            yield pytest.param(limits, version, stage, kind, scope, id=name, marks=marks)


@pytest.mark.parametrize(("limits", "version", "stage", "kind", "scope"), _cases())
def test_what_is_called_off_ends_as_was_said_before(
    limits: Limits, version: str, stage: str, kind: CancelKind, scope: str, tmp_path: Path
) -> None:
    story = CalledOffStory(tmp_path, WAYS, limits, {"messages": 2_500, "version": version})
    command = SCOPES[scope]
    story.called_off(_stages(limits)[stage], CancelMoves(kind, command.topics, command.partitions))

    assert story.played().ended

    assert story.all_came
    story.assert_as_foreseen()
