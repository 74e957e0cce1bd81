"""The doctor finds the throttles that no move needs, and distinguishes them from the others."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.doctor.findings import Level
from ktui.cluster.settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import EngineLeft
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
