"""However a run with throttles ends, the settings of the cluster are as they were before it."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.journal.commands import Continue, Pause
from ktui.execution.run.events import PauseOrigin
from ktui.execution.run.options import OnStall
from ktui.execution.run.parts import MOST_TRIES
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits, Mode, Shape
from ktui.simulated import layout
from ktui.simulated.layout import TopicSpec
from support.runs.engine_runs import OWNER
from support.runs.throttled import IN_5_S, ONE, RF3, TWO, ThrottledStory
from support.simulated.moving_clusters import cancel, move, tp

MANY = {
    "orders-0": (RF3, (4, 5, 3)),
    "orders-1": ((2, 1, 3), (6, 5, 4)),
    "payments-0": ((1, 2), (5, 4)),
    "payments-1": (RF3, (4, 5, 6)),
}
WAYS: dict[str, dict[str, Any]] = {
    "one partition, one replica": {"ways": ONE},
    "two partitions, one after the other": {"ways": TWO},
    "two partitions at once": {"ways": TWO, "limits": Limits(replicas=1, partitions=2)},
    "all replicas at once, without limits": {"ways": MANY, "limits": Limits()},
    "several topics, gentle": {"ways": MANY, "limits": Limits(replicas=2, partitions=3)},
    "several topics, in steps that drop and add": {
        "ways": MANY,
        "limits": Limits(replicas=1, partitions=2, shape=Shape.KIP_435),
    },
    "several topics, in waves": {
        "ways": MANY,
        "limits": Limits(replicas=1, partitions=2, mode=Mode.WAVE),
    },
    "steps that drop and add, in waves": {
        "ways": MANY,
        "limits": Limits(replicas=2, partitions=3, shape=Shape.KIP_435, mode=Mode.WAVE),
    },
    "cuts one by one": {"ways": MANY, "limits": Limits(replicas=1, partitions=4, cut_together=1)},
    "one replica a broker": {"ways": MANY, "limits": Limits(replicas=1, per_broker=1)},
    "a higher replication factor": {"ways": {"orders-0": ((1, 2), (1, 2, 3, 4))}},
    "a lower replication factor, with a new replica": {"ways": {"orders-0": (RF3, (4, 1))}},
    "one replica, moved": {"ways": {"orders-0": ((1,), (4,))}},
    "leaders throttled, too": {"ways": MANY, "throttle_leaders": True},
    "leaders throttled, too, in steps that drop and add": {
        "ways": MANY,
        "limits": Limits(replicas=1, partitions=2, shape=Shape.KIP_435),
        "throttle_leaders": True,
    },
    "another rate for one broker": {"ways": MANY, "rate": "500kB,4=2MB,6=400kB"},
    "a rate for one broker alone": {"ways": MANY, "rate": "4=500kB"},
    "none for one broker": {"ways": MANY, "rate": "500kB,4=none"},
    "partitions that are written to": {"ways": MANY, "cluster": {"inbound_s": 20.0}},
    "a rate far above what flows": {"ways": MANY, "rate": "10GB"},
    "brokers of Kafka 3.9": {"ways": MANY, "cluster": {"version": "3.9"}},
    "brokers of Kafka 4.0": {"ways": MANY, "cluster": {"version": "4.0"}},
    "the controller's own elections meanwhile": {
        "ways": MANY,
        "cluster": {"auto_leader_rebalance": True, "rebalance_interval_s": 7.0},
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_a_run_that_succeeds_leaves_no_throttle_behind(way: str, tmp_path: Path) -> None:
    how = WAYS[way]
    story = ThrottledStory(tmp_path, **{**how, "cluster": {**IN_5_S, **how.get("cluster", {})}})

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*how["ways"])
    assert story.rules.bound


def test_a_pure_reorder_never_sets_a_throttle(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, {"orders-0": (RF3, (2, 1, 3)), "orders-1": (RF3, (1, 2))})

    story.to_the_end()

    assert story.at_target("orders-0", "orders-1")
    assert not any(type(event).__name__ in ("SettingsFound", "Configure") for event in story.events)


def _alter_refused(story: ThrottledStory) -> None:
    sending, why = story.sending.alter_reassignments, "INVALID_REPLICA_ASSIGNMENT"

    async def choosy(targets: Any, **how: Any) -> Any:
        others = {each: to for each, to in targets.items() if each != tp("orders-0")}
        results = dict(await sending(others, **how)) if others else {}
        no = WriteResult(Verdict.REFUSED, why, "no")
        return results | dict.fromkeys(targets.keys() - others.keys(), no)

    story.sending.alter_reassignments = choosy  # type: ignore[method-assign]
    story.to_the_end()
    assert story.state("orders-0") is State.FAILED
    assert story.at_target("orders-1")
    assert len(story.begun_at("orders-0")) == MOST_TRIES


def _moved_by_another_before(story: ThrottledStory) -> None:
    story.schedule(0.0, move("orders-0", 1, 2, 3, 9))
    story.to_the_end()


def _alter_denied(story: ThrottledStory) -> None:
    story.schedule(0.0, layout.Deny("alter_reassignments"))
    story.played()
    assert not story.lists
    assert not story.rates
    story.cluster.do(layout.Allow("alter_reassignments"))
    story.resumed()


def _deleted(story: ThrottledStory) -> None:
    story.schedule(5.0, layout.DeleteTopic("orders"))
    story.to_the_end()
    assert story.state("orders-0") is State.TOPIC_GONE


def _deleted_between_steps(story: ThrottledStory) -> None:
    story.asked(5.0, Pause())
    story.schedule(60.0, layout.DeleteTopic("orders"))
    story.asked(70.0, Continue())
    story.to_the_end()
    assert story.state("orders-1") is State.TOPIC_GONE


def _recreated(story: ThrottledStory) -> None:
    again = TopicSpec(name="orders", replicas=(RF3, RF3), bytes_each=10_000_000)
    story.schedule(5.0, layout.DeleteTopic("orders"), layout.CreateTopic(again))
    story.to_the_end()
    assert story.state("orders-0") is State.TOPIC_GONE


def _left_and_resumed(story: ThrottledStory) -> None:
    assert story.played(until_s=5.0).left
    assert story.lists
    assert story.rates == {4: "500000"}
    assert story.resumed().ended


def _left_after_all_was_copied(story: ThrottledStory) -> None:
    assert story.played(until_s=20.15).left
    story.clock.pass_time(50.0)
    assert story.resumed().ended


def _left_long_while_it_ends(story: ThrottledStory) -> None:
    assert story.played(until_s=5.0).left
    story.clock.pass_time(500.0)
    assert story.resumed().ended


def _until(story: ThrottledStory) -> None:
    until = story.clock.now() + timedelta(seconds=25.0)
    story.played_by(msgspec.structs.replace(OWNER, until=until))
    assert not story.run.ended
    assert not story.run.in_flight
    assert not story.lists
    assert not story.rates
    assert story.resumed().ended


def _interrupted(story: ThrottledStory) -> None:
    story.asked(5.0, Pause(by=PauseOrigin.SIGNAL))
    story.played()
    assert not story.run.ended
    assert not story.lists
    assert not story.rates
    assert story.resumed().ended


def _paused(story: ThrottledStory) -> None:
    story.asked(5.0, Pause())
    story.asked(100.0, Continue())
    story.to_the_end()


def _paused_and_left(story: ThrottledStory) -> None:
    story.asked(5.0, Pause())
    story.played(until_s=100.0)
    assert not story.lists
    assert not story.rates
    story.asked(120.0, Continue())
    assert story.resumed().ended


def _taken_over(story: ThrottledStory) -> None:
    story.schedule(5.0, cancel("orders-0"), move("orders-0", 1, 2, 7))
    story.to_the_end()
    assert story.state("orders-0") is State.CHANGED_ELSEWHERE


def _cancelled_by_another(story: ThrottledStory) -> None:
    story.schedule(5.0, cancel("orders-0"))
    story.asked(60.0, Continue())  # it was the only step in flight, so the run pauses
    story.to_the_end()
    assert story.state("orders-0") is State.CHANGED_ELSEWHERE


def _another_controller(story: ThrottledStory) -> None:
    story.schedule(3.0, layout.ChangeController())
    story.schedule(19.5, layout.ChangeController())
    story.to_the_end()
    assert story.at_target("orders-0", "orders-1")


def _cluster_lost(story: ThrottledStory) -> None:
    story.schedule(5.0, *(layout.Hang(b) for b in range(1, 10)))
    story.schedule(8.0, *(layout.Resume(b) for b in range(1, 10)))
    story.to_the_end()
    assert story.at_target("orders-0", "orders-1")


ENDS: dict[str, Callable[[ThrottledStory], None]] = {
    "alters that Kafka refuses until the partition has failed": _alter_refused,
    "somebody else moves it before the run does": _moved_by_another_before,
    "alters that are denied": _alter_denied,
    "the topic is deleted while it is copied": _deleted,
    "the topic is deleted while none of it is listed": _deleted_between_steps,
    "the topic is deleted and made again": _recreated,
    "left while it copies, and resumed": _left_and_resumed,
    "left just before the copy is done, and resumed": _left_after_all_was_copied,
    "left, and resumed long after the copy": _left_long_while_it_ends,
    "the time given with --until comes": _until,
    "an interrupt": _interrupted,
    "paused, and continued": _paused,
    "paused, left and resumed": _paused_and_left,
    "somebody else moves it elsewhere": _taken_over,
    "somebody else cancels the step": _cancelled_by_another,
    "another controller takes over, twice": _another_controller,
    "the whole cluster hangs for a while": _cluster_lost,
}


@pytest.mark.parametrize("end", ENDS)
def test_a_run_that_ends_in_any_other_way_leaves_no_throttle_behind(
    end: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)

    ENDS[end](story)

    story.assert_left_as_found()
    assert story.rules.bound


def test_a_step_that_stalls_and_is_cancelled_leaves_no_throttle_behind(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, on_stall=OnStall.CANCEL, stall_timeout_s=30.0)
    story.schedule(5.0, layout.Kill(4))
    story.schedule(60.0, layout.Start(4))

    story.to_the_end()

    story.assert_left_as_found()
    assert None in story.sent("orders-0")
    assert story.replicas(tp("orders-0")) == (4, 2, 3)
