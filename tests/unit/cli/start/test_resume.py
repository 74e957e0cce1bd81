"""`ktui resume` resumes the right run, on the right cluster, and nothing else."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.cluster import ClusterChoice
from ktui.cli.context.config import Context
from ktui.cli.main import ktui
from ktui.cli.process import Launch, resume_command
from ktui.cluster.clock import SystemClock
from ktui.execution import RunProblem, RunRefused
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, Ended, EngineLeft, Owned, StateEntered
from ktui.execution.run.options import RunOptions
from ktui.execution.run.states import CancelKind, State
from ktui.planning.throttle_rates import parse_throttle_rates
from support.cli.call_ktui import NamedCluster
from support.journals.journals import over, planned, started, step, written
from support.simulated.moving_clusters import a_cluster

UNTIL = datetime(2026, 11, 21, 15, 0, tzinfo=UTC)


class Spawned(Exception):
    """An engine would have been started."""


class StartSandbox:
    """A state directory, a cluster, and what engines would have been started with."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = StateDir(folder / "state")
        self.cluster = a_cluster({"orders": [(1, 2, 3)]})
        self.context = Context()
        self.chosen: list[tuple[Any, ...]] = []
        self.arguments: list[str] = []
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._choose)
        self.unverified: tuple[str, ...] = ()
        self.not_granted: frozenset[tuple[str, str]] = frozenset()
        monkeypatch.setattr("ktui.cli.process.start_engine", self._spawn)

    def _choose(self, *names: Any) -> Any:
        self.chosen.append(names)
        return NamedCluster(
            name="prod",
            reader=self.cluster.reader,
            context=self.context,
            unverified=self.unverified,
            not_granted=self.not_granted,
        )

    def _spawn(self, _run: RunDir, arguments: list[str]) -> None:
        self.arguments = arguments
        raise Spawned

    def run(
        self,
        *more: AnyRunEvent,
        cluster_id: str = "simulated",
        options: RunOptions | None = None,
        **connection: str,
    ) -> RunDir:
        run = self.state.create_run("drain")
        start_event = started(2, cluster_id)
        start_event = msgspec.structs.replace(
            start_event, connection=connection, options=options or start_event.options
        )
        written(run.journal, [start_event, planned(2), *more]).close()
        return run

    def resume(self, *options: str, name: str = "drain") -> Result:
        words = ["resume", name, "--state-dir", str(self.state.path), *options]
        return CliRunner().invoke(ktui, words)


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StartSandbox:
    for name in ("KTUI_BOOTSTRAP_SERVER", "KTUI_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return StartSandbox(tmp_path, monkeypatch)


def test_a_run_resumes_on_its_original_cluster_unless_another_is_named(
    sandbox: StartSandbox,
) -> None:
    sandbox.run(bootstrap_server="b1:9092", command_config="/etc/client.properties")

    assert isinstance(sandbox.resume().exception, Spawned)
    assert sandbox.chosen.pop() == ("b1:9092", Path("/etc/client.properties"), None)
    assert sandbox.arguments[:2] == ["engine", "drain"]
    assert sandbox.arguments[4:] == [
        *("--bootstrap-server", "b1:9092"),
        *("--command-config", "/etc/client.properties"),
    ]

    assert isinstance(sandbox.resume("--context", "new").exception, Spawned)
    assert sandbox.chosen.pop() == (None, None, "new")
    assert sandbox.arguments[4:] == ["--context", "new"]


def test_ktui_resume_warns_that_an_earlier_until_no_longer_holds(sandbox: StartSandbox) -> None:
    owned = Owned(pid=1, host="ops1", user="ada", until=UNTIL)
    sandbox.run(owned, EngineLeft(reason="the time has come"))

    dropped = sandbox.resume()
    given = sandbox.resume("--until", "2099-01-01T10:00")

    when = UNTIL.astimezone().isoformat(" ", timespec="seconds")
    assert f"its --until {when} no longer holds" in dropped.stderr
    assert "no longer holds" not in given.stderr
    assert "--until" in sandbox.arguments


def test_ktui_resume_warns_that_the_runs_canary_may_not_measure_and_resumes_it(
    sandbox: StartSandbox,
) -> None:
    sandbox.run(
        context="prod",
        options=RunOptions(canary=True, throttle=parse_throttle_rates("slo=p99<150ms")),
    )
    sandbox.not_granted = frozenset({("ktui-canary-drain", "Write")})

    resumed = sandbox.resume()

    assert "warning: Write on topic ktui-canary-drain is not granted" in resumed.stderr
    assert isinstance(resumed.exception, Spawned)


def test_ktui_resume_warns_of_unverified_tls(sandbox: StartSandbox) -> None:
    sandbox.run(context="prod")
    sandbox.unverified = ("config.yaml: ssl.this=none: whoever",)

    resumed = sandbox.resume()

    assert "warning: TLS unverified: config.yaml: ssl.this=none: whoever\n" in resumed.stderr
    assert isinstance(resumed.exception, Spawned)


def test_of_two_concurrent_resumes_one_is_refused_with_the_owner(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, owned = sandbox.run(context="prod"), []

    async def resume_first(*_: object) -> None:
        owned.append(own_run(run))

    monkeypatch.setattr("ktui.cli.follow.check_cluster", resume_first)
    error = sandbox.resume("--concurrent").exception

    assert isinstance(error, RunRefused)
    assert f"run drain is owned by {owned[0].holder}" in str(error)
    assert sandbox.arguments == []
    owned[0].release()


def test_an_ended_run_with_a_pending_rollback_can_be_resumed(sandbox: StartSandbox) -> None:
    moved = [event for n in range(2) for event in (step(n), over(n))]
    done = [StateEntered(topic="orders", partition=n, state=State.DONE) for n in range(2)]
    run = sandbox.run(*moved, *done, Ended(counts={}), context="prod")
    with Journal.open(run.journal, SystemClock()) as journal:
        journal.ask(CancelMoves(CancelKind.STOP), "ada@ops1 (1)")
        assert sandbox.resume().exit_code == 0
        journal.ask(CancelMoves(CancelKind.ROLLBACK), "ada@ops1 (1)")

    assert isinstance(sandbox.resume().exception, Spawned)


def test_a_run_whose_start_was_cut_off_is_not_resumed(sandbox: StartSandbox) -> None:
    run = sandbox.state.create_run("drain")
    written(run.journal, []).close()

    error = sandbox.resume().exception

    assert isinstance(error, RunProblem)
    assert "the start of the run was cut off, and nothing was sent" in str(error)


def test_an_engine_is_started_with_the_names_and_absolute_paths_of_its_cluster(
    sandbox: StartSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KTUI_BOOTSTRAP_SERVER", "b1:9092")
    where = ClusterChoice(command_config=Path("client.properties")).target()

    launch = Launch(
        state=sandbox.state,
        name="drain",
        cluster_id="id",
        names=where.names,
        until=UNTIL,
        concurrent=False,
    )

    assert launch.arguments == [
        *("engine", "drain", "--state-dir", str(sandbox.state.path)),
        *("--bootstrap-server", "b1:9092"),
        *("--command-config", str(tmp_path / "client.properties")),
        *("--until", "2026-11-21T15:00:00+00:00"),
        "--no-ownership",
    ]


def test_the_resume_command_names_a_state_directory_that_is_not_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KTUI_STATE_DIR", str(tmp_path))

    assert resume_command(StateDir(tmp_path), "drain") == "ktui resume drain"
    assert resume_command(StateDir(tmp_path / "a b"), "drain") == (
        f"ktui resume drain --state-dir '{tmp_path / 'a b'}'"
    )
