"""How much the benches' producer writes."""

from __future__ import annotations

import pytest
from bench.producing import Load


@pytest.mark.parametrize(
    ("at_s", "written"), [(0.0, 0.0), (10.0, 10.0), (15.0, 20.0), (20.0, 30.0), (25.0, 35.0)]
)
def test_a_rush_doubles_what_is_written_while_it_lasts(at_s: float, written: float) -> None:
    assert Load(1.0, factor=2.0, since_s=10.0, until_s=20.0).written(at_s) == written


def test_a_steady_load_needs_no_rush() -> None:
    assert Load(8e6).written(3.0) == 24e6
