"""A run that was exported resumes in the state directory that imports it."""

import asyncio
import json
import random
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner

from ktui.cli.main import ktui
from ktui.cluster.ownership import OwnedHere, Unowned
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunProblem
from ktui.execution.host.hand_over import import_run, open_export
from ktui.execution.host.ownership import own_run
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import AnyRunEvent, Configure, Ended, Exported, Imported
from ktui.execution.run.states import CancelKind, State
from ktui.simulated.clock import VirtualClock
from support.cli.shell import RATE, TwoHosts, assert_owned, folded_run, words
from support.journals.journals import crashed, planned, started, step, written


class Killed(Exception):
    """The process was killed."""


def raise_killed(*_: object) -> None:
    raise Killed


def test_an_imported_run_resumes_as_it_was_exported(hosts: TwoHosts) -> None:
    hosts.run(step(0))
    assert hosts.resume(hosts.here).exit_code == 0
    assert_owned(hosts.standing)

    exported = hosts.export()

    assert exported.exit_code == 0, exported.output
    assert "1 step in flight goes on in Kafka" in exported.output
    assert "this state directory no longer owns the cluster" in exported.output
    assert f"ktui runs import {hosts.file}" in exported.output
    assert hosts.standing == Unowned()

    imported = hosts.take("--context", "prod")

    assert imported.exit_code == 0, imported.output
    assert_owned(hosts.standing)
    before, after = folded_run(hosts.here), folded_run(hosts.there)
    assert after.tracks[TopicPartition("orders", 0)] == before.tracks[TopicPartition("orders", 0)]
    assert after.started_at == before.started_at
    assert after.started is not None
    assert after.started.connection == {"context": "prod"}
    assert json.loads(hosts.there.run("drain").rollback.read_text())["partitions"]
    assert hosts.resume(hosts.there).exit_code == 0
    assert hosts.engines[-1][:4] == ["engine", "drain", "--state-dir", str(hosts.there.path)]
    assert hosts.engines[-1][4:] == ["--context", "prod"]


def test_a_copied_journal_that_was_not_exported_is_not_imported(hosts: TwoHosts) -> None:
    run = hosts.run()
    shutil.copy(run.journal, hosts.file)

    assert "is the journal of a run that was not exported" in words(hosts.take())
    assert hosts.there.run_dirs() == []
    assert hosts.standing == Unowned()


def test_a_copy_of_a_live_run_is_not_resumed(hosts: TwoHosts) -> None:
    run = hosts.run()
    shutil.copytree(run.path, hosts.here.run("copy").path)

    with own_run(run):
        refused = words(hosts.resume(hosts.here, "copy", "--concurrent"))

    assert "run copy is a copy of run drain, which is owned by process" in refused
    assert not hosts.engines


def test_an_exported_run_that_was_never_imported_can_be_imported_back(hosts: TwoHosts) -> None:
    hosts.run(step(0))
    hosts.export()

    assert hosts.take(state=hosts.here).exit_code == 0

    assert folded_run(hosts.here).exported is None
    assert hosts.resume(hosts.here).exit_code == 0


