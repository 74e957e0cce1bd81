"""The outcomes of ktui held against those of Apache's tool, line by line."""

import shlex
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from support.reassign_tool.differences import Setting, agrees, compared, expected, expected_state
from support.reassign_tool.flows import Flow, Run, Set
from support.reassign_tool.own_outcomes import as_ktui_plays, own_of, recorded_own
from support.reassign_tool.recording import Outcome


def assert_as_recorded(flow: Flow, ours: Sequence[Outcome], theirs: Sequence[Outcome]) -> None:
    """Check the answer and the cluster after each step of a flow, as far as ktui plays it."""
    own = own_of(flow).steps
    steps = as_ktui_plays(flow).steps
    assert len(ours) == len(steps)
    assert len(theirs) == len(flow.steps)
    others: dict[Setting, str] = {}
    for number, (step, our, their) in enumerate(zip(steps, ours, theirs, strict=False), 1):
        if isinstance(step, Set) and step.value is not None and not step.of_plan:
            others[f"{step.scope} {step.name}", step.key] = step.value
        words = shlex.split(step.words) if isinstance(step, Run) else ()
        try:
            if number in own:
                assert_as_before(words, our, recorded_own()[flow.name][number])
            else:
                assert_list_as_recorded(words, our, their, others)
        except AssertionError as error:
            raise AssertionError(f"step {number}, {step}: {error}") from None


def assert_as_before(words: Sequence[str], ours: Outcome, recorded: Outcome) -> None:
    """Check an outcome that is ktui's own against the one that was recorded."""
    if recorded.answer is not None:
        assert ours.answer is not None
        our, wanted = compared(words, ours.answer), compared(words, recorded.answer)
        assert our == wanted, f"{our}\nand not\n{wanted}"
    assert ours.state == recorded.state, f"{ours.state}\nand not\n{recorded.state}"


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
