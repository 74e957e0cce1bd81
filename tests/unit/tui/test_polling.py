"""The view's polls: what they cover, and a history that is loaded beside them."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Progress
from ktui.simulated.clock import VirtualClock
from ktui.tui.poll.polling import Polling, unite
from support.simulated.observations import T0, T1, a_move, an_observation, folded

TP = TopicPartition("orders", 1)


class QuietCluster:
    """A source that shows no move, each time ten seconds later."""

    def __init__(self) -> None:
        self._seconds = 0.0

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        del interest
        self._seconds += 10.0
        return an_observation([], self._seconds)

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        raise AssertionError((topics, brokers))

    async def aclose(self) -> None:
        raise AssertionError("the view's polls end without their source")


def polls_of_a_view(
    complete: Callable[[Progress], Progress], source: QuietCluster | None = None
) -> Polling:
    return Polling(
        source or QuietCluster(),
        VirtualClock(),
        1.0,
        interest=lambda: NO_INTEREST,
        post=lambda _: None,
        complete=complete,
    )


async def test_a_history_that_comes_while_another_is_added_is_shown_after_the_next_poll() -> None:
    first, second = (folded([an_observation([a_move(tp)], 1.0)]) for tp in (T0, T1))
    coming = [second]

    def complete(progress: Progress) -> Progress:
        if coming:
            polling.add_history(coming.pop())
        return progress

    polling = polls_of_a_view(complete)
    polling.add_history(first)

    await polling._poll_once()
    assert polling.progress.timelines.keys() == {T0}
    await polling._poll_once()
    assert polling.progress.timelines.keys() == {T0, T1}


async def test_a_history_is_kept_for_the_next_poll_if_one_fails_over_it() -> None:
    history = folded([an_observation([a_move(T0)], 1.0)])
    fails = [True]

    def complete(progress: Progress) -> Progress:
        if fails.pop():
            raise ValueError("a defect")
        return progress

    polling = polls_of_a_view(complete)
    polling.add_history(history)

    await polling._poll_once()
    assert polling.progress == Progress()
    fails.append(False)
    await polling._poll_once()
    assert polling.progress.timelines.keys() == {T0}


class CopyingCluster(QuietCluster):
    """A source that shows a replica being copied: 10 of its 100 messages in each poll."""

    def __init__(self, polls: int = 0) -> None:
        self.polls = polls

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        del interest
        self.polls += 1
        return a_copy(self.polls)


def a_copy(polls: int) -> Observation:
    ends = {(T0, 1): 100, (T0, 4): 10 * polls}
    return an_observation([a_move()], float(polls), ends=ends, starts={T0: 0})


async def test_polls_are_kept_while_a_history_is_read() -> None:
    polling = polls_of_a_view(lambda progress: progress, CopyingCluster(polls=2))
    await polling._poll_once()
    polling.expect_history()
    for _ in range(4):
        await polling._poll_once()
    polling.add_history(folded([a_copy(0), a_copy(1), a_copy(2)]))
    await polling._poll_once()

    whole = folded(map(a_copy, range(9)))
    assert polling.progress.timelines[T0].lanes[4].history == whole.timelines[T0].lanes[4].history


async def test_no_poll_is_kept_once_there_is_no_history() -> None:
    polling = polls_of_a_view(lambda progress: progress, CopyingCluster())
    polling.expect_history()
    await polling._poll_once()
    polling.add_history(None)
    await polling._poll_once()
    assert polling._kept is None


def test_polls_cover_what_each_open_screen_needs() -> None:
    topics = Interest(topics=frozenset({"payments"}), unhealthy=True)
    detail = Interest(partitions=frozenset({TP}), census=True)

    assert unite([topics, detail]) == Interest(
        topics=frozenset({"payments"}), partitions=frozenset({TP}), unhealthy=True, census=True
    )
    assert unite([]) == NO_INTEREST
