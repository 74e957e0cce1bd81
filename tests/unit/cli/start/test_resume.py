"""`ktui resume` goes on with the right run, on the right cluster, and with nothing else."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.context.target import choose_target
from ktui.cli.main import ktui
from ktui.cli.process.launch import Launch, resume_command
from ktui.cluster.clock import SystemClock
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.journal import Journal
from ktui.execution.run.cancel_kind import CancelKind
from ktui.execution.run.events import AnyRunEvent, Ended, EngineLeft, Owned, StateEntered
from ktui.execution.run.states import State
from support.cli.named_cluster import NamedCluster
from support.journals.journals import over, planned, started, step, written
from support.simulated.moving_clusters import a_cluster

UNTIL = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)


class Spawned(Exception):
    """An engine would have been started."""


class Office:
    """A state directory, a cluster, and what engines would have been started with."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = StateDir(folder / "state")
        self.cluster = a_cluster({"orders": [(1, 2, 3)]})
        self.context = Context()
        self.chosen: list[tuple[Any, ...]] = []
        self.arguments: list[str] = []
        monkeypatch.setattr("ktui.cli.context.target.choose_cluster", self._choose)
        self.unverified: tuple[str, ...] = ()
        monkeypatch.setattr("ktui.cli.process.launch.start_engine", self._spawn)

    def _choose(self, *names: Any) -> Any:
        self.chosen.append(names)
        return NamedCluster(
            name="prod",
            reader=self.cluster.reader,
            context=self.context,
            unverified=self.unverified,
        )

    def _spawn(self, _run: RunDir, arguments: list[str]) -> None:
        self.arguments = arguments
        raise Spawned

    def run(self, *more: AnyRunEvent, cluster_id: str = "simulated", **connection: str) -> RunDir:
        run = self.state.create_run("drain")
        begun = msgspec.structs.replace(started(2, cluster_id), connection=connection)
        written(run.journal, [begun, planned(2), *more]).close()
        return run

    def resume(self, *options: str, name: str = "drain") -> Result:
        words = ["resume", name, "--state-dir", str(self.state.path), *options]
        return CliRunner().invoke(ktui, words)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    for name in ("KTUI_BOOTSTRAP_SERVER", "KTUI_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return Office(tmp_path, monkeypatch)


def test_it_goes_on_where_the_run_was_started_unless_told_otherwise(office: Office) -> None:
    office.run(bootstrap_server="b1:9092", command_config="/etc/client.properties")

    assert isinstance(office.resume().exception, Spawned)
    assert office.chosen.pop() == ("b1:9092", Path("/etc/client.properties"), None)
    assert office.arguments[:2] == ["engine", "drain"]
    assert office.arguments[4:] == [
        *("--bootstrap-server", "b1:9092"),
        *("--command-config", "/etc/client.properties"),
    ]

    assert isinstance(office.resume("--context", "new").exception, Spawned)
    assert office.chosen.pop() == (None, None, "new")
    assert office.arguments[4:] == ["--context", "new"]


def test_it_is_said_that_the_end_given_with_until_before_holds_no_more(office: Office) -> None:
    owned = Owned(pid=1, host="ops1", user="ada", until=UNTIL)
    office.run(owned, EngineLeft(reason="the time has come"))

    dropped = office.resume()
    given = office.resume("--until", "2099-01-01T10:00")

    when = UNTIL.astimezone().isoformat(" ", timespec="seconds")
    assert f"its --until {when} no longer holds" in dropped.stderr
    assert "no longer holds" not in given.stderr
    assert "--until" in office.arguments


def test_whoever_resumes_is_told_what_tls_does_not_verify(office: Office) -> None:
    office.run(context="prod")
    office.unverified = ("config.yaml: ssl.this=none: whoever",)

    told = office.resume()

    assert "warning: TLS unverified: config.yaml: ssl.this=none: whoever\n" in told.stderr
    assert isinstance(told.exception, Spawned)


def test_a_run_of_another_cluster_is_refused_with_both_named(office: Office) -> None:
    office.run(cluster_id="elsewhere", context="prod")

    error = office.resume().exception

    assert isinstance(error, RunRefused)
    assert "prod is cluster simulated, but the run belongs to cluster elsewhere" in str(error)
    assert office.arguments == []


def test_a_run_that_lives_is_refused_and_told_who_holds_it(office: Office) -> None:
    with own_run(office.run(context="prod")) as owned:
        error = office.resume().exception

    assert isinstance(error, RunRefused)
    assert f"run drain is owned by {owned.holder}" in str(error)


def test_of_two_that_resume_a_run_at_once_one_is_told_that_the_other_holds_it(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, owned = office.run(context="prod"), []

    async def the_other_is_faster(*_: object) -> None:
        owned.append(own_run(run))

    monkeypatch.setattr("ktui.cli.start.resume.check_cluster", the_other_is_faster)
    error = office.resume("--concurrent").exception

    assert isinstance(error, RunRefused)
    assert f"run drain is owned by {owned[0].holder}" in str(error)
    assert office.arguments == []
    owned[0].release()


@pytest.mark.parametrize(("last", "code"), [(State.DONE, 0), (State.FAILED, 3)])
def test_a_run_that_has_ended_says_how(office: Office, last: State, code: int) -> None:
    first = StateEntered(topic="orders", partition=0, state=State.DONE)
    office.run(first, StateEntered(topic="orders", partition=1, state=last), Ended(counts={}))

    result = office.resume()

    assert result.exit_code == code
    assert "run drain has ended" in result.stderr
    assert office.chosen == []


def test_an_ended_run_of_which_something_was_called_off_since_goes_on(office: Office) -> None:
    moved = [event for n in range(2) for event in (step(n), over(n))]
    done = [StateEntered(topic="orders", partition=n, state=State.DONE) for n in range(2)]
    run = office.run(*moved, *done, Ended(counts={}), context="prod")
    with Journal.open(run.journal, SystemClock()) as journal:
        journal.ask(CancelMoves(CancelKind.STOP), "ada@ops1 (1)")
        assert office.resume().exit_code == 0
        journal.ask(CancelMoves(CancelKind.ROLLBACK), "ada@ops1 (1)")

    assert isinstance(office.resume().exception, Spawned)


def test_in_a_read_only_context_nothing_is_resumed(office: Office) -> None:
    office.run(context="prod")
    office.context = Context(read_only=True)

    assert "context prod is read_only" in str(office.resume().exception)


def test_a_run_whose_start_was_cut_off_is_not_resumed(office: Office) -> None:
    run = office.state.create_run("drain")
    written(run.journal, []).close()

    error = office.resume().exception

    assert isinstance(error, RunProblem)
    assert "the start of the run was cut off, and nothing was sent" in str(error)


def test_an_unknown_run_is_named_with_the_nearest(office: Office) -> None:
    office.run()

    assert "did you mean 'drain'?" in str(office.resume(name="drian").exception)


def test_a_process_of_its_own_is_told_names_and_absolute_paths(
    office: Office, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KTUI_BOOTSTRAP_SERVER", "b1:9092")
    where = choose_target(None, Path("client.properties"), None)

    launch = Launch(
        state=office.state,
        name="drain",
        cluster_id="id",
        names=where.names,
        until=UNTIL,
        concurrent=False,
    )

    assert launch.arguments == [
        *("engine", "drain", "--state-dir", str(office.state.path)),
        *("--bootstrap-server", "b1:9092"),
        *("--command-config", str(tmp_path / "client.properties")),
        *("--until", "2026-11-21T15:00:00+00:00"),
        "--no-ownership",
    ]


def test_the_command_to_go_on_names_the_state_directory_where_it_has_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTUI_STATE_DIR", str(tmp_path))

    assert resume_command(StateDir(tmp_path), "drain") == "ktui resume drain"
    assert resume_command(StateDir(tmp_path / "a b"), "drain") == (
        f"ktui resume drain --state-dir '{tmp_path / 'a b'}'"
    )


def test_a_resumed_run_is_recorded_as_it_was_started_unless_told_otherwise(office: Office) -> None:
    office.run(context="prod")

    assert isinstance(office.resume().exception, Spawned)
    assert not {"--record", "--no-record"} & set(office.arguments)

    assert isinstance(office.resume("--no-record").exception, Spawned)
    assert office.arguments[-1] == "--no-record"
