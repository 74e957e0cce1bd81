"""What an operator types to have a plan made."""

from __future__ import annotations

import pytest

from ktui.planning.intents.made_plan import CannotMake
from ktui.planning.intents.registry import WrongField
from ktui.tui.run_view.plan_request import SOURCES, PlanRequest
from support.layouts import healthy, layout, targets

CLUSTER = layout(
    {**healthy((1, 2), (1, 2), (1, 3), (1, 2)), **healthy((1, 2), (2, 1), topic="pay")},
    brokers=range(1, 5),
)
DRAIN, FACTOR, SPREAD, SHED = (
    "drain",
    "replication-factor",
    "spread",
    "shed",
)


@pytest.mark.parametrize(
    ("request_", "name"),
    [
        (PlanRequest(DRAIN, {"brokers": "3, 7"}), "drain-3-7.json"),
        (PlanRequest(FACTOR, {"topics": "orders", "factor": "3"}), "orders-3-replicas.json"),
        (PlanRequest("swap", {"old": "1", "new": "9"}), "swap-1-9.json"),
        (PlanRequest(SPREAD, {"among": "1,2", "by": "leaders"}), "spread-leaders-1-2.json"),
        (PlanRequest(SHED, {"broker": "1", "until": "80%"}), "shed-1.json"),
        (PlanRequest("leaders", {"brokers": "3"}), "leaders.json"),
        (PlanRequest("rack-repair"), "rack-repair.json"),
    ],
)
def test_a_plan_that_is_made_has_a_name(request_: PlanRequest, name: str) -> None:
    assert request_.file.name == name


@pytest.mark.parametrize("text", ["x", "-1", "3.5", "9" * 30, "٣"])
def test_what_is_no_number_is_named_with_its_field(text: str) -> None:
    wrong = {
        "brokers": PlanRequest(DRAIN, {"brokers": text}),
        "among": PlanRequest(SPREAD, {"among": text}),
        "broker": PlanRequest(SHED, {"broker": text, "until": "1GB"}),
        "old": PlanRequest("swap", {"old": text, "new": "2"}),
        "new": PlanRequest("swap", {"old": "1", "new": text}),
    }
    for field, request in wrong.items():
        with pytest.raises(WrongField, match=r"brokers?: .* is not a whole number from 0") as said:
            request.generate(CLUSTER)
        assert said.value.field == field
    with pytest.raises(WrongField, match=r"replicas: .* is not a whole number from 1"):
        PlanRequest(FACTOR, {"topics": "a", "factor": text}).generate(CLUSTER)


@pytest.mark.parametrize(
    ("request_", "field", "words"),
    [
        (PlanRequest(DRAIN, {"brokers": "1,9"}), "brokers", "There is no broker 9"),
        (PlanRequest("swap", {"old": "9", "new": "1"}), "old", "There is no broker 9"),
        (PlanRequest("swap", {"old": "1", "new": "9"}), "new", "There is no broker 9"),
        (PlanRequest(FACTOR, {"topics": "ay", "factor": "2"}), "topics", "no topic ay"),
        (PlanRequest(FACTOR, {"topics": "x*", "factor": "2"}), "topics", "No topic matches 'x*'"),
        (PlanRequest(FACTOR, {"topics": "a", "factor": "2"}), "factor", "has 2 replicas already"),
        (PlanRequest(SPREAD, {"within": "lots"}), "within", "'lots' is no share"),
        (PlanRequest(SPREAD, {"within": "300%"}), "within", "'300%' is no share"),
        (PlanRequest(SHED, {"broker": "1", "until": "80%"}), "until", "does not report how large"),
        (PlanRequest(SHED, {"broker": "1", "until": "half"}), "until", "'half' is neither a share"),
    ],
)
def test_what_does_not_fit_the_cluster_names_its_field(
    request_: PlanRequest, field: str, words: str
) -> None:
    with pytest.raises(WrongField) as said:
        request_.generate(CLUSTER)
    assert said.value.field == field
    assert words in str(said.value)


def test_topics_may_be_patterns() -> None:
    made = PlanRequest(FACTOR, {"topics": "p*", "factor": "3"}).generate(CLUSTER)

    assert targets(made).keys() == {"pay-0", "pay-1"}


def test_racks_are_kept_only_where_every_live_broker_has_one() -> None:
    partitions = healthy((1, 3))
    drain_1 = PlanRequest(DRAIN, {"brokers": "1"})
    racked = layout(partitions, brokers=range(1, 4), racks="abb")
    unracked = layout(partitions, brokers=range(1, 4), racks="a")

    with pytest.raises(CannotMake, match="on fewer racks"):
        PlanRequest(SHED, {"broker": "1", "until": "1"}).generate(racked)
    assert targets(drain_1.generate(unracked)) == {"a-0": (3, 2)}


def test_only_what_a_source_needs_has_to_be_typed() -> None:
    for source in SOURCES:
        fields = PlanRequest(source).needed
        typed = PlanRequest(source, dict.fromkeys(fields, "1"))
        assert typed.words
    assert not PlanRequest("swap", {"old": "1"}).words
