"""Settings that others change, and brokers that are down."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, Verdict, WriteResult
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_REPLICAS
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import LeaveThrottles, SetLimits, SetThrottle
from ktui.execution.run.events import Configure, Ended, SettingsFound, SettingsGivenUp, StepOver
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from support.runs.throttled import ONE, TWO, ThrottledStory, broker, change_list, set_rate
from support.simulated.moving_clusters import tp
from support.simulated.witness import Arrival


def _waiting(folder: Path) -> ThrottledStory:
    """Kill broker 4 while it is throttled, and delete the topic that moves to it soon after."""
    story = ThrottledStory(folder)
    story.schedule(5.0, layout.Kill(4))
    story.schedule(15.0, layout.DeleteTopic("orders"))
    return story


def test_a_run_whose_partitions_have_ended_waits_for_a_broker_and_reports_it(
    tmp_path: Path,
) -> None:
    story = _waiting(tmp_path)

    run = story.played(until_s=60.0)

    assert not run.ended
    assert run.over == 1
    assert (
        "all partitions have ended; its throttle is still set on broker 4, which is down or "
        "refuses the change"
    ) in progress_line(run_progress(run, this_process()))


def test_a_broker_without_changed_settings_is_not_waited_for(tmp_path: Path) -> None:
    story = _waiting(tmp_path)
    story.already(layout.AlterConfigs((set_rate(4, 500_000),)))

    assert story.played(until_s=60.0).ended
    assert story.rates == {4: "500000"}


def test_an_unremovable_throttle_is_left_behind_on_request_and_each_value_named(
    tmp_path: Path,
) -> None:
    story = _waiting(tmp_path)
    story.asked(60.0, LeaveThrottles())

    assert story.played(until_s=100.0).ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.accepted
    assert asked.answer.words == (
        f"left behind, and no longer the run's: broker 4 {FOLLOWER_RATE}=500000 (before: unset)"
    )
    left = [e for e in story.events if isinstance(e, SettingsGivenUp)][-1]
    assert (left.resource, left.keys) == (broker(4), (FOLLOWER_RATE,))
    assert left.reason == "left behind, as somebody@here (2) asked"
    assert story.seconds(lambda event: isinstance(event, Ended))[0] >= 60.0
    assert story.rates == {4: "500000"}


def test_no_throttle_is_left_behind_while_something_moves(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path)
    story.asked(5.0, LeaveThrottles())

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert not asked.answer.accepted
    assert "it still moves partitions" in asked.answer.words
    story.assert_left_as_found()


def test_a_request_to_leave_throttles_reports_when_none_is_left(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, rate="none")
    story.asked(5.0, LeaveThrottles())

    assert story.played().ended

    (asked,) = story.answers
    assert asked.answer is not None
    assert asked.answer.words == "nothing of the run's throttle is left anywhere"


FOUR = {f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(4)}


def appended(story: ThrottledStory) -> set[str | None]:
    changes = (c for e in story.events if isinstance(e, Configure) for c in e.changes)
    return {change.value for change in changes if change.op is ConfigOp.APPEND}


@pytest.mark.parametrize("theirs", ["*", "0:4,1:5", "1:5", "7:7, 1:5"])
def test_a_replica_is_listed_once_a_list_of_others_no_longer_binds_it(
    theirs: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(ConfigOp.SET, theirs)])
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.DELETE, None),)))

    story.to_the_end()

    assert "1:5" in appended(story)
    story.assert_left_as_found()


def test_a_replica_is_listed_once_a_wildcard_list_set_midway_is_gone(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, FOUR)
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.SET, "*"),)))
    story.schedule(30.0, layout.AlterConfigs((change_list(ConfigOp.DELETE, None),)))

    story.to_the_end()

    assert {"0:4", "3:4"} <= appended(story)
    story.assert_left_as_found()


def test_no_step_is_sent_while_a_list_it_relies_on_cannot_be_read(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=1))
    story.cluster.configure([change_list(ConfigOp.SET, "*")])
    story.schedule(3.0, layout.Deny("topic_configs"))
    story.schedule(100.0, layout.Allow("topic_configs"))

    story.played(until_s=90.0)

    assert story.witness.effective(tp("orders-1")) == []


@pytest.mark.parametrize(
    ("before", "words"),
    [(None, "someone else deleted it"), (3_000_000, "someone else set it to 3000000")],
)
def test_a_run_reports_that_somebody_has_removed_its_rate(
    before: int | None, words: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, before)])
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, before),)))

    story.to_the_end()

    assert _reasons(story) == [words]


@pytest.mark.parametrize("at_s", [0.0, 15.0])
def test_nobody_is_blamed_when_only_answers_were_lost(at_s: float, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.schedule(at_s, *[layout.LoseAnswer()] * 4)

    story.to_the_end()

    story.assert_left_as_found()
    assert _reasons(story) == []


@pytest.mark.parametrize("late_s", [0.5, 30.0])
def test_nobody_is_blamed_when_a_rate_is_put_back_late(late_s: float, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.sending.settings_late_by_s[ConfigOp.DELETE] = late_s

    story.to_the_end()

    story.assert_left_as_found()
    assert _reasons(story) == []


def test_no_step_relies_on_a_rate_that_was_removed_a_moment_ago(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, {**ONE, "orders-1": ONE["orders-0"]}, poll_s=0.3)
    story.schedule(0.5, layout.AlterConfigs((set_rate(4, None),)))
    # A broker has a second to apply the run's own change: the deletion falls into it.
    story.asked(0.6, SetLimits({"partitions": 2}))
    rates: list[str | None] = []

    def arrives(arrival: Arrival) -> None:
        if any(target and 4 in target for target in arrival.partitions.values()):
            rates.append(story.rates.get(4))

    story.witness.arrivals.append(arrives)
    story.to_the_end()

    assert rates[:2] == ["500000", "500000"]


def test_a_list_that_its_owners_have_emptied_is_not_left_behind_empty(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([change_list(ConfigOp.SET, "7:9")])
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.SUBTRACT, "7:9"),)))

    story.to_the_end()

    assert story.lists == {}


def _reasons(story: ThrottledStory) -> list[str]:
    return [e.reason for e in story.events if isinstance(e, SettingsGivenUp) and e.reason]


@pytest.mark.parametrize("before", [None, 3_000_000])
@pytest.mark.parametrize("after", [None, 800_000])
def test_a_rate_set_while_the_engine_was_dead_is_put_back(
    before: int | None, after: int | None, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, before)])
    story.killed("after writing SettingsFound")
    story.schedule(12.0, layout.AlterConfigs((set_rate(4, after),)))

    story.to_the_end(dead_s=30.0)

    story.assert_left_as_found()
    assert story.at_target("orders-0")


def test_a_rate_somebody_changed_while_it_was_the_wanted_one_is_put_back(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([set_rate(4, 500_000)])
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, 800_000),)))
    story.asked(8.0, SetThrottle(parse_throttle_rates("600kB")))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.rates == {4: "800000"}


def test_a_list_that_nobody_changes_is_journalled_once_however_long_steps_rely_on_it(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(ConfigOp.SET, "*")])

    story.to_the_end()

    found = [each.key for e in story.events if isinstance(e, SettingsFound) for each in e.found]
    assert found.count(FOLLOWER_REPLICAS) == 1
    story.assert_left_as_found()


def test_a_list_that_is_read_again_is_journalled_as_others_have_changed_it(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(ConfigOp.SET, "0:4,1:5")])
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.SET, "0:4,1:5,7:7"),)))

    story.to_the_end()

    found = [each for e in story.events if isinstance(e, SettingsFound) for each in e.found]
    values = [each.before and each.before.value for each in found if each.key == FOLLOWER_REPLICAS]
    assert values == ["0:4,1:5", "0:4,1:5,7:7"]
    story.assert_left_as_found()


def test_a_rate_that_is_changed_again_was_read_for_that_however_slow_the_read_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=2))
    reading, sending = story.reader.settings, story.sending.alter_configs
    began_s = story.clock.monotonic()

    def within(since_s: float, until_s: float) -> bool:
        return since_s <= story.clock.monotonic() - began_s < until_s

    async def slow(resources: Collection[ConfigResource], names: Collection[str]) -> Any:
        answer = await reading(resources, names)
        if within(13.0, 15.5) and broker(4) in resources:
            await story.clock.sleep(3.0)
        return answer

    async def refusing(changes: Sequence[ConfigChange], **how: Any) -> Any:
        raised = {change.resource for change in changes if change.op is ConfigOp.SET}
        if within(8.0, 13.0) and raised:
            return {each: WriteResult(Verdict.REFUSED, "POLICY_VIOLATION") for each in raised}
        return await sending(changes, **how)

    monkeypatch.setattr(story.reader, "settings", slow)
    monkeypatch.setattr(story.sending, "alter_configs", refusing)
    story.asked(8.0, SetThrottle(parse_throttle_rates("500kB,4=600kB")))
    story.asked(11.0, SetThrottle(parse_throttle_rates("500kB,4=600kB,5=700kB")))
    story.schedule(14.0, layout.AlterConfigs((set_rate(5, 800_000),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.rates == {5: "800000"}


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
