"""Defects of code that awaits stay fixed; tests/support/chaos lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.chaos.defects import DEFECTS, Defect, put_back

each_defect = pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)


@each_defect
def test_a_fixed_defect_does_not_come_back(defect: Defect, tmp_path: Path) -> None:
    defect.story(tmp_path)


@pytest.mark.soak
@each_defect
def test_a_reintroduced_defect_is_found(defect: Defect, tmp_path: Path) -> None:
    with put_back(defect), pytest.raises((AssertionError, KeyError)):
        defect.story(tmp_path)
