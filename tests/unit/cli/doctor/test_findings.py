"""`ktui doctor`: what it finds, and how to mend it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cli.doctor_findings import (
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
from ktui.cluster.settings import FOLLOWER_RATE, LEADER_RATE
from ktui.execution.forecast.run_progress import RunProgress
from ktui.execution.host.catalog import RunState
from ktui.progress.memory import Health
from support.cli.throttle_sandbox import EVERY_BROKER, ThrottleSandbox
from support.journals.journals import owner

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
            facts(out_of_reach=frozenset({"orders"})),
            Level.TROUBLE,
            "the metadata shows topic orders, and brokers that are asked about it know no such",
        ),
        (facts(health={Health.OFFLINE: 2}), Level.TROUBLE, "2 partitions offline"),
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
            facts(replication_factors={"orders": 2}),
            Level.WARNING,
            "no replica to spare for topic orders",
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
