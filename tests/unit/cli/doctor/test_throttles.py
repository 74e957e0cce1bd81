"""The doctor finds the throttles that nobody needs any more, and tells them from the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.doctor.findings import Level
from ktui.cluster.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import EngineLeft
from ktui.simulated import events
from support.cli.throttle_ward import (
    BROKER_4,
    BROKER_5,
    EVERY_BROKER,
    ORDERS,
    PAYMENTS,
    SET,
    Ward,
)


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ward:
    return Ward(tmp_path, monkeypatch)


async def test_a_cluster_without_throttles_gets_good_news(ward: Ward) -> None:
    (found,) = await ward.findings()

    assert (found.level, found.what) == (Level.GOOD, "no replication throttle is left behind")


async def test_rates_and_lists_of_which_nothing_moves_are_found(ward: Ward) -> None:
    ward.left_behind()
    ward.given(BROKER_5, FOLLOWER_RATE, "7000000")
    ward.given(BROKER_5, LEADER_RATE, "1000")

    follower, leader, listed = await ward.findings()

    assert {f.level for f in (leader, follower, listed)} == {Level.WARNING}
    assert leader.what == f"{LEADER_RATE} is set on broker 5 (1.0 kB/s), and nothing moves"
    assert follower.what == (
        f"{FOLLOWER_RATE} is set on broker 4 (50 MB/s) and broker 5 (7.0 MB/s), and nothing moves"
    )
    assert listed.what == (
        "throttled replicas that are not being added are listed for topic orders"
    )
    assert all("--clear-throttles --dry-run" in f.fix for f in (leader, follower, listed))


async def test_what_a_move_in_flight_needs_is_not_called_left_behind(ward: Ward) -> None:
    ward.moves("orders", 0, 4, 2, 3)
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4")
    ward.given(ORDERS, LEADER_REPLICAS, "0:1,0:2")

    assert [finding.level for finding in await ward.findings()] == [Level.GOOD]


async def test_entries_that_are_not_being_added_are_found_beside_those_that_are(
    ward: Ward,
) -> None:
    ward.moves("orders", 0, 4, 2, 3)
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4,1:4,0:2")

    (found,) = await ward.findings()

    assert "listed for topic orders" in found.what


async def test_a_whole_topic_that_is_throttled_is_found(ward: Ward) -> None:
    ward.given(PAYMENTS, FOLLOWER_REPLICAS, "*")

    (found,) = await ward.findings()

    assert found.what == "every replica of topic payments is throttled (*), and nothing moves"


async def test_a_run_that_waits_for_resume_is_named_and_the_way_is_to_resume_it(
    ward: Ward,
) -> None:
    ward.a_run(EngineLeft(reason="its process got SIGTERM"))
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4")

    (found,) = await ward.findings()

    assert found.what == (
        "run drain-b3 has no engine, and its throttle is still set on broker 4 and topic orders"
    )
    assert "`ktui resume drain-b3`" in found.fix


async def test_what_a_live_run_has_set_is_nobodys_left_behind(ward: Ward) -> None:
    run = ward.a_run()
    ward.given(BROKER_4, FOLLOWER_RATE, SET[0])
    ward.given(ORDERS, FOLLOWER_REPLICAS, "0:4")

    with own_run(run):
        found = await ward.findings()

    assert [finding.level for finding in found] == [Level.GOOD]


async def test_settings_of_a_file_or_of_every_broker_are_told_with_where_they_come_from(
    ward: Ward,
) -> None:
    ward.cluster(broker_configs={LEADER_RATE: "9000"})
    ward.given(EVERY_BROKER, FOLLOWER_RATE, "5000")

    file, every = await ward.findings()

    assert {file.level, every.level} == {Level.NOTE}
    assert f"{LEADER_RATE} is 9000 from its file on brokers 1, 2" in file.what
    assert "server.properties" in file.fix
    assert f"{FOLLOWER_RATE} is 5000 from the setting of every broker on" in every.what
    assert "--entity-default" in every.fix


async def test_a_throttle_of_moves_between_log_dirs_is_told_for_they_are_not_seen(
    ward: Ward,
) -> None:
    ward.given(BROKER_4, LOG_DIR_RATE, "1000000")

    (found,) = await ward.findings()

    assert (found.level, found.what) == (
        Level.NOTE,
        f"{LOG_DIR_RATE} is set on broker 4 (1.0 MB/s)",
    )


async def test_a_broker_that_does_not_tell_its_settings_is_named(ward: Ward) -> None:
    ward.patient.do(events.Hang(4))

    (found,) = await ward.findings()

    assert found.what.startswith("could not read: broker 4: ")
