"""Brokers that fail and come back during a run: what waits for them, and what does not."""

from collections.abc import Collection
from itertools import pairwise
from pathlib import Path

import pytest

from ktui.cluster.errors import Failure, Operation
from ktui.cluster.ports import TopicsAnswer
from ktui.execution.run.events import Cancel, Elect, JournalEntry, Request
from ktui.execution.run.notices import NoticeFilter, NoticeKind
from ktui.execution.run.states import State
from ktui.pacing.limits import SHAPES, Limits, Shape
from ktui.simulated import layout
from ktui.simulated.controller.records import RecordChange
from ktui.simulated.layout import VERSIONS
from ktui.simulated.reader import SimulatedReader
from support.runs.stories import Story, of_request
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)


def test_a_partition_whose_target_is_down_holds_no_place_and_resumes_by_itself(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))})
    story.already(layout.Shutdown(4))
    story.schedule(60.0, layout.Start(4))

    assert story.played().ended

    assert story.at_target("orders-0", "orders-1")
    assert story.said("orders-0", State.BLOCKED) == ["broker 4 of its target is down"]
    (done,) = story.seconds(lambda e: getattr(e, "state", None) is State.DONE)[:1]
    assert done < 30.0
    assert story.begun_at("orders-0")[0] > 60.0


def test_blocked_partitions_are_reported_with_the_reason_at_the_start(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3)), "orders-2": ((9,), (1,))}
    story = Story(tmp_path, ways)
    story.already(layout.Shutdown(9), layout.Shutdown(5))

    story.played(until_s=0.5)

    assert story.said("orders-1", State.BLOCKED) == ["broker 5 of its target is down"]
    assert story.said("orders-2", State.BLOCKED) == ["it is offline: no replica leads"]
    assert story.state("orders-0") is State.ADDING


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_dead_broker_can_be_drained(tmp_path: Path, version: str, shape: Shape) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": ((2, 1, 3), (2, 5, 3))}
    limits = Limits(replicas=1, partitions=2, shape=shape)
    story = Story(tmp_path, ways, limits, {"version": version})
    story.already(layout.Kill(1))

    assert story.played().ended

    assert story.at_target("orders-0", "orders-1")
    assert 1 in story.cluster.controller.fenced


def test_a_step_onto_a_broker_that_dies_stalls_and_resumes_when_it_is_back(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    story.schedule(5.0, layout.Kill(4))
    story.schedule(400.0, layout.Start(4))

    assert story.played().ended

    assert story.at_target("orders-0")
    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert story.said("orders-0", State.STALLED) == ["broker 4 is down"]


def test_ready_partitions_do_not_wait_to_be_cut_with_a_stalled_one(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=2))
    story.schedule(5.0, layout.Kill(5))

    story.played(until_s=100.0)

    assert story.state("orders-0") is State.DONE
    assert story.state("orders-1") is State.STALLED


def test_a_step_onto_a_dead_broker_is_cancelled_after_the_timeout_if_configured(
    tmp_path: Path,
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    story = Story(tmp_path, ways, on_stall="cancel", stall_timeout_s=120.0)
    story.schedule(5.0, layout.Kill(4))
    story.schedule(300.0, layout.Start(4))

    assert story.played().ended

    (cancelled,) = story.seconds(lambda e: isinstance(e, Cancel))
    assert 125.0 <= cancelled <= 140.0
    assert story.sent("orders-0") == [(1, 2, 3, 4), None, (1, 2, 3, 4), (4, 2, 3)]
    assert "broker 4 offline for 120 s" in [e.reason for e in story.events if isinstance(e, Cancel)]
    assert story.said("orders-0", State.BLOCKED) == ["broker 4 of its target is down"]
    assert cancelled <= story.begun_at("orders-1")[0] <= cancelled + 3.0
    assert story.at_target("orders-0", "orders-1")


def test_a_step_that_keeps_a_dead_broker_is_cancelled_and_the_next_one_drops_it(
    tmp_path: Path,
) -> None:
    story = Story(
        tmp_path,
        {"orders-0": (RF3, (4, 2, 3))},
        cluster={"version": "4.2"},
        on_stall="cancel",
        stall_timeout_s=60.0,
    )
    story.schedule(2.0, layout.Kill(1))

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), None, (2, 3, 4), (4, 2, 3)]
    assert [each.reason for each in story.events if isinstance(each, Cancel)] == [
        "broker 1 offline for 60 s"
    ]
    assert story.at_target("orders-0")


