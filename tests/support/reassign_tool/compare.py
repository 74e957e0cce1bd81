"""The outcomes of ktui held against those of Apache's tool, line by line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from support.reassign_tool.differences import agrees, expected
from support.reassign_tool.flow_differences import Setting, compared, expected_state
from support.reassign_tool.flows import Flow, Run, Set
from support.reassign_tool.recording import Outcome


def assert_as_recorded(flow: Flow, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> None:
    """Check the answer and the cluster after each step of a flow."""
    assert len(ours) == len(theirs) == len(flow.steps)
    others: dict[Setting, str] = {}
    for number, (step, our, their) in enumerate(zip(flow.steps, ours, theirs, strict=True), 1):
        if isinstance(step, Set) and step.value is not None and not step.of_plan:
            others[f"{step.scope} {step.name}", step.key] = step.value
        words = shlex.split(step.words) if isinstance(step, Run) else ()
        try:
            assert_list_as_recorded(words, our, their, others)
        except AssertionError as error:
            raise AssertionError(f"step {number}, {step}: {error}") from None


def assert_list_as_recorded(
    words: Sequence[str],
    ours: Outcome,
    theirs: Outcome,
    others: Mapping[Setting, str] = MappingProxyType({}),
) -> None:
    """Check the answer to an argument list, and the cluster after it.

    Args:
        words: the argument list.
        ours: the outcome with ktui.
        theirs: the outcome with Apache's tool.
        others: throttles that another program has set.
    """
    if theirs.answer is not None:
        wanted = expected(words, theirs.answer)
        assert ours.answer is not None
        our, their = compared(words, ours.answer), compared(words, wanted.answer)
        assert agrees(our, their), f"{our}\nand not\n{their}"
    state = expected_state(theirs.state, others)
    assert ours.state == state, f"{ours.state}\nand not\n{state}"
