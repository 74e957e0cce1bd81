"""`ktui plan move orders-3 4,2,3` makes a plan for named partitions, without a file."""

import pytest

from ktui.planning.intents.registry import WrongField
from ktui.tui.run_view.plan_request import PlanRequest, parse_plan_words
from support.cli.start_sandbox import PlanSandbox, cluster, made, refused
from support.layouts import healthy, layout, targets


@pytest.fixture(autouse=True)
def six(plan_sandbox: PlanSandbox) -> None:
    plan_sandbox.cluster(cluster())


def test_each_partition_gets_the_replicas_that_are_named_in_their_order() -> None:
    assert made("move", "orders-3", "6,5,3", "payments-0", "1,3,2") == {
        "orders-3": (6, 5, 3),
        "payments-0": (1, 3, 2),
    }


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("ordres-3 1,2,3", "ordres-3: The cluster has no topic ordres; did you mean orders?"),
        ("orders-9 1,2,3", "orders-9: topic orders has no such partition. It has partitions 0, 1,"),
        ("orders-3 1,2,9", "orders-3: There is no broker 9; the cluster has brokers 1, 2, 3"),
        ("orders-3 4,2,4", "orders-3: broker 4 is named twice. Name it once."),
        ("orders-3 4,x", "orders-3: 'x' is not the id of a broker, such as 3."),
        ("orders-3 4,5,6 orders-5", "orders-5: no brokers follow it. Give them, such as"),
        ("orders-3 1,2,3 orders-3 1,2,6", "orders-3 is named twice. Name it once"),
        ("orders 4,5,6", "'orders' is not a partition, such as orders-3, before its brokers."),
        ("orders-3 4,5,3", "orders-3 has its replicas already: there is nothing to move."),
        (
            "orders-3 6,5,3 --exclude orders",
            "orders-3: the plan is to leave topic orders as it is.",
        ),
    ],
)
def test_what_is_wrong_names_its_place(words: str, problem: str) -> None:
    assert problem in refused("move", *words.split())


def test_the_line_of_the_view_and_the_form_take_the_same_words() -> None:
    small = layout(healthy((1, 2), (2, 3)), brokers=range(1, 5))
    request = parse_plan_words(["move", "a-0", "4,2", "a-1", "2,1"])

    assert request == PlanRequest("move", {"moves": "a-0 4,2 a-1 2,1"})
    assert request.words == "a-0 4,2 a-1 2,1"
    assert request.file.name == "move.json"
    assert targets(request.generate(small)) == {"a-0": (4, 2), "a-1": (2, 1)}
    with pytest.raises(WrongField, match="a-7: topic a has no such partition") as said:
        PlanRequest("move", {"moves": "a-7 4,2"}).generate(small)
    assert said.value.field == "moves"
