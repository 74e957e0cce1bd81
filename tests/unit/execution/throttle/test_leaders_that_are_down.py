"""A throttle of leaders, and replicas that cannot lead because their brokers are down."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ktui.cluster.ports import ConfigChange, Verdict, WriteResult
from ktui.cluster.settings import LEADER_REPLICAS
from ktui.execution.run.events import StepOver
from ktui.simulated import layout
from support.runs.throttled import ThrottledStory, broker

OFF_BROKER_3 = {"orders-0": ((1, 2, 3), (1, 2, 4))}


def test_a_replica_is_moved_off_a_broker_that_is_down_for_good(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, OFF_BROKER_3, throttle_leaders=True)
    story.already(layout.Kill(3))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target("orders-0")


def test_a_leader_that_comes_back_is_throttled_before_it_may_lead(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, OFF_BROKER_3, throttle_leaders=True)
    story.already(layout.Kill(3))
    story.schedule(5.0, layout.Start(3))

    story.played(until_s=15.0)

    assert story.lists[LEADER_REPLICAS] == "0:1,0:2,0:3"
    story.resumed()
    story.assert_left_as_found()


def test_a_step_backs_off_while_a_possible_leader_does_not_take_its_rate(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, OFF_BROKER_3, throttle_leaders=True)
    sending = story.sending.alter_configs

    async def not_on_broker_1(changes: Sequence[ConfigChange], **how: Any) -> Any:
        at_first = story.clock.monotonic() < 60.0
        refused = {c.resource for c in changes if at_first and c.resource == broker(1)}
        done = await sending([c for c in changes if c.resource not in refused], **how)
        return {**done, **dict.fromkeys(refused, WriteResult(Verdict.REFUSED, message="busy"))}

    story.sending.alter_configs = not_on_broker_1  # type: ignore[method-assign]

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target("orders-0")
    not_sent = [e for e in story.events if isinstance(e, StepOver) and "not sent" in e.reason]
    assert len(not_sent) < 6, "once after each rest of 5, 10, 20 and 40 s"
