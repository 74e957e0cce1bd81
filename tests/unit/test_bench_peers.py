"""The bench that compares plans with those of other planners."""

from __future__ import annotations

import pytest
from bench.peers.cases import ALL, Case, cases, topics_of
from bench.peers.examples import TOPIC, Example, examples, layout_of, published
from bench.peers.figures import Spread, figures_of

from ktui.planning.intents.made_plan import Wishes
from ktui.planning.plan import PartitionTarget, Plan

EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_no_more_is_copied_than_in_the_published_result(example: Example) -> None:
    layout = layout_of(example)
    theirs = figures_of(layout, published(example), example.brokers)

    made = example.ktui(layout, Wishes(keep_order=True)).plan
    ours = figures_of(layout, made, example.brokers)

    assert ours.moves <= theirs.moves
    assert ours.leader_changes <= theirs.leader_changes
    assert ours.spread.replicas <= theirs.spread.replicas
    assert ours.spread.leaders <= theirs.spread.leaders


def test_the_published_result_is_counted_as_it_is_printed() -> None:
    """Brokers 1001, 1003 and 1004 have 4, 2 and 2 replicas, and lead 2, 1 and 1."""
    found = figures_of(layout_of(EXAMPLES[0]), published(EXAMPLES[0]), EXAMPLES[0].brokers)

    assert (found.moves, found.leader_changes) == (4, 2)
    assert found.spread == Spread(1.5, 1.5, 1.5)


def test_a_plan_with_a_broker_twice_or_a_broker_that_is_to_have_none_is_not_compared() -> None:
    layout = layout_of(EXAMPLES[0])
    for wrong in ((1001, 1001), (1001, 1002)):
        with pytest.raises(SystemExit):
            figures_of(
                layout,
                Plan((PartitionTarget(TOPIC, 0, wrong),)),
                among=[1001, 1003, 1004],
            )


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_both_planners_get_the_same_topics_in_each_run(case: Case) -> None:
    racks = {broker: "abc"[broker % 3] for broker in ALL}
    topics = topics_of(case, racks)

    assert topics == topics_of(case, racks)
    lists = [brokers for topic in topics for brokers in topic.replicas]
    assert all(len({*brokers}) == case.factor for brokers in lists)
    shared = sum(len({racks[b] for b in brokers}) < len(brokers) for brokers in lists)
    assert (shared > 0) == (case.off_rack > 0)
