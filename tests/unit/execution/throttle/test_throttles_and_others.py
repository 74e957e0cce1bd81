"""Throttle settings of others, from before a run or during it, are kept and put back."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from ktui.execution.journal.commands import CancelMoves, Continue, Pause, SetThrottle
from ktui.execution.run.events import SettingsGivenUp
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated import layout
from support.runs.throttled import IN_5_S, IN_10_S, ONE, TWO, ThrottledStory, change_list, set_rate
from support.runs.witnessed import Killed

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


@pytest.mark.parametrize("kill", [None, "after writing Answered"])
@pytest.mark.parametrize("what", BEFORE)
def test_settings_of_others_from_before_a_run_are_put_back_also_after_a_kill(
    what: str, kill: str | None, tmp_path: Path
) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, limits=limits, cluster=IN_5_S, throttle_leaders=True)
    story.cluster.configure(BEFORE[what])
    if kill:
        story.killed(kill)

    story.to_the_end()

    story.assert_left_as_found()
    assert story.others.settings
    assert story.at_target(*TWO)
    assert story.rules.bound


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
        story.schedule(5.0, layout.AlterConfigs((change,)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)


@pytest.mark.parametrize("what", MEANWHILE)
def test_a_setting_somebody_changes_between_two_steps_stays(what: str, tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, cluster=IN_5_S)
    story.asked(3.0, Pause())
    for change in MEANWHILE[what]:
        story.schedule(15.0, layout.AlterConfigs((change,)))
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
        story.schedule(3.0, layout.AlterConfigs((change,)))
    story.killed("after writing Answered")

    story.to_the_end(dead_s=15.0)

    story.assert_left_as_found()
    assert story.at_target(*TWO)


def test_a_run_reports_the_value_of_somebody_else_that_it_has_left(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, 800_000),)))

    story.to_the_end()

    assert [e.reason for e in story.events if isinstance(e, SettingsGivenUp) and e.reason] == [
        "someone else set it to 800000"
    ]


IN_100_S = {"messages": 50_000}
"""Copies last long enough for others' rates to be seen, which a poll reads every 30 s."""
TAKES_OVER, TO_2_MB, LIFTS = (
    SetThrottle(rates)
    for rates in (parse_throttle_rates("600kB"), parse_throttle_rates("2MB"), NO_THROTTLE)
)
ROLLS_BACK = CancelMoves(CancelKind.ROLLBACK)


@pytest.mark.parametrize("rate_before", [None, 3_000_000])
def test_a_rate_of_somebody_else_is_replaced_only_if_the_operator_asks_and_put_back_at_the_end(
    rate_before: int | None, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE, cluster=IN_100_S)
    story.cluster.configure([set_rate(4, rate_before)])
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, 400_000),)))
    story.played(until_s=40.0)
    assert story.rates == {4: "400000"}
    story.asked(41.0, TAKES_OVER)
    story.resumed(until_s=43.0)
    assert story.rates == {4: "600000"}
    (answered,) = story.answers
    assert answered.answer is not None
    theirs = "replaces 400 kB/s of somebody else on broker 4, put back at the end"
    assert (
        answered.answer.words == f"600 kB/s into each broker, at once; 1 step in flight; {theirs}"
    )
    assert story.resumed().ended

    story.assert_left_as_found()
    assert story.rates == {4: "400000"}


TAKEN_OVER: dict[str, dict[float, Any]] = {
    "the operator asks twice": {41.0: TAKES_OVER, 43.0: TO_2_MB},
    "the operator lifts the throttle": {41.0: LIFTS},
    "the operator takes over, and lifts it later": {41.0: TAKES_OVER, 44.0: LIFTS},
    "the operator takes over and rolls back": {41.0: TAKES_OVER, 43.0: ROLLS_BACK},
    "they change it again just before the run does": {40.9: set_rate(4, 450_000), 41.0: TAKES_OVER},
    "they change it after that": {41.0: TAKES_OVER, 44.0: set_rate(4, 450_000)},
    "they change it, and the operator takes over again": {
        41.0: TAKES_OVER,
        44.0: set_rate(4, 450_000),
        80.0: TO_2_MB,
    },
    "they delete theirs after that": {41.0: TAKES_OVER, 44.0: set_rate(4, None)},
    "they delete theirs, and nobody takes over": {41.0: set_rate(4, None)},
    "they change it, unseen, before the operator changes the rate": {
        80.0: set_rate(4, 450_000),
        81.0: TO_2_MB,
    },
}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("what", TAKEN_OVER)
def test_a_rate_that_a_run_has_replaced_is_in_the_end_what_others_last_made_of_it(
    what: str, tmp_path: Path, *, killed: bool
) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, limits=limits, cluster=IN_100_S)
    story.cluster.configure([set_rate(4, 3_000_000)])
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, 400_000),)))
    theirs = {s: each for s, each in TAKEN_OVER[what].items() if isinstance(each, ConfigChange)}
    for at_s, change in theirs.items():
        story.schedule(at_s, layout.AlterConfigs((change,)))
    story.played(until_s=40.5)
    if killed:
        story.killed("after writing Configured?")

    while not story.run.ended:
        for at_s, command in TAKEN_OVER[what].items():
            if at_s not in theirs and at_s > story.clock.monotonic():
                story.asked(at_s, command)
        with suppress(Killed):
            story.resumed()

    story.assert_left_as_found()


def test_a_rate_that_ktui_changes_by_itself_is_not_set_over_somebody_elses(tmp_path: Path) -> None:
    limits = Limits(replicas=1, partitions=2)
    story = ThrottledStory(tmp_path, TWO, "total=800kB", limits=limits)
    # Rates are polled every 30 s, and 4 gets the whole budget once the copy onto 5 is over.
    story.schedule(6.0, layout.AlterConfigs((set_rate(4, 900_000),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.rates == {4: "900000"}


def test_a_wildcard_list_set_midway_binds_later_replicas_without_an_entry(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.schedule(5.0, layout.AlterConfigs((change_list(SET, "*"),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.lists == {FOLLOWER_REPLICAS: "*"}
    assert story.at_target(*TWO)


def test_a_wildcard_list_removed_midway_is_followed_by_entries(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(SET, "*")])
    story.schedule(5.0, layout.AlterConfigs((change_list(DELETE, None),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*TWO)
