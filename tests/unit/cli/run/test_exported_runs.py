"""A run is exported from a state directory, and nothing goes on there."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ktui.cli.context.cluster import check_cluster
from ktui.cluster.errors import Unreachable
from ktui.cluster.ownership import Unowned
from ktui.execution.host.ownership import own_run
from ktui.execution.journal.follower import RunFollower
from ktui.execution.run.events import Configure, Ended, Exported
from ktui.execution.run.states import State
from support.cli.two_hosts import RATE, TwoHosts, assert_owned, told, words
from support.journals.journals import step


@pytest.mark.parametrize(
    "verb",
    [
        ("resume", "drain"),
        ("cancel", "drain", "--stop", "--all"),
        ("pause", "drain"),
        ("limits", "drain", "--partitions", "2"),
    ],
    ids=lambda verb: verb[0],
)
def test_nothing_goes_on_where_it_was_exported(hosts: TwoHosts, verb: tuple[str, ...]) -> None:
    hosts.run()
    hosts.export()

    refused = words(hosts.ktui(*verb))

    assert f"was exported to {hosts.file}, and goes on where that is imported" in refused
    assert not hosts.engines


def test_an_exported_run_is_listed_as_such(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()

    runs = json.loads(hosts.ktui("runs", "--json").output)["runs"]
    status = hosts.ktui("status", "drain").output

    assert [run["state"] for run in runs] == ["exported"]
    assert f"exported it to {hosts.file}: it goes on where that is imported" in status
    assert "ktui resume" not in status


def test_a_run_that_is_carried_on_is_not_exported(hosts: TwoHosts) -> None:
    run = hosts.run()

    with own_run(run) as owned:
        refused = words(hosts.export())

    assert "run drain is owned by process" in refused
    assert f"Have the engine leave it: kill {owned.holder.pid}" in refused

    assert not hosts.file.exists()
    assert told(hosts.here).exported is None


def test_a_run_that_has_ended_is_not_exported(hosts: TwoHosts) -> None:
    hosts.run(Ended(counts={State.DONE: 2}))

    assert "has ended. Nothing of it is left to carry on elsewhere" in words(hosts.export())


def test_nothing_is_written_over(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.file.write_text("mine")

    assert "exists already. Name another file" in words(hosts.export())
    assert hosts.file.read_text() == "mine"
    assert told(hosts.here).exported is None


def test_a_cluster_is_not_given_up_while_another_run_of_the_directory_needs_it(
    hosts: TwoHosts,
) -> None:
    hosts.run()
    other = hosts.run(name="other")

    with own_run(other):
        refused = words(hosts.export())

    assert "run other, owned by process" in refused
    assert "is live on the cluster" in refused
    assert told(hosts.here).exported is None


def test_nor_while_another_run_has_left_its_throttle(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.run(Configure(changes=(RATE,)), name="other")

    assert "run other has left its throttle on broker 4" in words(hosts.export())
    assert not hosts.file.exists()


def test_a_lost_file_is_written_again(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    hosts.file.unlink()

    assert hosts.export().exit_code == 0
    assert hosts.take().exit_code == 0
    assert told(hosts.there).exported is None


@pytest.mark.parametrize("place", ["no/such/folder.run", "n" * 300, "a-link.run"])
def test_a_run_is_not_given_up_for_a_file_that_cannot_be_made(
    hosts: TwoHosts, tmp_path: Path, place: str
) -> None:
    hosts.run()
    hosts.resume(hosts.here)
    (tmp_path / "a-link.run").symlink_to("nowhere")

    refused = words(hosts.ktui("runs", "export", "drain", str(tmp_path / place)))

    assert str(tmp_path / place) in refused
    assert "Name another file" in refused
    assert told(hosts.here).exported is None
    assert_owned(hosts.standing)


def test_who_has_lost_the_file_is_told_how_to_write_it_again(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    hosts.file.unlink()

    assert "ktui runs export drain FILE" in words(hosts.resume(hosts.here))


def test_a_run_of_a_cluster_that_this_host_does_not_reach_is_exported_all_the_same(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object) -> None:
        raise Unreachable("asking for the brokers")

    monkeypatch.setattr("ktui.cli.run.hand_over.check_cluster", away)
    hosts.run()

    refused = words(hosts.export())

    assert "asking for the brokers: no answer" in refused
    assert "--no-ownership" in refused
    assert told(hosts.here).exported is None
    assert hosts.export("--no-ownership").exit_code == 0


def test_a_cluster_that_is_anothers_by_now_is_not_given_up_and_that_is_said(
    hosts: TwoHosts,
) -> None:
    hosts.run()
    hosts.claimed_by("bob")

    exported = hosts.export()

    assert "bob on ops1" in exported.stderr
    assert "import" in exported.stdout
    assert "--take-over" in exported.stdout
    assert_owned(hosts.standing)


def test_a_run_is_exported_once_however_often_its_file_is_written(
    hosts: TwoHosts, tmp_path: Path
) -> None:
    run = hosts.run()
    hosts.export()
    hosts.ktui("runs", "export", "drain", str(tmp_path / "again.run"))

    with RunFollower(run.journal) as follower:
        kinds = [type(entry.event) for entry in follower.refresh()]
    assert kinds.count(Exported) == 1


def test_a_damaged_run_is_not_exported_before_it_is_recovered(hosts: TwoHosts) -> None:
    run = hosts.run(step(0))
    whole = run.journal.read_bytes()
    at = whole.rindex(b"adding")
    run.journal.write_bytes(whole[:at] + b"A" + whole[at + 1 :])

    assert "ktui resume drain` recovers what is whole" in words(hosts.export())
    assert not hosts.file.exists()


def test_no_process_carries_on_what_was_exported_while_it_was_started(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.run()
    in_time = check_cluster

    async def meanwhile(*cluster: Any) -> None:
        await in_time(*cluster)
        with ThreadPoolExecutor(1) as beside:
            assert beside.submit(hosts.export).result().exit_code == 0

    monkeypatch.setattr("ktui.cli.start.resume.check_cluster", meanwhile)

    assert "was exported to" in words(hosts.resume(hosts.here))

    assert not hosts.engines
    assert hosts.standing == Unowned()
