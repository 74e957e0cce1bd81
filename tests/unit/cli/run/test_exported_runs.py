"""A run is exported from a state directory, and can no longer run there."""

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
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import Configure, Ended, Exported
from ktui.execution.run.states import State
from support.cli.two_hosts import RATE, TwoHosts, assert_owned, folded_run, words
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
def test_an_exported_run_refuses_every_verb_where_it_was(
    hosts: TwoHosts, verb: tuple[str, ...]
) -> None:
    hosts.run()
    hosts.export()

    refused = words(hosts.ktui(*verb))

    assert f"was exported to {hosts.file}, and goes on where that is imported" in refused
    assert not hosts.engines


def test_runs_and_status_show_an_exported_run_as_exported(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()

    runs = json.loads(hosts.ktui("runs", "--json").output)["runs"]
    status = hosts.ktui("status", "drain").output

    assert [run["state"] for run in runs] == ["exported"]
    assert f"exported it to {hosts.file}: it goes on where that is imported" in status
    assert "ktui resume" not in status


def test_a_live_run_is_not_exported(hosts: TwoHosts) -> None:
    run = hosts.run()

    with own_run(run) as owned:
        refused = words(hosts.export())

    assert "run drain is owned by process" in refused
    assert f"Have the engine leave it: kill {owned.holder.pid}" in refused

    assert not hosts.file.exists()
    assert folded_run(hosts.here).exported is None


def test_an_ended_run_is_not_exported(hosts: TwoHosts) -> None:
    hosts.run(Ended(counts={State.DONE: 2}))

    assert "has ended. Nothing of it is left to do elsewhere" in words(hosts.export())


def test_an_export_overwrites_no_file(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.file.write_text("mine")

    assert "exists already. Name another file" in words(hosts.export())
    assert hosts.file.read_text() == "mine"
    assert folded_run(hosts.here).exported is None


def test_an_export_is_refused_while_another_run_is_live_on_the_cluster(
    hosts: TwoHosts,
) -> None:
    hosts.run()
    other = hosts.run(name="other")

    with own_run(other):
        refused = words(hosts.export())

    assert "run other, owned by process" in refused
    assert "is live on the cluster" in refused
    assert folded_run(hosts.here).exported is None


def test_an_export_is_refused_while_another_run_has_left_its_throttle(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.run(Configure(changes=(RATE,)), name="other")

    assert "run other has left its throttle on broker 4" in words(hosts.export())
    assert not hosts.file.exists()


def test_an_exported_run_can_be_exported_again_after_its_file_is_lost(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    hosts.file.unlink()

    assert hosts.export().exit_code == 0
    assert hosts.take().exit_code == 0
    assert folded_run(hosts.there).exported is None


@pytest.mark.parametrize("file_name", ["no/such/folder.run", "n" * 300, "a-link.run"])
def test_an_export_to_a_file_that_cannot_be_created_leaves_the_run_as_it_was(
    hosts: TwoHosts, tmp_path: Path, file_name: str
) -> None:
    hosts.run()
    hosts.resume(hosts.here)
    (tmp_path / "a-link.run").symlink_to("nowhere")

    refused = words(hosts.ktui("runs", "export", "drain", str(tmp_path / file_name)))

    assert str(tmp_path / file_name) in refused
    assert "Name another file" in refused
    assert folded_run(hosts.here).exported is None
    assert_owned(hosts.standing)


def test_resuming_an_exported_run_shows_how_to_export_it_again(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    hosts.file.unlink()

    assert "ktui runs export drain FILE" in words(hosts.resume(hosts.here))


def test_a_run_of_an_unreachable_cluster_is_exported_only_without_ownership(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> None:
        raise Unreachable("asking for the brokers")

    monkeypatch.setattr("ktui.cli.run.hand_over.check_cluster", unreachable)
    hosts.run()

    refused = words(hosts.export())

    assert "asking for the brokers: no answer" in refused
    assert "--no-ownership" in refused
    assert folded_run(hosts.here).exported is None
    assert hosts.export("--no-ownership").exit_code == 0


def test_exporting_a_run_of_someone_elses_cluster_warns_and_leaves_their_claim(
    hosts: TwoHosts,
) -> None:
    hosts.run()
    hosts.claimed_by("bob")

    exported = hosts.export()

    assert "bob on ops1" in exported.stderr
    assert "import" in exported.stdout
    assert "--take-over" in exported.stdout
    assert_owned(hosts.standing)


def test_exporting_a_run_twice_records_one_export(hosts: TwoHosts, tmp_path: Path) -> None:
    run = hosts.run()
    hosts.export()
    hosts.ktui("runs", "export", "drain", str(tmp_path / "again.run"))

    with RunFollower(run.journal) as follower:
        kinds = [type(entry.event) for entry in follower.refresh()]
    assert kinds.count(Exported) == 1


def test_a_damaged_run_is_not_exported_until_it_is_recovered(hosts: TwoHosts) -> None:
    run = hosts.run(step(0))
    intact = run.journal.read_bytes()
    at = intact.rindex(b"adding")
    run.journal.write_bytes(intact[:at] + b"A" + intact[at + 1 :])

    assert "ktui resume drain` recovers what is whole" in words(hosts.export())
    assert not hosts.file.exists()


def test_resuming_a_run_that_is_exported_meanwhile_starts_no_engine(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.run()
    original_check = check_cluster

    async def export_meanwhile(*cluster: Any) -> None:
        await original_check(*cluster)
        with ThreadPoolExecutor(1) as executor:
            assert executor.submit(hosts.export).result().exit_code == 0

    monkeypatch.setattr("ktui.cli.start.follow.check_cluster", export_meanwhile)

    assert "was exported to" in words(hosts.resume(hosts.here))

    assert not hosts.engines
    assert hosts.standing == Unowned()
