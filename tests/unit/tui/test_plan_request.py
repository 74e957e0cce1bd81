"""What an operator types to have a plan generated."""

from __future__ import annotations

import pytest

from ktui.planning.check.placement import Placement
from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.replication_factor import BrokerPool
from ktui.tui.run_view.plan_request import PlanRequest, PlanSource

EMPTY = Placement({}, BrokerPool(online=frozenset({1, 2})), frozenset({1, 2}))
DRAIN, FACTOR = PlanSource.DRAIN, PlanSource.FACTOR


def test_a_generated_plan_has_a_name() -> None:
    assert PlanRequest(source=DRAIN, brokers="3, 7").file.name == "drain-3-7.json"
    assert (
        PlanRequest(source=FACTOR, topics="orders", factor="3").file.name
        == "orders-3-replicas.json"
    )


@pytest.mark.parametrize("text", ["x", "-1", "3.5", "9" * 30, "٣"])
def test_what_is_no_number_is_named(text: str) -> None:
    with pytest.raises(CannotMake, match=r"brokers: .* is not a whole number from 0"):
        PlanRequest(source=DRAIN, brokers=text).generate(EMPTY)
    with pytest.raises(CannotMake, match=r"replicas: .* is not a whole number from 1"):
        PlanRequest(source=FACTOR, topics="a", factor=text).generate(EMPTY)
