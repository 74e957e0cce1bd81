"""The lines of the tool, its throttles among them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import Reassignment, Replica, TopicPartition
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    RATES,
    REPLICAS,
    SettingKey,
    broker_resource,
    topic_resource,
)
from ktui.ops.reassign import tool
from ktui.ops.reassign.throttles import throttles_of_plan
from ktui.ops.reassign.tool import in_order

FOO0, FOO1, BAR0 = (TopicPartition("foo", 0), TopicPartition("foo", 1), TopicPartition("bar", 0))
HOSTILE = TopicPartition("f\x1b[2J\no\u202eo", 0)


def test_partitions_are_sorted_by_topic_and_number() -> None:
    unsorted = [TopicPartition("foo", 10), FOO1, TopicPartition("Z", 3), BAR0, FOO0]
    assert list(map(str, in_order(unsorted))) == ["Z-3", "bar-0", "foo-0", "foo-1", "foo-10"]


def test_replicas_are_sorted_by_broker_then_partition() -> None:
    unsorted = [Replica(FOO0, 10), Replica(FOO1, 1), Replica(FOO0, 1), Replica(BAR0, 2)]
    assert list(map(tool.name_of, in_order(unsorted))) == [
        "foo-0-1",
        "foo-1-1",
        "bar-0-2",
        "foo-0-10",
    ]


def test_topics_are_sorted_by_utf_16_code_units_as_in_java() -> None:
    assert in_order(["\ufb01", "z", "\U0001f600", "\ud800"]) == [
        "z",
        "\ud800",
        "\U0001f600",
        "\ufb01",
    ]


def test_the_list_has_each_reassignment_with_its_added_and_removed_replicas() -> None:
    listed = {
        FOO1: Reassignment((4, 5, 3, 1, 2), (4, 5), (1, 2)),
        FOO0: Reassignment((1, 2, 3), (3,), ()),
        BAR0: Reassignment((2, 1), (), (1,)),
        TopicPartition("quux", 0): Reassignment((1,), (), ()),
    }
    assert tool.reassignments_text(listed) == (
        "Current partition reassignments:\n"
        "bar-0: replicas: 2,1. removing: 1.\n"
        "foo-0: replicas: 1,2,3. adding: 3.\n"
        "foo-1: replicas: 4,5,3,1,2. adding: 4,5. removing: 1,2.\n"
        "quux-0: replicas: 1."
    )


def test_an_empty_list_says_so() -> None:
    assert tool.reassignments_text({}) == "No partition reassignments found."


def test_errors_name_what_does_not_exist() -> None:
    unknown = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"
    assert tool.line(tool.UNKNOWN_BROKER, [4]) == "Unknown broker id 4"
    assert tool.line(tool.UNKNOWN_TOPIC, ["quux"]) == f"{unknown}: Topic quux not found."
    missing = [TopicPartition("foo", 11), TopicPartition("foo", 10)]
    one, both = (tool.line(tool.UNKNOWN_PARTITIONS, some, ", ") for some in (missing[:1], missing))
    assert one == f"{unknown}: Unable to find partition: foo-11"
    assert both == f"{unknown}: Unable to find partition: foo-10, foo-11"


@pytest.mark.parametrize(
    ("tps", "line"),
    [
        ([FOO0], "Successfully started partition reassignment for foo-0"),
        ([FOO0, BAR0], "Successfully started partition reassignments for bar-0,foo-0"),
        ([], "Successfully started partition reassignments for "),
    ],
)
def test_execute_names_what_it_started(tps: list[TopicPartition], line: str) -> None:
    assert tool.line(tool.STARTED, tps) == line


def test_execute_names_what_was_refused() -> None:
    errors = {
        FOO1: "The replication factor is changed from 3 to 4",
        FOO0: "The replication factor is changed from 3 to 2",
    }
    assert tool.errors_text(tool.NOT_STARTED, errors) == (
        "Error reassigning partition(s):\n"
        "foo-0: The replication factor is changed from 3 to 2\n"
        "foo-1: The replication factor is changed from 3 to 4"
    )


@pytest.mark.parametrize(
    ("tps", "line"),
    [
        ([FOO0], "Successfully cancelled partition reassignment for: foo-0"),
        ([FOO1, FOO0], "Successfully cancelled partition reassignments for: foo-0,foo-1"),
    ],
)
def test_cancel_names_what_it_cancelled(tps: list[TopicPartition], line: str) -> None:
    assert tool.line(tool.CANCELLED, tps) == line


def test_cancel_names_what_was_refused() -> None:
    idle = "No partition reassignment is in progress."
    assert tool.errors_text(tool.NOT_CANCELLED, {FOO0: idle}) == (
        f"Error cancelling partition reassignment for:\nfoo-0: {idle}"
    )
    assert tool.errors_text(tool.NOT_CANCELLED, {FOO0: idle, BAR0: idle}) == (
        f"Error cancelling partition reassignments for:\nbar-0: {idle}\nfoo-0: {idle}"
    )


def test_cleared_throttles_name_their_brokers_and_topics() -> None:
    assert tool.line(tool.BROKERS_CLEARED, {3}) == "Clearing broker-level throttles on broker 3"
    assert tool.line(tool.BROKERS_CLEARED, {10, 2, 1}) == (
        "Clearing broker-level throttles on brokers 1,2,10"
    )
    assert tool.line(tool.TOPICS_CLEARED, {"t"}) == "Clearing topic-level throttles on topic t"
    assert (
        tool.line(tool.TOPICS_CLEARED, {"b", "a"}) == "Clearing topic-level throttles on topics a,b"
    )
    assert tool.line(tool.TOPICS_CLEARED, ()) == "Clearing topic-level throttles on topics "


def test_log_dir_moves_that_began_end_in_a_blank() -> None:
    assert tool.moves_started_text(
        {Replica(FOO0, 2): "/d2", Replica(FOO1, 1): "/d1", Replica(FOO0, 1): "/d1"}
    ) == (
        "Successfully started moving log directory to /d1 for replica foo-0 with broker 1 \n"
        "Successfully started moving log directory to /d1 for replica foo-1 with broker 1 \n"
        "Successfully started moving log directory to /d2 for replica foo-0 with broker 2 "
    )


@pytest.mark.parametrize(
    ("pending", "words"),
    [
        ([Replica(FOO0, 1)], "move could be started for: foo-0-1"),
        ([Replica(FOO0, 2), Replica(FOO0, 1)], "moves could be started for: foo-0-1,foo-0-2"),
    ],
)
def test_log_dir_moves_that_did_not_begin_in_time_are_named(
    pending: list[Replica], words: str
) -> None:
    assert tool.line(tool.MOVES_TIMED_OUT, pending) == f"Timed out before log directory {words}"


def test_a_refused_log_dir_move_is_named() -> None:
    assert tool.line(tool.MOVE_FAILED, [Replica(FOO0, 1)]) == "Failed to alter dir for foo-0-1"


@pytest.mark.parametrize(
    "line",
    [
        tool.reassignments_text({HOSTILE: Reassignment((1,), (), ())}).partition("\n")[2],
        tool.line(tool.UNKNOWN_TOPIC, [HOSTILE.topic]),
        tool.line(tool.UNKNOWN_PARTITIONS, [HOSTILE]),
        tool.line(tool.STARTED, [HOSTILE]),
        tool.errors_text(tool.NOT_STARTED, {HOSTILE: "no"}).partition("\n")[2],
        tool.line(tool.CANCELLED, [HOSTILE]),
        tool.errors_text(tool.NOT_CANCELLED, {HOSTILE: "no"}).partition("\n")[2],
        tool.line(tool.TOPICS_CLEARED, [HOSTILE.topic]),
        tool.moves_started_text({Replica(HOSTILE, 1): "/d\x1b[2J"}),
        tool.line(tool.MOVES_TIMED_OUT, [Replica(HOSTILE, 1)]),
        tool.line(tool.MOVE_FAILED, [Replica(HOSTILE, 1)]),
    ],
)
def test_a_hostile_name_reaches_the_terminal_escaped(line: str) -> None:
    assert line.isprintable()
    assert "\\x1b[2J" in line


PLAN = {TopicPartition("orders", 0): (3, 2), TopicPartition("orders", 1): (1, 3)}
LEADERS = (topic_resource("orders"), LEADER_REPLICAS)
FOLLOWERS = (topic_resource("orders"), FOLLOWER_REPLICAS)
LISTS = {LEADERS: "0:1,0:2,1:1,1:2", FOLLOWERS: "0:3,1:3"}
FOREIGN_LISTS = ["*", "7:3", "0:3,7:3", "0:1", "words", "0:3:3", "99999999999:1"]


def rates(value: str, *brokers: int) -> dict[SettingKey, str]:
    return {(broker_resource(broker), name): value for broker in brokers for name in RATES}


def test_what_kafkas_tool_sets_for_the_plan_is_the_plans() -> None:
    settings = {**LISTS, **rates("5000", 1, 2, 3)}

    assert throttles_of_plan(PLAN, settings) == settings.keys()


def test_rates_only_where_they_bind_are_the_plans_too() -> None:
    bind = {(broker_resource(1), LEADER_RATE): "5000", (broker_resource(3), FOLLOWER_RATE): "5000"}

    assert throttles_of_plan(PLAN, {**LISTS, **bind}) == {*LISTS, *bind}


@pytest.mark.parametrize("replicas", FOREIGN_LISTS)
def test_a_list_with_anything_else_in_it_stays_with_all_rates(replicas: str) -> None:
    settings = {**LISTS, FOLLOWERS: replicas, **rates("5000", 1, 2, 3)}

    assert throttles_of_plan(PLAN, settings) == frozenset()


def test_rates_that_differ_among_the_plans_brokers_stay() -> None:
    settings = {**LISTS, **rates("5000", 1, 2), **rates("777", 3)}

    assert throttles_of_plan(PLAN, settings) == LISTS.keys()


def test_the_rate_of_a_broker_that_no_list_names_stays() -> None:
    settings = {**LISTS, **rates("5000", 1, 2, 3, 9)}

    assert throttles_of_plan(PLAN, settings) == settings.keys() - rates("5000", 9).keys()


ENTRIES = st.lists(
    st.tuples(st.integers(0, 2), st.integers(1, 4)).map(lambda each: f"{each[0]}:{each[1]}")
).map(",".join)


@given(
    st.dictionaries(
        st.tuples(st.sampled_from(["orders", "audit"]), st.sampled_from(REPLICAS)), ENTRIES
    )
)
def test_no_list_of_another_partition_or_follower_is_ever_the_plans(
    lists: dict[tuple[str, str], str],
) -> None:
    settings = {(topic_resource(topic), name): value for (topic, name), value in lists.items()}

    for resource, name in throttles_of_plan(PLAN, settings):
        for entry in filter(None, settings[resource, name].split(",")):
            partition, broker = map(int, entry.split(":"))
            target = PLAN[TopicPartition(resource.name, partition)]
            assert name == LEADER_REPLICAS or broker in target
