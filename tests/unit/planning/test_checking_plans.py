"""A plan is checked against its cluster before anything is sent."""

import json
from collections.abc import Mapping

import msgspec
import pytest

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.partition import PartitionState, Reassignment, Replica, TopicPartition
from ktui.planning.check.check import check_plan
from ktui.planning.check.findings import (
    Allowances,
    ClusterSnapshot,
    Finding,
    FindingKind,
    Option,
    Severity,
)
from ktui.planning.json_cursor import FilePosition
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.read import read_plan

RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b"}


def _tp(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


def _state(number: int, *replicas: int, topic: str = "orders") -> PartitionState:
    held = replicas or (1, 2, 3)
    return PartitionState(
        tp=_tp(number, topic), topic_id=None, replicas=held, isr=held, leader=held[0]
    )


def _cluster(*states: PartitionState, racks: Mapping[int, str | None] = RACKS) -> ClusterSnapshot:
    held = states or (_state(0), _state(1), _state(2))
    return ClusterSnapshot(
        partitions={state.tp: state for state in held},
        brokers={broker: Broker(id=broker, rack=rack) for broker, rack in racks.items()},
        configs={state.tp.topic: TopicConfig(min_insync_replicas=2) for state in held},
        topics=[*{state.tp.topic for state in held}, "payments", "invoices"],
    )


def _plan(*targets: tuple[int, tuple[int, ...]], topic: str = "orders") -> Plan:
    return Plan(tuple(PartitionTarget(topic, number, replicas) for number, replicas in targets))


def _only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, findings
    return findings[0]


def _check(plan: Plan, cluster: ClusterSnapshot) -> tuple[Severity, str]:
    finding = _only(check_plan(plan, cluster))
    return finding.severity, finding.sentence


def test_a_sound_plan_on_a_healthy_cluster_has_no_findings() -> None:
    assert check_plan(_plan((0, (3, 4, 5)), (1, (2, 1, 3))), _cluster()) == ()


def _cordoned(refuses: bool | None, *states: PartitionState) -> ClusterSnapshot:  # noqa: FBT001 - the only fact
    """A cluster whose broker 4 is cordoned: one log dir is, and the other has failed."""
    closed = (LogDir(4, "/a", cordoned=True), LogDir(4, "/b", error="KAFKA_STORAGE_ERROR"))
    open_ = (LogDir(5, "/a", cordoned=True), LogDir(5, "/b"))
    return msgspec.structs.replace(
        _cluster(*states), refuses_cordoned=refuses, log_dirs={4: closed, 5: open_}
    )


def _of_cordons(plan: Plan, cluster: ClusterSnapshot) -> tuple[Severity, str]:
    findings = check_plan(plan, cluster, Allowances(replication_factor_change=True))
    kinds = {FindingKind.CORDONED, FindingKind.CORDONED_LEFT}
    found = _only(tuple(finding for finding in findings if finding.kind in kinds))
    return found.severity, found.sentence


_NAMES_4 = pytest.mark.parametrize(
    ("before", "target"),
    [
        ((1, 2, 3), (4, 2, 3)),
        ((1, 2, 4), (4, 1, 2)),
        ((1, 2, 4), (5, 2, 4)),
        ((1, 2, 3), (1, 2, 3, 4)),
    ],
    ids=["added", "reordered", "kept", "one more"],
)
_REFUSED = (
    "broker 4 is cordoned, and Kafka refuses every target that names it, whether the replica is "
    "new there or stays: orders-0; lift the cordon with ktui broker uncordon 4, or leave the "
    "broker out"
)
_MAY_BE_REFUSED = (
    "broker 4 is cordoned, and Kafka 4.4 and later refuse every target that names it; ktui cannot "
    "tell whether this cluster does: orders-0; lift the cordon with ktui broker uncordon 4"
)
_GETS_NONE = (
    "broker 4 is cordoned and gets no new partitions, but the plan adds replicas of orders-0 to "
    "it; lift the cordon with ktui broker uncordon 4"
)
_LEAVES_AT_ONCE = (
    "broker 4 is cordoned, so no list may name it: in any shape, a step that leaves it adds and "
    "removes at once: orders-0"
)


@_NAMES_4
def test_a_target_that_names_a_cordoned_broker_is_a_problem_where_kafka_refuses_it(
    before: tuple[int, ...], target: tuple[int, ...]
) -> None:
    cluster = _cordoned(True, _state(0, *before))  # noqa: FBT003 - it refuses

    assert _of_cordons(_plan((0, target)), cluster) == (Severity.PROBLEM, _REFUSED)


@_NAMES_4
def test_it_is_a_warning_where_it_cannot_be_told_whether_kafka_refuses_it(
    before: tuple[int, ...], target: tuple[int, ...]
) -> None:
    cluster = _cordoned(None, _state(0, *before))

    assert _of_cordons(_plan((0, target)), cluster) == (Severity.WARNING, _MAY_BE_REFUSED)


def test_where_kafka_accepts_it_a_cordoned_broker_is_a_warning_only_if_it_gets_a_replica() -> None:
    cluster = _cordoned(False, _state(0), _state(1, 1, 2, 4))  # noqa: FBT003 - it accepts
    plan = _plan((0, (4, 2, 3)), (1, (2, 1, 4)))

    assert _of_cordons(plan, cluster) == (Severity.WARNING, _GETS_NONE)


def test_that_replicas_leave_a_cordoned_broker_at_once_is_noted() -> None:
    cluster = _cordoned(True, _state(0, 1, 2, 4))  # noqa: FBT003 - it refuses

    assert _of_cordons(_plan((0, (1, 2, 3))), cluster) == (Severity.NOTE, _LEAVES_AT_ONCE)


def test_an_election_on_a_cordoned_broker_names_no_list_and_is_no_problem() -> None:
    cluster = _cordoned(True, _state(0, 4, 1, 2))  # noqa: FBT003 - it refuses
    led_by_1 = msgspec.structs.replace(cluster.partitions[_tp(0)], leader=1)
    cluster = msgspec.structs.replace(cluster, partitions={_tp(0): led_by_1})

    findings = check_plan(_plan((0, (4, 1, 2))), cluster)

    assert FindingKind.CORDONED not in {finding.kind for finding in findings}


def _with_dirs(*log_dirs: str) -> Plan:
    return Plan((PartitionTarget("orders", 0, (3, 4, 5), log_dirs),))


def _dirs(broker: int, *paths: str) -> tuple[LogDir, ...]:
    return tuple(LogDir(broker, path) for path in paths)


def test_a_log_dir_costs_nothing_where_the_replica_is_in_it_or_its_broker_has_no_other() -> None:
    cluster = msgspec.structs.replace(
        _cluster(),
        log_dirs={3: _dirs(3, "/a", "/b"), 4: _dirs(4, "/a"), 5: _dirs(5, "/a", "/b")},
        held_in={Replica(_tp(0), 3): "/b"},
    )

    assert check_plan(_with_dirs("/b", "/a", "any"), cluster) == ()


def test_log_dirs_that_a_run_cannot_choose_are_a_warning_with_what_can() -> None:
    cluster = msgspec.structs.replace(
        _cluster(),
        log_dirs={broker: _dirs(broker, "/a", "/b") for broker in (3, 4)},
        held_in={Replica(_tp(0), 3): "/b"},
    )

    severity, sentence = _check(_with_dirs("/a", "/b", "/b"), cluster)

    assert severity is Severity.WARNING
    assert "`ktui reassign --execute` of the plan moves them afterwards" in sentence
    assert "orders-0 (/a on broker 3, /b on broker 4 and /b on broker 5)" in sentence


def test_a_plan_that_names_the_topic_of_a_canary_is_warned_of_it() -> None:
    cluster = _cluster(_state(0, topic="ktui-canary-night"))

    severity, sentence = _check(_plan((0, (3, 4, 5)), topic="ktui-canary-night"), cluster)

    assert severity is Severity.WARNING
    assert sentence.startswith("ktui-canary-night is the topic of a run's canary")


def test_a_plan_that_copies_a_tiered_topic_is_told_what_is_copied() -> None:
    tiered = {"orders": TopicConfig(min_insync_replicas=2, tiered=True)}
    cluster = msgspec.structs.replace(_cluster(), configs=tiered)

    severity, sentence = _check(_plan((0, (3, 4, 5))), cluster)

    assert severity is Severity.NOTE
    assert sentence.startswith("tiered: only what leaders have on disk is copied")
    assert sentence.endswith(": orders-0")
    assert check_plan(_plan((0, (2, 1, 3))), cluster) == ()


def test_an_unknown_topic_is_a_problem_and_the_nearest_name_is_suggested() -> None:
    plan = _plan((0, (1, 2, 3)), (1, (2, 3, 1)), topic="order")
    finding = _only(check_plan(plan, _cluster()))
    assert finding.severity is Severity.PROBLEM
    assert finding.kind is FindingKind.TOPIC_UNKNOWN
    assert finding.partitions == (_tp(0, "order"), _tp(1, "order"))
    assert finding.sentence == "the cluster has no topic order; did you mean orders?"


def test_an_unknown_topic_without_a_similar_name_gets_no_suggestion() -> None:
    assert _check(_plan((0, (1, 2, 3)), topic="zzz"), _cluster()) == (
        Severity.PROBLEM,
        "the cluster has no topic zzz",
    )


def test_every_unknown_topic_is_reported() -> None:
    targets = tuple(PartitionTarget(f"order{n}", 0, (1, 2, 3)) for n in range(50))
    findings = check_plan(Plan(targets), _cluster())
    assert [finding.partitions[0].topic for finding in findings] == [t.topic for t in targets]
    assert sum("did you mean" in finding.sentence for finding in findings) == 20


def test_a_topic_that_may_not_be_read_is_unreadable_and_not_unknown() -> None:
    failure = Failure(Operation.METADATA, "not authorized to Describe", topic="secrets")
    cluster = msgspec.structs.replace(_cluster(), failures=(failure,))
    finding = _only(check_plan(_plan((0, (1, 2, 3)), topic="secrets"), cluster))
    assert (finding.severity, finding.kind) == (Severity.PROBLEM, FindingKind.TOPIC_UNREADABLE)
    assert finding.sentence == "topic secrets could not be read: not authorized to Describe"


def test_a_topic_of_the_metadata_that_brokers_do_not_know_by_that_name_is_a_problem() -> None:
    renamed = frozenset({"orders"})
    cluster = msgspec.structs.replace(_cluster(), configs={}, denied_by_brokers=renamed)

    severity, sentence = _check(_plan((0, (3, 4, 5))), cluster)

    assert severity is Severity.PROBLEM
    assert "topic orders is in the metadata" in sentence
    assert "a proxy on the way to the brokers renames topics" in sentence


def test_an_unknown_partition_is_reported_with_the_known_ones() -> None:
    assert _check(_plan((3, (1, 2, 4)), (7, (1, 2, 4))), _cluster()) == (
        Severity.PROBLEM,
        "orders has 3 partitions, 0 to 2, and not orders-3 and orders-7",
    )
    assert "orders has 1 partition, 0, and not orders-1" in str(
        _check(_plan((1, (1, 2, 4))), _cluster(_state(0)))
    )


def test_every_unknown_broker_is_reported_with_the_known_ones() -> None:
    findings = check_plan(_plan((0, (1, 2, 9)), (1, (8, 9, 1))), _cluster())
    assert [(f.severity, f.kind, f.partitions) for f in findings] == [
        (Severity.PROBLEM, FindingKind.BROKER_UNKNOWN, (_tp(0), _tp(1))),
        (Severity.PROBLEM, FindingKind.BROKER_UNKNOWN, (_tp(1),)),
    ]
    assert findings[0].sentence == (
        "the cluster has no broker 9, only 1 to 5; named for orders-0 and orders-1"
    )
    assert findings[1].sentence.startswith("the cluster has no broker 8, only 1 to 5;")


def test_more_replicas_than_brokers_are_a_problem() -> None:
    cluster = _cluster(_state(0, 1, 2), racks={1: None, 2: None})
    findings = check_plan(_plan((0, (1, 2, 3))), cluster)
    assert {f.kind: f.sentence for f in findings}[FindingKind.TOO_MANY_REPLICAS] == (
        "3 replicas for orders-0, but the cluster has 2 brokers"
    )


@pytest.mark.parametrize(("replicas", "to"), [((1, 2, 3, 5), 4), ((1, 2), 2)])
def test_a_change_of_the_replication_factor_needs_its_option(
    replicas: tuple[int, ...], to: int
) -> None:
    plan = _plan((0, replicas))
    finding = _only(check_plan(plan, _cluster()))
    assert finding.severity is Severity.PROBLEM
    assert finding.sentence == f"the replication factor changes from 3 to {to}: orders-0"
    assert finding.option is Option.REPLICATION_FACTOR_CHANGE
    allowed = _only(check_plan(plan, _cluster(), Allowances(replication_factor_change=True)))
    assert allowed == msgspec.structs.replace(finding, severity=Severity.NOTE)


def test_a_moving_partition_has_the_replication_factor_from_before_its_move() -> None:
    listed = {_tp(0): Reassignment((4, 5, 3, 1, 2), (4, 5), (1, 2))}
    cluster = msgspec.structs.replace(_cluster(), listed=listed)
    assert FindingKind.REPLICATION_FACTOR_CHANGE not in {
        finding.kind for finding in check_plan(_plan((0, (1, 2, 3))), cluster)
    }


def test_fewer_replicas_than_min_insync_replicas_need_their_option() -> None:
    plan, cluster = _plan((0, (2,))), _cluster(_state(0, 1, 2))
    fewer = Allowances(replication_factor_change=True)
    finding = check_plan(plan, cluster, fewer)[0]
    assert (finding.severity, finding.kind) == (Severity.PROBLEM, FindingKind.BELOW_MIN_ISR)
    assert finding.option is Option.BELOW_MIN_ISR
    assert finding.sentence == (
        "fewer replicas (1) than min.insync.replicas (2), so producers with acks=all are "
        "refused: orders-0"
    )
    both = Allowances(replication_factor_change=True, below_min_isr=True)
    allowed = check_plan(plan, cluster, both)[0]
    assert allowed == msgspec.structs.replace(finding, severity=Severity.WARNING)


def test_an_id_that_only_lists_of_replicas_have_is_no_broker() -> None:
    """Kafka refuses the target: the broker was unregistered."""
    cluster = _cluster(_state(0, 1, 2, 9))
    assert _check(_plan((0, (1, 4, 9))), cluster)[0] is Severity.WARNING  # perhaps it is down

    cluster = msgspec.structs.replace(cluster, unregistered=frozenset({9}))
    severity, sentence = _check(_plan((0, (1, 4, 9))), cluster)
    assert severity is Severity.PROBLEM
    assert sentence == "the cluster has no broker 9, only 1 to 5; named for orders-0"


@pytest.mark.parametrize(("before", "after"), [((1,), (2,)), ((1,), (2, 3)), ((1, 2), (3, 4))])
def test_a_plan_is_not_refused_for_too_few_replicas_that_were_no_more_before_it(
    before: tuple[int, ...], after: tuple[int, ...]
) -> None:
    cluster = _cluster(_state(0, *before))
    few = {"orders": TopicConfig(min_insync_replicas=3)}
    cluster = msgspec.structs.replace(cluster, configs=few)
    found = check_plan(_plan((0, after)), cluster, Allowances(replication_factor_change=True))
    (finding,) = (each for each in found if each.kind is FindingKind.BELOW_MIN_ISR_ALREADY)
    assert (finding.severity, finding.option) == (Severity.WARNING, None)
    assert finding.sentence == (
        f"fewer replicas ({len(after)}) than min.insync.replicas (3) already, so producers with "
        "acks=all are refused before and after: orders-0"
    )


def test_settings_that_may_not_be_read_are_reported_as_unchecked() -> None:
    cluster = msgspec.structs.replace(_cluster(), configs={})
    assert _check(_plan((0, (4, 2, 3)), (1, (4, 2, 3))), cluster) == (
        Severity.WARNING,
        "the settings of orders could not be read, so min.insync.replicas is not checked",
    )


def test_a_missing_permission_to_read_settings_is_named() -> None:
    answer = "TOPIC_AUTHORIZATION_FAILED. Grant DescribeConfigs on topic orders"
    denied = Failure(Operation.TOPIC_CONFIGS, answer, topic="orders", denied=True)
    cluster = msgspec.structs.replace(_cluster(), configs={}, failures=(denied,))

    severity, sentence = _check(_plan((0, (4, 2, 3))), cluster)

    assert severity is Severity.WARNING
    assert sentence.endswith(f"so min.insync.replicas is not checked: {answer}")


def test_a_target_broker_that_is_down_is_a_warning() -> None:
    brokers = {**_cluster().brokers, 4: Broker(id=4, rack="a", alive=False)}
    cluster = msgspec.structs.replace(_cluster(), brokers=brokers)
    assert _check(_plan((0, (4, 2, 3))), cluster) == (
        Severity.WARNING,
        "broker 4 is down but is a target of orders-0: nothing is copied to it until it is back",
    )


def test_a_broker_known_only_from_a_replica_list_is_down_and_not_unknown() -> None:
    findings = check_plan(_plan((1, (1, 2, 6))), _cluster(_state(0, 1, 2, 6), _state(1)))
    assert [finding.kind for finding in findings] == [FindingKind.BROKER_DOWN]


def test_unhealthy_partitions_are_a_warning() -> None:
    offline = msgspec.structs.replace(_state(0), leader=None, isr=())
    behind = msgspec.structs.replace(_state(1), isr=(1, 2))
    findings = check_plan(_plan((0, (4, 2, 3)), (1, (4, 2, 3))), _cluster(offline, behind))
    assert [(f.severity, f.sentence) for f in findings] == [
        (Severity.WARNING, "offline, with no leader to copy from: orders-0"),
        (Severity.WARNING, "under-replicated before the start: orders-1"),
    ]


def test_a_partition_that_could_not_be_described_is_not_reported_as_offline() -> None:
    hidden = msgspec.structs.replace(_state(0), leader=None, isr=(), described=False)
    assert check_plan(_plan((0, (4, 2, 3))), _cluster(hidden)) == ()


def test_a_reassignment_by_someone_else_is_a_warning() -> None:
    listed = {_tp(0): Reassignment((4, 2, 3, 1), (4,), (1,))}
    cluster = msgspec.structs.replace(_cluster(), listed=listed)
    assert _check(_plan((0, (5, 1, 3))), cluster) == (
        Severity.WARNING,
        "someone else is reassigning orders-0",
    )
    ours = msgspec.structs.replace(cluster, movers={_tp(0): "drain-b3"})
    assert _check(_plan((0, (5, 1, 3))), ours) == (
        Severity.WARNING,
        "run drain-b3 is reassigning orders-0",
    )


def test_outdated_original_replicas_are_reported() -> None:
    target = PartitionTarget("orders", 0, (4, 5, 3), original_replicas=(2, 1, 3))
    finding = _only(check_plan(Plan((target,)), _cluster()))
    assert (finding.severity, finding.kind) == (Severity.WARNING, FindingKind.ORIGINAL_DIFFERS)
    assert finding.sentence == (
        "original_replicas are not the replicas now, so the plan was made earlier: "
        "orders-0 (2, 1 and 3 in the plan, 1, 2 and 3 now)"
    )


def test_original_replicas_of_a_moving_partition_are_compared_without_their_order() -> None:
    target = PartitionTarget("orders", 0, (4, 5, 3), original_replicas=(2, 1, 3))
    listed = {_tp(0): Reassignment((4, 2, 3, 1), (4,), (1,))}
    cluster = msgspec.structs.replace(_cluster(), listed=listed)
    assert _only(check_plan(Plan((target,)), cluster)).kind is FindingKind.FOREIGN_REASSIGNMENT


def test_two_replicas_in_one_rack_are_a_warning_with_enough_racks() -> None:
    assert _check(_plan((0, (1, 4, 3)), (1, (2, 5, 1))), _cluster()) == (
        Severity.WARNING,
        (
            "replicas share a rack, though there are racks without one: "
            "orders-0 (in racks a, a and c) and orders-1"
        ),
    )


@pytest.mark.parametrize(
    ("racks", "expected"),
    [
        ({1: "a", 2: "a", 3: "b", 4: "b"}, False),
        ({1: "a", 2: "a", 3: "a", 4: "b"}, True),
        ({1: "a", 2: "a", 3: "a", 4: "a"}, False),
        ({1: "a", 2: "a", 3: None, 4: "b"}, False),
        ({1: None, 2: None, 3: None, 4: None}, False),
    ],
)
def test_shared_racks_are_a_warning_only_with_an_unused_rack(
    racks: dict[int, str | None], *, expected: bool
) -> None:
    findings = check_plan(_plan((0, (3, 2, 1))), _cluster(_state(0), racks=racks))
    assert [finding.kind for finding in findings] == ([FindingKind.RACKS] if expected else [])


def test_a_plan_whose_partitions_are_all_at_their_target_has_nothing_to_do() -> None:
    assert _check(_plan((0, (1, 2, 3)), (1, (1, 2, 3))), _cluster()) == (
        Severity.WARNING,
        "nothing to do: every partition is at its target already (2)",
    )


def test_partitions_at_their_target_are_counted() -> None:
    finding = _only(check_plan(_plan((0, (1, 2, 3)), (1, (3, 2, 1))), _cluster()))
    assert (finding.severity, finding.kind) == (Severity.NOTE, FindingKind.AT_TARGET)
    assert finding.partitions == (_tp(0),)
    assert finding.sentence == "1 of 2 partitions are at their target already"


def test_a_partition_led_by_another_than_the_first_replica_is_not_at_its_target() -> None:
    led_by_2 = msgspec.structs.replace(_state(0), leader=2)
    assert check_plan(_plan((0, (1, 2, 3))), _cluster(led_by_2)) == ()


def test_a_partition_that_is_being_moved_is_not_at_its_target() -> None:
    listed = {_tp(0): Reassignment((1, 2, 3, 4), (1,), (4,))}
    cluster = msgspec.structs.replace(_cluster(), listed=listed)
    kinds = {finding.kind for finding in check_plan(_plan((0, (1, 2, 3))), cluster)}
    assert kinds == {FindingKind.FOREIGN_REASSIGNMENT}


def test_problems_come_first_then_warnings_then_notes() -> None:
    plan = _plan((0, (1, 2, 3)), (1, (1, 4, 3)), (2, (9, 2, 3)))
    severities = [finding.severity for finding in check_plan(plan, _cluster())]
    assert severities == [Severity.PROBLEM, Severity.WARNING, Severity.NOTE]


def test_the_options_are_spelt_as_on_the_command_line() -> None:
    assert [str(option) for option in Option] == [
        "--allow-replication-factor-change",
        "--allow-below-min-isr",
        "--allow-slow",
    ]


def test_a_mistake_of_many_partitions_is_one_finding_with_all_of_them() -> None:
    states = [_state(number) for number in range(1234)]
    plan = _plan(*((state.tp.partition, (1, 2, 3, 5)) for state in states))
    finding = _only(check_plan(plan, _cluster(*states)))
    assert finding.partitions == tuple(state.tp for state in states)
    assert finding.sentence == (
        "the replication factor changes from 3 to 4: orders-0, orders-1, orders-2 and 1,231 more"
    )


def test_findings_have_their_place_in_the_file() -> None:
    text = b"""{"version": 1, "partitions": [
  {"topic": "orders", "partition": 1, "replicas": [4, 2, 3]},
  {"partition": 77, "topic": "orders", "replicas": [1, 2, 3]},
  {"topic": "orders", "partition": 0,
   "original_replicas": [3, 2, 1], "repl\\u0069cas": [5, 2,
     9]},
  {"topic": "nope", "partition": 0, "replicas": [1, 2, 3]}
]}"""
    findings = check_plan(read_plan(text), _cluster(racks=dict.fromkeys(RACKS)))
    assert {finding.kind: finding.place for finding in findings} == {
        FindingKind.PARTITION_UNKNOWN: FilePosition(3, 17, "partitions[1].partition"),
        FindingKind.BROKER_UNKNOWN: FilePosition(6, 6, "partitions[2].replicas[2]"),
        FindingKind.ORIGINAL_DIFFERS: FilePosition(5, 25, "partitions[2].original_replicas"),
        FindingKind.TOPIC_UNKNOWN: FilePosition(7, 13, "partitions[3].topic"),
    }


def test_findings_of_a_plan_without_a_file_have_no_place() -> None:
    assert _only(check_plan(_plan((0, (1, 2, 9))), _cluster())).place is None


def test_a_finding_about_a_whole_partition_is_placed_at_the_start_of_its_object() -> None:
    plan = read_plan(
        json.dumps(
            {
                "version": 1,
                "partitions": [
                    {"topic": "orders", "partition": 1, "replicas": [4, 2, 3]},
                    {"topic": "orders", "partition": 0, "replicas": [1, 2, 3]},
                ],
            },
            indent=2,
        ).encode()
    )
    finding = _only(check_plan(plan, _cluster()))
    assert finding.place == FilePosition(13, 5, "partitions[1]")
