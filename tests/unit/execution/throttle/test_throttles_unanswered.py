"""Throttle changes that are lost, late or refused: nothing goes unthrottled, nothing stays."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.errors import NotAuthorized, Unreachable
from ktui.cluster.ports import ConfigOp, Verdict, WriteResult
from ktui.execution.journal.commands import Continue, Pause, SetThrottle
from ktui.execution.run.events import AnyRunEvent, Configure, Paused, PauseOrigin
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from support.runs.throttled import (
    IN_5_S,
    IN_10_S,
    ONE,
    RF3,
    TWO,
    ThrottledStory,
    change_list,
    many_entries,
    set_rate,
)

KINDS = {
    "the rate": ConfigOp.SET,
    "the replica to list": ConfigOp.APPEND,
    "the replica to take off its list": ConfigOp.SUBTRACT,
    "what is put back": ConfigOp.DELETE,
}
LATE_S = [0.5, 12.0, 55.0, *(pytest.param(by_s, marks=pytest.mark.soak) for by_s in (5.0, 30.0))]


@pytest.mark.parametrize("by_s", LATE_S)
@pytest.mark.parametrize("kind", KINDS)
def test_no_throttle_stays_when_a_change_arrives_late(
    kind: str, by_s: float, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S)
    story.sending.settings_late_by_s[KINDS[kind]] = by_s

    story.to_the_end()
    story.clock.pass_time(100.0)
    story.cluster.catch_up()

    story.assert_left_as_found()
    assert story.at_target(*TWO)


def test_a_list_is_emptied_within_seconds_even_if_the_first_request_is_lost(tmp_path: Path) -> None:
    """A replica in sync that stays on a list stalls producers: that cannot wait for certainty."""
    story = ThrottledStory(tmp_path)
    story.sending.settings_late_by_s[ConfigOp.SUBTRACT] = 55.0

    story.to_the_end()

    asked = [e.at for e in story.entries() if _takes_off(e.event)]
    assert (asked[1] - asked[0]).total_seconds() < 20.0


def _takes_off(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.changes[0].op is ConfigOp.SUBTRACT


@pytest.mark.parametrize("kind", KINDS)
def test_no_throttle_stays_when_a_change_arrives_after_a_kill_and_a_resume(
    kind: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S)
    story.killed(f"with settings to {KINDS[kind]} on their way")

    story.to_the_end()
    story.clock.pass_time(100.0)
    story.cluster.catch_up()

    story.assert_left_as_found()
    assert story.reaper.where


def test_a_rate_that_arrives_after_another_one_is_still_put_back(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path)
    story.sending.settings_late_by_s[ConfigOp.SET] = 30.0
    story.asked(2.0, SetThrottle(parse_throttle_rates("600kB")))

    story.to_the_end()

    story.assert_left_as_found()


MISHAPS: dict[str, Sequence[layout.OutsideEvent]] = {
    "the answer to the rate": [layout.LoseAnswer()],
    "the rate itself": [layout.LoseRequest()],
    "the answers to the rate and to the list": [layout.LoseAnswer(), layout.LoseAnswer()],
    "the rate and the list themselves": [layout.LoseRequest(), layout.LoseRequest()],
    "four answers in a row": [layout.LoseAnswer()] * 4,
    "a rate that comes in after its time, and what follows": [
        layout.DelayRequest(15.0),
        layout.LoseAnswer(),
        layout.LoseRequest(),
    ],
}


@pytest.mark.parametrize("at_s", [0.0, 8.0])
@pytest.mark.parametrize("lost", MISHAPS)
def test_lost_changes_or_answers_leave_no_throttle_behind_and_nothing_unthrottled(
    lost: str, at_s: float, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_10_S)
    story.schedule(at_s, *MISHAPS[lost])

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)
    assert not story.cluster.mishaps


def _only(story: ThrottledStory, kind: ConfigOp, answer: Callable[[], WriteResult]) -> list[int]:
    """Answer changes of one kind with `answer`, and count them."""
    sending, count = story.sending.alter_configs, [0]

    async def intercepted(changes: Any, **how: Any) -> Any:
        mine = [change for change in changes if change.op is kind]
        others = [change for change in changes if change.op is not kind]
        count[0] += len(mine)
        results = dict(await sending(others, **how)) if others else {}
        return results | {change.resource: answer() for change in mine}

    story.sending.alter_configs = intercepted  # type: ignore[method-assign]
    return count


def _denied() -> WriteResult:
    return WriteResult(Verdict.REFUSED, "CLUSTER_AUTHORIZATION_FAILED", "no")


def _refused() -> WriteResult:
    return WriteResult(Verdict.REFUSED, "POLICY_VIOLATION", "the policy forbids it")


@pytest.mark.parametrize("call", ["alter_configs", "broker_config", "topic_configs"])
def test_a_run_that_may_not_set_its_throttle_is_paused_and_sends_nothing(
    call: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.schedule(0.0, layout.Deny(call))

    run = story.played()

    assert set(run.pauses.whole) == {PauseOrigin.FAILURE}
    assert run.left == run.pauses.whole[PauseOrigin.FAILURE]
    assert story.witness.alters == []
    story.cluster.do(layout.Allow(call))
    story.resumed()
    story.assert_left_as_found()
    assert story.at_target(*TWO)


@pytest.mark.parametrize("kind", [ConfigOp.SET, ConfigOp.APPEND])
def test_a_run_whose_throttle_is_denied_by_the_brokers_is_paused_and_sends_nothing(
    kind: ConfigOp, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    _only(story, kind, _denied)

    run = story.played()

    assert PauseOrigin.FAILURE in run.pauses.whole
    assert story.witness.alters == []
    assert not story.lists
    assert not story.rates


@pytest.mark.parametrize("at_s", [5.0, 25.0])
def test_a_throttle_that_may_not_be_removed_is_removed_once_it_may_be(
    at_s: float, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.schedule(at_s, layout.Deny("alter_configs"))
    story.schedule(200.0, layout.Allow("alter_configs"))

    story.to_the_end()
    if not story.run.ended:
        story.clock.pass_time(200.0)
        story.resumed()

    story.assert_left_as_found()
    assert story.at_target(*TWO)


@pytest.mark.parametrize("kind", [ConfigOp.SET, ConfigOp.APPEND])
def test_no_step_is_sent_while_kafka_refuses_its_throttle(kind: ConfigOp, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    count = _only(story, kind, _refused)

    story.played(until_s=60.0)

    assert story.witness.alters == []
    assert count[0] < 30
    assert not story.lists
    assert not story.rates
    assert "the policy forbids it" in story.folded.throttled.refusal


@pytest.mark.parametrize("error", [Unreachable, NotAuthorized])
def test_no_step_is_sent_if_its_throttle_could_not_be_sent(
    error: type[Exception], tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)

    async def no(_: Any, **__: Any) -> Any:
        raise error("altering settings")

    story.sending.alter_configs = no  # type: ignore[assignment,method-assign]
    story.played(until_s=60.0)

    assert story.witness.alters == []
    assert not story.lists
    assert not story.rates
    assert (error is NotAuthorized) == any(isinstance(e, Paused) for e in story.events)


def test_no_step_is_sent_while_the_list_of_its_topic_is_full(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    full = many_entries(32_767)
    story.cluster.configure([change_list(ConfigOp.SET, full)])
    story.schedule(100.0, layout.AlterConfigs((change_list(ConfigOp.SET, "0:9"),)))

    assert not story.played(until_s=90.0).ended

    assert story.witness.alters == []
    assert not story.rates
    story.resumed()
    story.assert_left_as_found()
    assert story.lists == {"follower.replication.throttled.replicas": "0:9"}


def test_a_list_with_room_for_one_entry_takes_one_after_the_other(tmp_path: Path) -> None:
    ways = {f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(3)}
    story = ThrottledStory(tmp_path, ways, limits=Limits(replicas=1, partitions=3))
    full = many_entries(32_767 - 5)
    story.cluster.configure([change_list(ConfigOp.SET, full)])

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*ways)
    assert story.lists == {"follower.replication.throttled.replicas": full}


def test_a_rate_that_kafka_refuses_leaves_nothing_behind(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([set_rate(1, 9)])
    _only(story, ConfigOp.SET, _refused)

    story.played(until_s=30.0)

    assert story.rates == {1: "9"}


@pytest.mark.parametrize(
    "lost", [layout.LoseAnswer(), layout.LoseRequest()], ids=["answer", "request"]
)
def test_a_rate_that_may_have_been_put_back_is_set_again_before_the_next_step(
    lost: layout.OutsideEvent, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, {**ONE, "orders-1": (RF3, (4, 2, 3))})
    story.asked(5.0, Pause())
    story.schedule(49.0, lost)
    story.played(until_s=50.0)
    story.asked(story.clock.monotonic() + 1.0, Continue())

    story.resumed()

    story.assert_left_as_found()
    assert {tp.partition for tp, _ in story.rules.bound} == {0, 1}
