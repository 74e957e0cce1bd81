"""`ktui start --internal` says when Kafka's own topics move, or leaves them out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.cli.plan_sandbox import found
from support.cli.start_sandbox import StartSandbox
from support.simulated.moving_clusters import a_cluster

PLACES = [(1, 2, 3), (1, 2, 3)]
OFFSETS = "__consumer_offsets"


@pytest.fixture
def plan(sandbox: StartSandbox) -> str:
    """A plan of two partitions of a topic of Kafka's own, and one of orders."""
    sandbox.cluster(a_cluster({"orders": PLACES, OFFSETS: PLACES}))
    offsets = {f"{OFFSETS}_{n}": (4, 2, 3) for n in range(2)}
    return sandbox.plan(**offsets, orders_0=(4, 2, 3))


def preview(sandbox: StartSandbox, plan: str, *options: str) -> Any:
    result = sandbox.start(plan, "--dry-run", "--json", *options)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def begun(shown: Any) -> list[str]:
    """Return the partitions in the order in which they begin."""
    steps = [step for batch in shown["batches"] for step in batch["steps"]]
    return list(dict.fromkeys(f"{step['topic']}-{step['partition']}" for step in steps))


def test_internal_topics_go_last_and_their_leaders_one_by_one_by_default(
    sandbox: StartSandbox, plan: str
) -> None:
    shown = preview(sandbox, plan, "--partitions", "3")

    assert begun(shown) == ["orders-0", f"{OFFSETS}-0", f"{OFFSETS}-1"]
    cuts = [
        [step["topic"] for step in batch["steps"] if step["removing"]] for batch in shown["batches"]
    ]
    assert [topics.count(OFFSETS) for topics in cuts if OFFSETS in topics] == [1, 1]


def test_internal_topics_go_first_or_in_turn_where_that_is_asked_for(
    sandbox: StartSandbox, plan: str
) -> None:
    names = [f"{OFFSETS}-0", f"{OFFSETS}-1", "orders-0"]

    assert begun(preview(sandbox, plan, "--internal", "first")) == names
    assert begun(preview(sandbox, plan, "--internal", "none")) == names
    assert begun(preview(sandbox, plan, "--shape", "kip-435")) == names


def test_internal_topics_that_are_left_out_are_named(sandbox: StartSandbox, plan: str) -> None:
    shown = preview(sandbox, plan, "--internal", "exclude")
    text = sandbox.start(plan, "--dry-run", "--internal", "exclude").stdout

    assert begun(shown) == ["orders-0"]
    (note,) = [each for each in found(shown, "note") if each["kind"] == "internal topics left out"]
    assert note["sentence"] == (
        "left out, as --internal exclude asks: __consumer_offsets, with 2 partitions"
    )
    assert "note: left out, as --internal exclude asks: __consumer_offsets, with 2" in text


def test_a_plan_of_internal_topics_alone_leaves_nothing_to_start_without_them(
    sandbox: StartSandbox, plan: str
) -> None:
    assert plan
    alone = sandbox.plan(**{f"{OFFSETS}_0": (4, 2, 3)})

    result = sandbox.start(alone, "--internal", "exclude")

    assert result.exit_code == 0
    assert "with 1 partition. Nothing else is in the plan" in result.stderr
    assert result.stderr.endswith("nothing to do\n")
    assert sandbox.runs == []


def test_an_unknown_word_is_refused_with_the_known_ones(sandbox: StartSandbox, plan: str) -> None:
    assert sandbox.refusal(plan, "--internal", "never") == (
        "--internal: 'never' is not a valid value. Use first or last or none"
    )
    refused = sandbox.refusal(plan, "--internal", "last", "--shape", "kip-435")
    assert refused.startswith("--internal: it has no effect in shape kip-435")