@pytest.mark.parametrize("unclean", ["true", "false"])
def test_a_step_is_never_cancelled_when_only_the_replicas_it_adds_are_in_sync(
    tmp_path: Path, unclean: str
) -> None:
    story = Story(
        tmp_path,
        {"orders-0": ((1,), (4, 5))},
        Limits(replicas=2, partitions=1),
        {"configs": {"unclean.leader.election.enable": unclean}},
        on_stall="cancel",
        stall_timeout_s=30.0,
    )
    story.schedule(2.0, layout.Kill(5))
    story.schedule(14.0, layout.Shutdown(1))
    story.schedule(400.0, layout.Start(5), layout.Start(1))

    assert story.played().ended

    assert None not in story.sent("orders-0")
    assert story.said("orders-0", State.STALLED)[-1] == (
        "it is not cancelled: without what is being added no replica would be in sync"
    )
    assert len(story.said("orders-0", State.STALLED)) <= 2
    assert story.at_target("orders-0")


def test_a_lost_cancel_is_not_resent_once_only_added_replicas_are_in_sync(tmp_path: Path) -> None:
    story = Story(
        tmp_path,
        {"orders-0": ((1,), (4, 5))},
        Limits(replicas=2, partitions=1),
        {"configs": {"unclean.leader.election.enable": "true"}},
        on_stall="cancel",
        stall_timeout_s=30.0,
    )
    story.schedule(2.0, layout.Kill(5))
    story.schedule(20.0, layout.LoseRequest())
    story.schedule(50.0, layout.Shutdown(1))
    story.schedule(400.0, layout.Start(5), layout.Start(1))

    assert story.played().ended

    assert [each.reason for each in story.events if isinstance(each, Cancel)] == [
        "broker 5 offline for 30 s"
    ]
    assert None not in story.sent("orders-0")
    assert story.at_target("orders-0")


def test_an_election_refused_for_half_a_minute_frees_its_place_and_is_held_later(
    tmp_path: Path,
) -> None:
    ways = {"orders-0": (RF3, (2, 1, 3)), "orders-1": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=1, leader_movements=1))
    fell: list[float] = []

    def falls(_: object) -> None:
        if not fell:
            fell.append(story.cluster.now_s)
            story.schedule(0.0, layout.Shutdown(2))

    story.witness.watchers.append(falls)
    story.schedule(90.0, layout.Start(2))

    assert story.played().ended

    elections = story.seconds(lambda e: isinstance(e, Elect) and e.tp == tp("orders-0"))
    asked = [at for at in elections if at < 80.0]
    assert 28.0 <= asked[-1] - asked[0] <= 30.0
    assert all(later - sooner >= 2.0 for sooner, later in pairwise(asked))
    blocked = "broker 2 of its target is down"
    assert blocked in story.said("orders-0", State.BLOCKED)
    assert 30.0 <= story.begun_at("orders-1")[0] <= 33.0
    refused = [e for e in story.events if of_request(Request.ELECT, "orders-0")(e)]
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in {getattr(e, "code", None) for e in refused}
    assert story.at_target("orders-0", "orders-1")


def test_a_removal_that_waits_for_a_replica_is_not_polled_constantly(tmp_path: Path) -> None:
    limits = Limits(replicas=1, shape=Shape.KIP_435)
    story = Story(tmp_path, {"orders-0": ((1, 2, 3, 4), (1, 2, 3))}, limits, {"inbound_s": 100.0})
    story.already(layout.Kill(2))
    story.already(layout.Slow(2, 0.0001), layout.Start(2))

    story.played(until_s=100.0)

    assert story.said("orders-0", State.STALLED) == ["broker 2 is out of the ISR"]
    assert story.looks < 140


def test_a_cluster_lost_for_minutes_costs_a_run_only_time(tmp_path: Path) -> None:
    brokers = range(1, 6)
    ways = {f"orders-{n}": (RF3, (4, 5, 3)) for n in range(3)}
    story = Story(tmp_path, ways, Limits(replicas=1, partitions=2), {"brokers": brokers})
    story.schedule(8.0, *(layout.Hang(broker) for broker in brokers))
    story.schedule(300.0, *(layout.Resume(broker) for broker in brokers))

    assert story.played().ended

    assert story.at_target(*ways)
    assert {event.state for event in story.events if hasattr(event, "state")} <= {
        State.READY, State.STALLED, State.ADDING, State.DONE, State.BLOCKED, State.QUEUED
    }  # fmt: skip