def test_a_run_imported_back_keeps_its_history_from_elsewhere(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    hosts.take()
    hosts.file.unlink()
    assert hosts.ktui("runs", "export", "drain", str(hosts.file), state=hosts.there).exit_code == 0

    assert hosts.take(state=hosts.here).exit_code == 0

    with RunFollower(hosts.here.run("drain").journal) as follower:
        kinds = [type(entry.event) for entry in follower.refresh()]
    assert kinds[2:] == [Exported, Imported, Exported, Imported]
    assert follower.damage is None


def test_an_import_keeps_a_run_of_the_same_name_and_asks_for_another_name(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    other = hosts.there.create_run("drain")
    written(other.journal, [started(1, hosts.cluster.spec.name), planned(1)]).close()
    intact = folded_run(hosts.there)

    assert "Import it under another name: --name NAME" in words(hosts.take())
    assert folded_run(hosts.there).tracks == intact.tracks
    assert hosts.take("--name", "drain-2").exit_code == 0
    assert len(folded_run(hosts.there, "drain-2").tracks) == 2


@pytest.mark.parametrize("damage", ["cut short", "another byte", "no journal", "a folder"])
def test_a_damaged_export_is_refused_with_its_file_name(hosts: TwoHosts, damage: str) -> None:
    hosts.run(*(step(0, batch=number) for number in range(1, 200)))
    hosts.export()
    intact = hosts.file.read_bytes()
    hosts.file.unlink()
    if damage == "cut short":
        hosts.file.write_bytes(intact[: len(intact) // 2])
    elif damage == "another byte":
        at = intact.rindex(b"adding")
        hosts.file.write_bytes(intact[:at] + b"A" + intact[at + 1 :])
    elif damage == "no journal":
        hosts.file.write_bytes(b"{}")
    else:
        hosts.file.mkdir()

    refused = words(hosts.take())

    assert str(hosts.file) in refused
    assert ".import-" not in refused
    assert list(hosts.there.path.glob("runs/*")) == []
    assert list(hosts.there.path.glob(".import-*")) == []
    assert hosts.standing == Unowned()


def test_a_file_with_any_changed_bytes_is_imported_or_refused(hosts: TwoHosts) -> None:
    hosts.run(step(0))
    hosts.export()
    intact = hosts.file.read_bytes()
    chance = random.Random(45)  # noqa: S311 - no secret

    refusals: list[str] = []
    for number in range(150):
        changed = bytearray(intact)
        end = len(changed) if number % 2 else 1024
        for _ in range(chance.choice((1, 3, 30))):
            changed[chance.randrange(16, end)] = chance.randrange(256)
        hosts.file.write_bytes(changed)
        try:
            with open_export(hosts.there, hosts.file, VirtualClock()) as export:
                import_run(hosts.there, export, f"drain-{number}", {}, VirtualClock())
        except RunProblem as problem:
            refusals.append(str(problem))
    assert len(refusals) > 20
    assert all(str(hosts.file) in refusal for refusal in refusals)


@pytest.mark.parametrize(
    "made",
    [
        "CREATE VIEW events AS SELECT seq, at, body, hash FROM theirs",
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, at, body, hash AS (lower(body)))",
    ],
    ids=["a view", "a computed column"],
)
def test_a_file_whose_events_are_not_a_table_of_a_journal_is_refused(
    hosts: TwoHosts, made: str
) -> None:
    hosts.run()
    hosts.export()
    with sqlite3.connect(hosts.file) as file:
        file.execute("DROP TRIGGER events_without_gaps")
        file.execute("ALTER TABLE events RENAME TO theirs")
        file.execute(made)
    file.close()

    refused = words(hosts.take())

    assert f"{hosts.file}: its events are not those of a journal" in refused
    assert "ktui runs export RUN FILE" in refused


def test_json_of_an_export_and_an_import_names_the_run_and_its_partitions(hosts: TwoHosts) -> None:
    hosts.run()

    exported = json.loads(hosts.export("--json").stdout)
    imported = json.loads(hosts.take("--json").stdout)

    assert exported == {
        "schema_version": 1,
        "run": "drain",
        "file": str(hosts.file),
        "partitions_left": 2,
        "owned": None,
    }
    assert imported == {
        "schema_version": 1,
        "run": "drain",
        "cluster_id": hosts.cluster.spec.name,
        "partitions_left": 2,
    }


def test_an_option_before_the_subcommand_is_refused(hosts: TwoHosts) -> None:
    hosts.run()
    line = ["runs", "--state-dir", str(hosts.here.path), "export", "drain", str(hosts.file)]

    refused = CliRunner().invoke(ktui, line)

    assert refused.exit_code == 2
    assert "Put --state-dir after the verb" in refused.output
    assert msgspec.json.decode(hosts.ktui("runs", "--json").output)["runs"]


def test_an_import_refused_for_its_name_takes_over_no_cluster(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export("--no-ownership")
    other = hosts.there.create_run("drain")
    written(other.journal, [started(1, hosts.cluster.spec.name), planned(1)]).close()
    bob = hosts.claimed_by("bob")

    assert "--name NAME" in words(hosts.take("--take-over"))
    assert "no run can be named" in words(hosts.take("--take-over", "--name", "a/b"))

    assert isinstance(asyncio.run(bob.check()), OwnedHere)


def test_unanswered_commands_travel_with_an_exported_run(hosts: TwoHosts) -> None:
    run = hosts.run(step(0))
    asked = CancelMoves(CancelKind.STOP, partitions=(TopicPartition("orders", 0),))
    with Journal.open(run.journal, VirtualClock()) as journal:
        journal.ask(asked, "ada@ops1 (4711)")

    hosts.export()
    hosts.take()

    imported = hosts.there.run("drain").journal
    with Journal.open(imported, VirtualClock(), read_only=True) as journal:
        assert [(each.command, each.who) for each in journal.asked()] == [
            (asked, "ada@ops1 (4711)")
        ]


def test_a_killed_import_can_be_repeated(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    hosts.there.create_run("drain")

    assert hosts.take().exit_code == 0, hosts.take().output

    assert folded_run(hosts.there).complete


@pytest.mark.parametrize("killed_at", ["the new file's place", "the folder's sync"])
def test_a_run_is_either_exported_or_imported_after_a_killed_import(
    hosts: TwoHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    run = hosts.run(step(0))
    with Journal.open(run.journal, VirtualClock()) as reading:
        assert reading.last_seq() == 3
        hosts.export()
        crashed_journal = crashed(
            run.journal, tmp_path / "left"
        )  # its end is in the write-ahead log
    for each in crashed_journal.parent.iterdir():
        shutil.copy(each, run.path)
    killed_call = "ktui.execution.host.hand_over." + (
        "sync_folder" if killed_at == "the folder's sync" else "Path.replace"
    )
    with monkeypatch.context() as kill:
        kill.setattr(killed_call, raise_killed)
        assert isinstance(hosts.take(state=hosts.here).exception, Killed)

    with RunFollower(run.journal) as follower:
        follower.refresh()
    assert follower.damage is None
    imported = follower.run.exported is None
    assert imported == (killed_at == "the folder's sync")
    assert follower.run.in_flight == 1


@pytest.mark.parametrize("ended", [False, True])
def test_an_export_is_imported_only_once_into_a_state_directory(
    hosts: TwoHosts, *, ended: bool
) -> None:
    hosts.run()
    hosts.export()
    hosts.take()
    if ended:
        with Journal.open(hosts.there.run("drain").journal, VirtualClock()) as journal:
            journal.append([Ended(counts={State.DONE: 2})])

    refused = words(hosts.take("--name", "drain-2"))

    assert "run drain is the run in this file, and is here already" in refused
    assert [run.name for run in hosts.there.run_dirs()] == ["drain"]


def test_an_exported_run_can_be_imported_back_under_another_name(hosts: TwoHosts) -> None:
    hosts.run(Configure(changes=(RATE,)))
    hosts.export()

    assert hosts.take("--name", "drain-2", state=hosts.here).exit_code == 0


def test_an_import_is_refused_on_a_nearly_full_disk(
    hosts: TwoHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.run()
    hosts.export()
    nearly_full = SimpleNamespace(free=256 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: nearly_full)

    assert "there is no room for two copies of it" in words(hosts.take())

    assert list(hosts.there.path.glob(".import-*")) == []


def test_an_import_takes_only_events_and_commands_from_its_file(hosts: TwoHosts) -> None:
    hosts.run()
    hosts.export()
    with sqlite3.connect(hosts.file) as file:
        file.execute("CREATE TRIGGER theirs AFTER INSERT ON events BEGIN DELETE FROM commands; END")
    file.close()

    hosts.take()

    with sqlite3.connect(hosts.there.run("drain").journal) as file:
        names = {name for (name,) in file.execute("SELECT name FROM sqlite_schema")}
    file.close()
    assert "events_stay" in names
    assert "theirs" not in names


@pytest.mark.parametrize("option_kind", ["context", "command_config"])
def test_an_import_does_not_send_credentials_to_brokers_named_in_its_file(
    hosts: TwoHosts, option_kind: str
) -> None:
    theirs = {"bootstrap_server": "kafka.example:9092", option_kind: "prod"}
    hosts.run(Imported(host="ops1", user="ada", connection=theirs))
    hosts.export("--context", "prod")

    refused = words(hosts.take())

    option = option_kind.replace("_", "-")
    assert f"--bootstrap-server kafka.example:9092 --{option} prod" in refused
    assert hosts.chosen == [(None, None, "prod")]
    assert hosts.there.run_dirs() == []
    assert hosts.take("--bootstrap-server", "kafka.example:9092").exit_code == 0


def test_a_live_run_without_its_journal_blocks_a_resume_with_the_reason(hosts: TwoHosts) -> None:
    hosts.run()
    gone = hosts.run(name="gone")

    with own_run(gone) as owned:
        shutil.rmtree(gone.path)
        refused = words(hosts.resume(hosts.here))
        concurrent = words(hosts.resume(hosts.here, "drain", "--concurrent"))

    assert "another run is live on this cluster: run gone, owned by" in refused
    assert f"run gone, owned by {owned.holder}, has an unreadable journal" in concurrent
    assert f"kill {owned.holder.pid}" in concurrent


def test_an_older_export_does_not_replace_a_newer_run(hosts: TwoHosts, tmp_path: Path) -> None:
    run = hosts.run()
    hosts.export()
    older = hosts.file.rename(tmp_path / "older.run")
    assert hosts.ktui("runs", "import", str(older)).exit_code == 0
    with Journal.open(run.journal, VirtualClock()) as journal:
        journal.append([step(0)])
    hosts.export()

    assert "this file does not continue it" in words(hosts.ktui("runs", "import", str(older)))

    assert folded_run(hosts.here).in_flight == 1


def test_an_import_does_not_replace_a_restored_backup(hosts: TwoHosts) -> None:
    run = hosts.run()
    backup = shutil.copytree(run.path, hosts.file.with_name("backup"))
    hosts.export()
    shutil.rmtree(run.path)
    shutil.copytree(backup, run.path)

    assert "this file does not continue it" in words(hosts.take(state=hosts.here))


def test_a_run_with_a_throttle_is_not_imported_beside_a_left_over_throttle(hosts: TwoHosts) -> None:
    hosts.run(Configure(changes=(RATE,)))
    hosts.export()
    other = hosts.there.create_run("other")
    cluster = hosts.cluster.spec.name
    crashed_journal: list[AnyRunEvent] = [
        started(2, cluster),
        planned(2),
        Configure(changes=(RATE,)),
    ]
    written(other.journal, crashed_journal).close()

    assert "run other has left its rate" in words(hosts.take())
    assert hosts.standing == Unowned()


def test_a_run_is_imported_back_while_a_reader_has_its_journal_open(hosts: TwoHosts) -> None:
    run = hosts.run(step(0))
    with Journal.open(run.journal, VirtualClock(), read_only=True) as reader:
        assert reader.last_seq() == 3
        hosts.export()
        assert hosts.take(state=hosts.here).exit_code == 0

    with RunFollower(run.journal) as follower:
        assert isinstance(follower.refresh()[-1].event, Imported)
    assert follower.damage is None
