"""docs/reassign.md has each difference from Apache's tool by its name."""

from __future__ import annotations

import re
from pathlib import Path

from support.reassign_tool.differences import DIFFERENCES
from support.reassign_tool.flow_differences import LINES, THROTTLES

PAGE = Path(__file__).parents[4] / "docs" / "reassign.md"


def test_each_difference_that_the_tests_allow_is_in_the_docs_by_name() -> None:
    _, _, differs = PAGE.read_text(encoding="utf-8").partition("## Where it differs")
    rows = set(re.findall(r"^\| ([^|]+?) \|", differs, re.MULTILINE))

    allowed = {each.name for each in (*DIFFERENCES, *LINES, *THROTTLES)}

    assert allowed <= rows, sorted(allowed - rows)
