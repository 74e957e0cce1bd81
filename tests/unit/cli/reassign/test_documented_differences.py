"""docs/reassign.md has each difference from Apache's tool by its name."""

from __future__ import annotations

import re
from pathlib import Path

from support.reassign_tool.differences import DIFFERENCES
from support.reassign_tool.flow_differences import LINES, THROTTLES
from support.reassign_tool.flows import FLOWS
from support.reassign_tool.own_outcomes import OWN, recorded_own

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
