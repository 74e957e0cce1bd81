"""`ktui doctor`: what it finds, and how to mend it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cli.doctor.findings import (
    DoctorFacts,
    DoctorFinding,
    Level,
    judge_cluster,
    judge_extra_replicas,
    judge_mixed_factors,
    judge_ownership,
)
from ktui.cluster.broker import Broker, BrokerConfig, LogDir, TopicConfig
from ktui.cluster.ownership import (
    ClaimPreview,
    ClaimStatus,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    Unowned,
)
from ktui.cluster.partition import TopicPartition
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from ktui.execution.forecast.run_progress import RunProgress
from ktui.execution.host.catalog import RunState
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import EngineLeft
from ktui.progress.memory import Health
from ktui.simulated import layout
from support.cli.throttle_sandbox import (
    BROKER_3,
    BROKER_4,
    BROKER_5,
    EVERY_BROKER,
    ORDERS,
    PAYMENTS,
    SET,
    ThrottleSandbox,
)
from support.journals.journals import owner

ORDERS_0 = TopicPartition("orders", 0)
HEALTHY = DoctorFacts(
    brokers={b: Broker(b, "h", 9092) for b in (1, 2, 3)},
    log_dirs=(LogDir(1, "/data", None, 1000, 500),),
    broker_configs={
        b: BrokerConfig(auto_leader_rebalance=False, fetch_backoff_ms=100) for b in (1, 2, 3)
    },
    topic_configs={"orders": TopicConfig(min_insync_replicas=2)},
    replication_factors={"orders": 3},
    health={Health.OK: 12},
)


def facts(**more: object) -> DoctorFacts:
    return msgspec.structs.replace(HEALTHY, **more)


def bad(found: list[DoctorFinding]) -> list[DoctorFinding]:
    return [finding for finding in found if finding.level is not Level.GOOD]


def test_a_healthy_cluster_gets_only_good_findings() -> None:
    assert bad(judge_cluster(facts())) == []


@pytest.mark.parametrize(
    ("given", "level", "words"),
    [
        (
            facts(brokers=dict(HEALTHY.brokers) | {3: Broker(3, alive=False)}),
            Level.TROUBLE,
            "down: broker 3 (2 of 3 are up)",
        ),
        (
            facts(out_of_reach=frozenset({"orders"})),
            Level.TROUBLE,
            "the metadata shows topic orders, and brokers that are asked about it know no such",
        ),
        (facts(health={Health.OFFLINE: 2}), Level.TROUBLE, "2 partitions offline"),
        (facts(health={Health.UNDER_MIN_ISR: 1}), Level.TROUBLE, "1 partition under min ISR"),
        (
            facts(health={Health.UNDER_REPLICATED: 1200}),
            Level.WARNING,
            "1,200 partitions under-replicated",
        ),
        (
            facts(log_dirs=(LogDir(2, "/d", "KAFKA_STORAGE_ERROR"),)),
            Level.TROUBLE,
            "broker 2, /d: log dir offline (KAFKA_STORAGE_ERROR)",
        ),
        (
            facts(log_dirs=(LogDir(2, "/d", None, 100, 10),)),
            Level.WARNING,
            "broker 2, /d: 90% full",
        ),
        (
            facts(log_dirs=(LogDir(2, "/d", cordoned=True),)),
            Level.NOTE,
            "log dir cordoned",
        ),
        (
            facts(moving=frozenset({ORDERS_0})),
            Level.WARNING,
            "1 partition being reassigned now, of topic orders",
        ),
        (
            facts(broker_configs={1: BrokerConfig(unclean_leader_election=True)}),
            Level.WARNING,
            "unclean.leader.election.enable=true on broker 1",
        ),
        (
            facts(
                broker_configs={
                    1: BrokerConfig(
                        auto_leader_rebalance=True, leader_imbalance_check_interval_s=300
                    )
                }
            ),
            Level.NOTE,
            "elects preferred leaders every 300 s",
        ),
        (
            facts(broker_configs={1: BrokerConfig(fetch_backoff_ms=1000)}),
            Level.NOTE,
            "replica.fetch.backoff.ms=1000",
        ),
        (
            facts(replication_factors={"orders": 2}),
            Level.WARNING,
            "no replica to spare for topic orders",
        ),
        (
            facts(topic_configs={"orders": TopicConfig(1)}),
            Level.NOTE,
            "min.insync.replicas=1 for topic",
        ),
        (
            facts(topic_configs={"__CruiseControlMetrics": TopicConfig()}),
            Level.NOTE,
            "Cruise Control's topics exist",
        ),
    ],
)
def test_each_danger_to_a_reassignment_is_named(
    given: DoctorFacts, level: Level, words: str
) -> None:
    matching = [f for f in bad(judge_cluster(given)) if words in f.what]

    assert [f.level for f in matching] == [level]


def test_facts_that_could_not_be_read_are_reported() -> None:
    found = bad(judge_cluster(facts(unread=("broker 3: log dirs: no answer in time",))))

    assert [f.what for f in found] == ["could not read: broker 3: log dirs: no answer in time"]


def test_the_doctor_judges_nothing_that_it_could_not_read() -> None:
    blind = DoctorFacts(
        brokers=HEALTHY.brokers,
        moving=None,
        broker_configs={},
        topic_configs={},
        replication_factors={"orders": 3},
        unread=("listing reassignments: not authorized",),
    )

    assert [f.what for f in judge_cluster(blind)] == [
        "could not read: listing reassignments: not authorized",
        "all 3 brokers are up",
        "what is being reassigned cannot be listed",
    ]


def test_a_cluster_whose_reassignments_cannot_be_listed_is_bad_as_no_run_can_work_there() -> None:
    (found,) = bad(judge_cluster(facts(moving=None)))

    assert found.level is Level.TROUBLE
    assert "a proxy on the way may not pass the request on" in found.fix


def test_a_long_list_of_brokers_is_cut_and_the_rest_counted() -> None:
    brokers = {b: Broker(b, alive=False) for b in range(1, 10)}

    found = judge_cluster(facts(brokers=brokers))

    assert any("down: brokers 1, 2, 3, 4, 5 and 4 more (0 of 9 are up)" in f.what for f in found)


def test_a_single_replica_topic_gets_no_warning_of_no_spare_replica() -> None:
    assert bad(judge_cluster(facts(replication_factors={"orders": 1}))) == []


def test_partitions_at_rest_with_another_number_of_replicas_than_their_topic_are_found() -> None:
    (found,) = judge_mixed_factors({"orders": {3: 47, 4: 13}}, ())

    assert found.level is Level.WARNING
    assert found.what == (
        "topic orders has 47 partitions with 3 replicas, and 13 partitions with 4, at rest"
    )
    assert "ktui cancel RUN --rollback --all" in found.fix


def test_extra_replicas_beside_a_live_run_are_no_warning() -> None:
    (found,) = judge_mixed_factors({"orders": {3: 47, 4: 13}}, {"drain"})

    assert found.level is Level.NOTE
    assert found.fix.startswith("run drain may hold extra replicas until a cut")


def test_a_killed_run_whose_partitions_keep_an_extra_replica_is_named_with_the_way_out() -> None:
    words = "13 partitions have more replicas than before and after the run"
    waits = RunProgress(name="drain", state=RunState.RESUMABLE, extra_replicas=words)
    usual = RunProgress(name="other", state=RunState.RESUMABLE)

    (found,) = judge_extra_replicas([usual, waits])

    assert found.what == f"run drain has no engine: {words}"
    assert "`ktui resume drain`" in found.fix


PREVIEW = ClaimPreview(
    groups=("ktui-a", "ktui-a-engine"),
    topic="__consumer_offsets",
    makes_topic=False,
    permission='Read on the groups with the prefix "ktui-"',
    permitted=True,
)
BOB = owner("bob")


def found(
    standing: ClaimStatus = Unowned(),  # noqa: B008 - it is frozen
    *,
    off: bool = False,
    **preview: Any,
) -> list[DoctorFinding]:
    return judge_ownership(standing, msgspec.structs.replace(PREVIEW, **preview), off=off)


@pytest.mark.parametrize(
    ("standing", "level", "words"),
    [
        (Unowned(), Level.GOOD, "nobody owns the cluster"),
        (OwnedHere(BOB), Level.GOOD, "this state directory owns the cluster: bob on ops1"),
        (OwnedByOthers(BOB, lives=False), Level.WARNING, "bob on ops1 (run orders, since "),
        (OwnedByOthers(BOB, lives=True), Level.WARNING, "its engine is alive"),
        (OwnerUnknown("no coordinator"), Level.WARNING, "no coordinator"),
    ],
)
def test_the_doctor_reports_the_owner_of_the_cluster_first(
    standing: ClaimStatus, level: Level, words: str
) -> None:
    first = found(standing)[0]

    assert first.level is level
    assert words in first.what


def test_the_doctor_reports_another_owner_with_the_way_to_take_over() -> None:
    assert "--take-over" in found(OwnedByOthers(BOB, lives=True))[0].fix


@pytest.mark.parametrize(
    ("makes_topic", "words"),
    [
        (True, "brokers create __consumer_offsets for them"),
        (None, "brokers create __consumer_offsets if it does not exist"),
    ],
)
def test_the_doctor_reports_the_groups_and_the_topic_that_a_run_creates(
    *, makes_topic: bool | None, words: str
) -> None:
    what = found(makes_topic=makes_topic)[1].what

    assert "ktui-a and ktui-a-engine" in what
    assert words in what
    assert "__consumer_offsets" not in found()[1].what


def test_a_missing_group_permission_is_reported_with_its_grant_and_the_way_without() -> None:
    for finding in (found(permitted=False)[-1], found(OwnerUnknown("denied", denied=True))[0]):
        assert finding.level is Level.WARNING
        assert "kafka-acls --add --operation Read --group ktui-" in finding.fix
        assert "ownership: off" in finding.fix


def test_the_doctor_notes_ownership_that_is_off_instead_of_its_needs() -> None:
    _, off = found(off=True, permitted=False)

    assert off.level is Level.NOTE
    assert "ownership is off" in off.what


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ThrottleSandbox:
    return ThrottleSandbox(tmp_path, monkeypatch)


async def test_a_cluster_without_throttles_is_good(sandbox: ThrottleSandbox) -> None:
    (found,) = await sandbox.findings()

    assert (found.level, found.what) == (Level.GOOD, "no replication throttle is left behind")


async def test_rates_and_lists_are_found_where_nothing_moves(sandbox: ThrottleSandbox) -> None:
    sandbox.left_behind()
    sandbox.given(BROKER_5, FOLLOWER_RATE, "7000000")
    sandbox.given(BROKER_5, LEADER_RATE, "1000")

    follower, leader, listed = await sandbox.findings()

    assert {f.level for f in (leader, follower, listed)} == {Level.WARNING}
    assert leader.what == f"{LEADER_RATE} is set on broker 5 (1.0 kB/s), and nothing moves"
    assert follower.what == (
        f"{FOLLOWER_RATE} is set on broker 4 (50 MB/s) and broker 5 (7.0 MB/s), and nothing moves"
    )
    assert listed.what == (
        "throttled replicas that are not being added are listed for topic orders"
    )
    assert all("--clear-throttles --dry-run" in f.fix for f in (leader, follower, listed))


async def test_throttles_that_a_move_in_flight_needs_are_not_reported(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.moves("orders", 0, 4, 2, 3)
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4")
    sandbox.given(ORDERS, LEADER_REPLICAS, "0:1,0:2")

    assert [finding.level for finding in await sandbox.findings()] == [Level.GOOD]


async def test_list_entries_of_replicas_not_being_added_are_found_beside_needed_ones(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.moves("orders", 0, 4, 2, 3)
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4,1:4,0:2")

    (found,) = await sandbox.findings()

    assert "listed for topic orders" in found.what


async def test_a_topic_with_every_replica_throttled_is_found(sandbox: ThrottleSandbox) -> None:
    sandbox.given(PAYMENTS, FOLLOWER_REPLICAS, "*")

    (found,) = await sandbox.findings()

    assert found.what == "every replica of topic payments is throttled (*), and nothing moves"


async def test_a_throttle_under_which_a_broker_catches_up_is_in_use(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.comes_back_behind(3)
    sandbox.given(BROKER_3, FOLLOWER_RATE, "1000000")
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "*")

    (found,) = await sandbox.findings()

    assert found.level is Level.NOTE
    assert found.what == (
        "broker 3 is catching up on 2 partitions of topic orders, throttled to 1.0 MB/s by "
        f"{FOLLOWER_RATE} on broker 3"
    )
    assert "Once the replicas are in sync, `ktui doctor --clear-throttles` removes it" in found.fix


async def test_a_rate_for_every_broker_is_named_where_it_slows_down_a_recovery(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.comes_back_behind(3)
    sandbox.given(EVERY_BROKER, LEADER_RATE, "5000000")
    sandbox.given(ORDERS, LEADER_REPLICAS, "0:1,0:2")

    recovery, inherited = await sandbox.findings()

    assert recovery.what == (
        "broker 3 is catching up on 1 partition of topic orders, throttled to 5.0 MB/s by "
        f"{LEADER_RATE} on broker 1"
    )
    assert "--clear-throttles keeps it" in inherited.fix


async def test_a_rate_that_binds_no_listed_replica_is_left_behind_while_others_catch_up(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.comes_back_behind(3)
    sandbox.given(BROKER_5, FOLLOWER_RATE, "1000000")
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "*")

    levels = {finding.level for finding in await sandbox.findings()}

    assert levels == {Level.NOTE, Level.WARNING}


async def test_a_broker_that_is_down_is_named_since_its_throttles_cannot_be_read(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.goes_down(3)

    (found,) = await sandbox.findings()

    assert found.what == "could not read the throttles of broker 3, which is down"


async def test_the_throttle_of_a_run_that_waits_for_resume_is_reported_with_the_resume(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.a_run(EngineLeft(reason="its process got SIGTERM"))
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4")

    (found,) = await sandbox.findings()

    assert found.what == (
        "run drain-b3 has no engine, and its throttle is still set on broker 4 and topic orders"
    )
    assert "`ktui resume drain-b3`" in found.fix


async def test_the_throttle_of_a_live_run_is_not_reported(sandbox: ThrottleSandbox) -> None:
    run = sandbox.a_run()
    sandbox.given(BROKER_4, FOLLOWER_RATE, SET[0])
    sandbox.given(ORDERS, FOLLOWER_REPLICAS, "0:4")

    with own_run(run):
        found = await sandbox.findings()

    assert [finding.level for finding in found] == [Level.GOOD]


async def test_throttles_of_a_file_or_of_every_broker_are_reported_with_their_source(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.cluster(broker_configs={LEADER_RATE: "9000"})
    sandbox.given(EVERY_BROKER, FOLLOWER_RATE, "5000")

    file, every = await sandbox.findings()

    assert {file.level, every.level} == {Level.NOTE}
    assert f"{LEADER_RATE} is 9000 from its file on brokers 1, 2" in file.what
    assert "server.properties" in file.fix
    assert f"{FOLLOWER_RATE} is 5000 from the setting of every broker on" in every.what
    assert "--entity-default" in every.fix


async def test_a_throttle_of_log_dir_moves_is_noted_as_ktui_cannot_see_such_moves(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.given(BROKER_4, LOG_DIR_RATE, "1000000")

    (found,) = await sandbox.findings()

    assert (found.level, found.what) == (
        Level.NOTE,
        f"{LOG_DIR_RATE} is set on broker 4 (1.0 MB/s)",
    )


async def test_a_broker_that_does_not_return_its_settings_is_named(
    sandbox: ThrottleSandbox,
) -> None:
    sandbox.patient.do(layout.Hang(4))

    (found,) = await sandbox.findings()

    assert found.what.startswith("could not read: broker 4: ")