class _Hiding(SimulatedReader):
    """A reader that may not read one topic for a while."""

    def __init__(self, story: Story, topic: str, from_s: float, until_s: float) -> None:
        super().__init__(story.cluster)
        self._topic, self._clock = topic, story.clock
        self._from_s, self._until_s = from_s, until_s

    async def describe_topics(self, names: Collection[str], *, fresh: bool = False) -> TopicsAnswer:
        answer = await super().describe_topics(names, fresh=fresh)
        hidden = self._from_s <= self._clock.monotonic() < self._until_s
        if not hidden or self._topic not in names:
            return answer
        readable = {tp: state for tp, state in answer.partitions.items() if tp.topic != self._topic}
        denied = Failure(Operation.METADATA, "TOPIC_AUTHORIZATION_FAILED", topic=self._topic)
        return TopicsAnswer(readable, answer.absent, (denied,))


def test_an_unauthorized_topic_is_blocked_for_that_and_lets_others_go_first(tmp_path: Path) -> None:
    ways = {f"{topic}-0": (RF3, (4, 2, 3)) for topic in ("audit", "orders", "payments")}
    story = Story(tmp_path, ways)
    story.reader = _Hiding(story, "orders", 3.0, 60.0)

    assert story.played().ended

    assert story.said("orders-0", State.BLOCKED) == [
        "the cluster does not report its state: TOPIC_AUTHORIZATION_FAILED"
    ]
    assert story.begun_at("payments-0")[-1] < 30.0
    assert story.begun_at("orders-0")[0] >= 60.0
    assert story.at_target(*ways)


def test_no_replica_is_added_to_a_broker_that_is_shutting_down_but_counts_as_alive(
    tmp_path: Path,
) -> None:
    ways = {"orders-0": ((1, 2, 5), (4, 2, 5)), "orders-1": (RF3, (5, 2, 3))}
    story = Story(tmp_path, ways, cluster={"metadata_lag_s": 0.7})

    def falls(change: RecordChange) -> None:
        if change.after is not None and change.before is not None and change.before.adding:
            story.schedule(0.0, layout.Shutdown(5))
            story.witness.watchers.clear()

    story.witness.watchers.append(
        lambda change: falls(change) if change.tp.partition == 0 else None
    )
    story.schedule(60.0, layout.Start(5))

    assert story.played().ended

    assert story.begun_at("orders-1")[0] >= 60.0
    assert story.said("orders-1", State.BLOCKED) == ["broker 5 of its target is down"]
    assert story.at_target(*ways)


def test_steps_onto_a_broker_that_is_down_name_it_from_the_next_poll_on(tmp_path: Path) -> None:
    ways = {f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(3)}
    story = Story(tmp_path, ways, Limits(partitions=3), {"messages": 100_000})
    story.schedule(6.0, layout.Kill(4))
    story.schedule(25.0, layout.Start(4))

    story.played(until_s=45.0)

    named = story.seconds(lambda e: getattr(e, "reason", None) == "broker 4 is down")
    assert len(named) == 3
    assert max(named) <= 6.0 + story.cluster.spec.session_timeout_s + 2.0
    assert story.said("orders-0", State.ADDING)[-2:] == ["broker 4 is down", ""]
    assert story.reason("orders-0") == ""


def test_a_broker_that_restarts_during_its_steps_rings_no_alarm(tmp_path: Path) -> None:
    ways = {f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(3)}
    story = Story(tmp_path, ways, Limits(partitions=3), {"messages": 100_000})
    story.schedule(5.0, layout.Kill(4))
    story.schedule(20.0, layout.Start(4))

    story.played()

    notices = NoticeFilter().take(
        [JournalEntry(n, story.clock.now(), event) for n, event in enumerate(story.events)]
    )
    assert "broker 4 is down" in story.said("orders-0", State.ADDING)
    assert [notice.kind for notice in notices] == [NoticeKind.END]


def test_a_partition_far_back_begins_once_it_needs_less_since_a_broker_of_its_target_is_down(
    tmp_path: Path,
) -> None:
    """Those before it wait for M, which a step onto another broker that is down keeps full."""
    ways = {
        "orders-0": ((1, 2, 3), (6, 2, 3)),
        **{f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(1, 8)},
        "orders-8": ((1, 2, 3, 4), (1, 2, 5)),
    }
    limits = Limits(partitions=2, replica_movements=1, shape=Shape.KIP_435)
    story = Story(tmp_path, ways, limits, {"messages": 100_000})
    story.schedule(3.0, layout.Kill(6))
    story.schedule(8.0, layout.Kill(5))

    story.played(until_s=150.0)

    assert story.begun_at("orders-1") == []
    assert len(story.begun_at("orders-8")) == 1
