"""What the view says of reassignments that somebody else has begun."""

from __future__ import annotations

from ktui.cluster.partition import TopicPartition
from ktui.execution.cancel.foreign import ListedReassignment
from ktui.tui.run_view.messages import cancel_consequences


def test_a_cancel_of_many_foreign_moves_counts_the_dangers_that_it_does_not_name() -> None:
    risky = "only 1 of its 2 replicas in sync would stay"
    moves = [
        ListedReassignment(
            tp=TopicPartition("orders", number),
            topic_id=None,
            original=(1, 2, 3),
            target=(4, 2, 3),
            danger=risky,
        )
        for number in range(5)
    ]

    words = cancel_consequences(moves)

    assert f" ! orders-0: {risky}" in words
    assert "and 2 more." in words
