"""Throttle settings of others, from before a run or during it, are kept and put back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
)
from ktui.execution.journal.commands import Continue, Pause, SetThrottle
from ktui.execution.run.events import SettingsGivenUp
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import events
from support.runs.throttled import IN_5_S, IN_10_S, ONE, TWO, ThrottledStory, change_list, set_rate

SET, APPEND, SUBTRACT, DELETE = ConfigOp.SET, ConfigOp.APPEND, ConfigOp.SUBTRACT, ConfigOp.DELETE


def every_broker(bytes_s: int) -> ConfigChange:
    resource = ConfigResource(ConfigScope.BROKER, "")
    return ConfigChange(resource, FOLLOWER_RATE, SET, str(bytes_s))


BEFORE: dict[str, Sequence[ConfigChange]] = {
    "a rate of its own on the target": [set_rate(4, 3_000_000)],
    "the very rate that the run wants": [set_rate(4, 500_000)],
    "a rate of 0": [set_rate(4, 0)],
    "no limit, said in so many words": [set_rate(4, 2**63 - 1)],
    "rates of brokers that the run does not concern": [set_rate(1, 5), set_rate(9, 6)],
    "a leader's rate": [set_rate(4, 7_000_000, LEADER_RATE)],
    "a rate for every broker": [every_broker(3_000_000)],
    "a rate for every broker and one of its own": [every_broker(3_000_000), set_rate(5, 9)],
    "a list of another replica": [change_list(SET, "0:9")],
    "a list of the very replica that is added": [change_list(SET, "0:4")],
    "a list with blanks": [change_list(SET, "0:9 , 1:9,  1:4")],
    "a list with an entry twice": [change_list(SET, "0:9,0:9")],
    "an empty list": [change_list(SET, "")],
    "a list of everything": [change_list(SET, "*")],
    "a list of leaders": [change_list(SET, "0:1,1:1", LEADER_REPLICAS)],
    "leaders, everything": [change_list(SET, "*", LEADER_REPLICAS)],
    "settings that are no throttles": [
        ConfigChange(ConfigResource(ConfigScope.TOPIC, "orders"), "retention.ms", SET, "7200000"),
        ConfigChange(ConfigResource(ConfigScope.BROKER, "4"), "log.cleaner.threads", SET, "2"),
    ],
}


@pytest.mark.parametrize("what", BEFORE)
def test_settings_of_others_from_before_a_run_are_put_back(what: str, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S, throttle_leaders=True)
    story.cluster.configure(BEFORE[what])

    story.to_the_end()

    story.assert_left_as_found()
    assert story.others.settings
    assert story.at_target(*TWO)
    assert story.rules.bound


@pytest.mark.parametrize("what", BEFORE)
def test_settings_of_others_from_before_a_run_are_put_back_after_a_crash(
    what: str, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, limits=limits, cluster=IN_5_S)
    story.cluster.configure(BEFORE[what])
    story.killed("after writing Answered")

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)


def test_a_static_rate_in_the_brokers_files_applies_again(tmp_path: Path) -> None:
    static = {"broker_configs": {FOLLOWER_RATE: "3000000"}}
    story = ThrottledStory(tmp_path, TWO, cluster=static)

    story.to_the_end()

    story.assert_left_as_found()
    assert not story.rates
    config = story.cluster.controller.configs.broker_config(4)
    assert config.follower_throttle_rate == 3_000_000


MEANWHILE: dict[str, Sequence[ConfigChange]] = {
    "sets another rate on the target": [set_rate(4, 800_000)],
    "deletes the rate": [set_rate(4, None)],
    "sets a rate on a broker that comes later": [set_rate(5, 900_000)],
    "sets a rate on a broker not concerned": [set_rate(9, 900_000)],
    "sets a rate for every broker": [every_broker(900_000)],
    "sets a leader's rate": [set_rate(4, 900_000, LEADER_RATE)],
    "appends to the list": [change_list(APPEND, "7:9,1:9")],
    "appends before and takes off ours": [change_list(APPEND, "7:9"), change_list(SUBTRACT, "0:4")],
    "takes ours off the list": [change_list(SUBTRACT, "0:4")],
    "overwrites the list": [change_list(SET, "7:9")],
    "empties the list": [change_list(SET, "")],
    "deletes the list": [change_list(DELETE, None)],
    "lists everything": [change_list(SET, "*")],
    "lists leaders": [change_list(APPEND, "0:1", LEADER_REPLICAS)],
}


@pytest.mark.parametrize(
    "rate_before",
    [
        pytest.param(None, id="none before", marks=pytest.mark.soak),
        pytest.param(3_000_000, id="a rate before"),
    ],
)
@pytest.mark.parametrize("what", MEANWHILE)
def test_a_setting_somebody_changes_while_a_replica_is_copied_stays(
    what: str, rate_before: int | None, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_10_S)
    if rate_before is not None:
        story.cluster.configure([set_rate(4, rate_before), change_list(SET, "0:9")])
    for change in MEANWHILE[what]:
        story.schedule(5.0, events.AlterConfigs((change,)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_setting_somebody_changes_between_two_steps_stays(what: str, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S)
    story.asked(3.0, Pause())
    for change in MEANWHILE[what]:
        story.schedule(15.0, events.AlterConfigs((change,)))
    story.asked(20.0, Continue())

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_setting_somebody_changes_while_the_run_has_no_engine_stays(
    what: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S)
    for change in MEANWHILE[what]:
        story.schedule(3.0, events.AlterConfigs((change,)))
    story.killed("after writing Answered")

    story.to_the_end(dead_s=15.0)

    story.assert_left_as_found()
    assert story.at_target(*TWO)


def test_a_run_reports_the_value_of_somebody_else_that_it_has_left(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.schedule(5.0, events.AlterConfigs((set_rate(4, 800_000),)))

    story.to_the_end()

    assert [e.reason for e in story.events if isinstance(e, SettingsGivenUp) and e.reason] == [
        "someone else set it to 800000"
    ]


def test_a_rate_somebody_has_changed_is_set_again_only_when_the_operator_changes_it(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, 3_000_000)])
    story.schedule(5.0, events.AlterConfigs((set_rate(4, 400_000),)))
    story.played(until_s=9.0)
    assert story.rates == {4: "400000"}
    story.asked(10.0, SetThrottle(parse_throttle_rates("600kB")))
    story.resumed(until_s=12.0)
    assert story.rates == {4: "600000"}
    assert story.resumed().ended

    assert story.rates == {4: "3000000"}


def test_a_wildcard_list_set_midway_binds_later_replicas_without_an_entry(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.schedule(5.0, events.AlterConfigs((change_list(SET, "*"),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.lists == {FOLLOWER_REPLICAS: "*"}
    assert story.at_target(*TWO)


def test_a_wildcard_list_removed_midway_is_followed_by_entries(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(SET, "*")])
    story.schedule(5.0, events.AlterConfigs((change_list(DELETE, None),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)
