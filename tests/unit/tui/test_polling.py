from __future__ import annotations

from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.tui.poll.polling import unite

TP = TopicPartition("orders", 1)


def test_polls_cover_what_each_open_screen_needs() -> None:
    topics = Interest(topics=frozenset({"payments"}), unhealthy=True)
    detail = Interest(partitions=frozenset({TP}), census=True)

    assert unite([topics, detail]) == Interest(
        topics=frozenset({"payments"}), partitions=frozenset({TP}), unhealthy=True, census=True
    )
    assert unite([]) == NO_INTEREST
