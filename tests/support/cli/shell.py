"""A shell in which `ktui` is a process, two that share a cluster, and a run beside them."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.observer import Observer
from ktui.cluster.ownership import ClaimStatus, OwnedByOthers
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ClusterPorts, ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution import RunProblem, RunRefused
from ktui.execution.engine.engine import Engine
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import Holder, holder, own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal, RunFollower
from ktui.execution.run.events import AnyRunEvent, JournalEntry, Owned
from ktui.execution.run.options import RunOptions
from ktui.execution.run.plans import first_events
from ktui.execution.run.run import Run
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import Limits
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from support.cli.call_ktui import NamedCluster
from support.journals.journals import SeenJournal, owner, planned, started, written
from support.runs.engine_runs import plan_of, snapshot_of
from support.simulated.moving_clusters import a_cluster

E = TypeVar("E")
Done = subprocess.CompletedProcess[str]
LIMIT_S = 240.0
"""The longest wait. Each lost answer to a step, as by a kill, may take a minute longer."""


class Shell:
    """Calls ktui on a lab; `close` ends every process that it has started and not ended.

    Args:
        lab: the cluster that ktui works on.
        folder: the folder for plans and the state directory.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.folder = folder
        self.state = StateDir(folder / "state")
        self.environment = {
            **os.environ,
            "KTUI_STATE_DIR": str(self.state.path),
            "KTUI_BOOTSTRAP_SERVER": lab.bootstrap_servers,
        }
        self._begun: list[subprocess.Popen[str]] = []
        self._journals: dict[str, SeenJournal] = {}

    def begin(self, *words: str) -> subprocess.Popen[str]:
        """Call ktui, and return while it runs."""
        command = [sys.executable, "-m", "ktui", *words]
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self._begun.append(process)
        return process

    def ktui(self, *words: str) -> Done:
        """Call ktui, and wait for its end."""
        return ended(self.begin(*words))

    def plan(self, name: str, partitions: Sequence[dict[str, Any]]) -> str:
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"version": 1, "partitions": list(partitions)}))
        return str(path)

    def run_dir(self, name: str) -> RunDir:
        return self.state.run(name)

    def entries(self, name: str) -> list[JournalEntry]:
        """Return the entries of the run's journal; none while there is no journal.

        Tests ask many times a second: a journal that nobody has written to is not read again.
        """
        path = self.run_dir(name).journal
        try:
            if name not in self._journals:
                self._journals[name] = SeenJournal(path)
            return self._journals[name].entries()
        except RunProblem:
            return []

    def events(self, name: str, kind: type[E]) -> list[E]:
        events: list[AnyRunEvent] = [entry.event for entry in self.entries(name)]
        return [event for event in events if isinstance(event, kind)]

    def wait_for(self, name: str, kind: type[Any], count: int = 1) -> None:
        """Wait until the run's journal has ``count`` events of a kind."""
        came = wait_for(lambda: len(self.events(name, kind)) >= count, seconds=LIMIT_S)
        assert came, (name, kind, self.log(name))

    def owner(self, name: str) -> Holder:
        who = holder(self.run_dir(name))
        assert who is not None, self.log(name)
        return who

    def unowned(self, name: str) -> bool:
        """Wait until no process owns the run."""
        return wait_for(lambda: holder(self.run_dir(name)) is None, seconds=LIMIT_S)

    def log(self, name: str) -> str:
        path = self.run_dir(name).log
        return path.read_text() if path.exists() else "no log"

    def close(self) -> None:
        for run in self.state.run_dirs():
            who = holder(run)
            if who is not None:
                os.kill(who.pid, signal.SIGKILL)
        for process in self._begun:
            if process.poll() is None:
                process.kill()
            process.communicate()
        while self._journals:
            self._journals.popitem()[1].close()


def ended(process: subprocess.Popen[str]) -> Done:
    """Wait until a process has ended, and return its output."""
    out, err = process.communicate(timeout=LIMIT_S)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


Replicas = tuple[int, ...]

SPEED = 20.0  # the cluster's seconds in one real second
_COPIED_S = 1_000.0


@contextmanager
def owned_run(
    state: StateDir, name: str = "drain-b3", *, partitions: int = 4, limits: Limits | None = None
) -> Iterator[RunDir]:
    """Let an engine own a run of `orders`, from broker 3 to 4; it takes hours, and is left."""
    run = state.create_run(name)
    going, leave = threading.Event(), threading.Event()
    target = {TopicPartition("orders", n): (1, 2, 4) for n in range(partitions)}
    in_force = limits or Limits(replicas=1, partitions=2)

    def execute() -> None:
        asyncio.run(_carry_on(run, target, in_force, going, leave))

    engine = threading.Thread(target=execute)
    engine.start()
    try:
        assert going.wait(30), "the engine did not begin"
        yield run
    finally:
        leave.set()
        engine.join()


async def _carry_on(
    run_dir: RunDir,
    targets: Mapping[TopicPartition, Replicas],
    limits: Limits,
    going: threading.Event,
    leave: threading.Event,
) -> None:
    cluster = _cluster(len(targets))
    clock = cluster.clock
    plan = plan_of(targets)
    events = first_events(
        plan,
        await snapshot_of(cluster.reader(), plan),
        limits,
        RunOptions(),
        cluster_id=cluster.spec.name,
        plan_name="drain-b3.json",
    )
    ways = ClusterPorts(cluster.reader(), cluster.writer())
    observer = Observer(ways.reader, clock)
    with own_run(run_dir) as owned, Journal.create(run_dir.journal, clock) as journal:
        run = Run(run_dir.name).fold(journal.append(events))
        state = StateDir(run_dir.path.parent.parent)
        check = partial(check_one_throttle, state, cluster.spec.name, run.name)
        engine = Engine(run, journal, observer, ways, clock, check_throttle=check)
        me = owned.holder
        carrying = asyncio.create_task(
            engine.execute(Owned(pid=me.pid, host=me.host, user=me.user))
        )
        while not leave.is_set() and not carrying.done():
            if run.tracks_in_flight:
                going.set()
            await asyncio.sleep(0.01)
        engine.leave("the test is over")
        await carrying
        await observer.aclose()


def _cluster(partitions: int) -> SimulatedCluster:
    spec = ClusterSpec(
        brokers=tuple(BrokerSpec(id=b, net_in=_COPIED_S * 1_000) for b in range(1, 5)),
        topics=(
            TopicSpec(
                name="orders",
                replicas=((1, 2, 3),) * partitions,
                bytes_each=100_000_000_000,
                message_bytes=1_000,
            ),
        ),
    )
    return SimulatedCluster(spec, ScaledClock(SPEED))


RATE = ConfigChange(ConfigResource(ConfigScope.BROKER, "4"), FOLLOWER_RATE, ConfigOp.SET, "9000")


class TwoHosts:
    """Two state directories that share one cluster, and the engines that were requested."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.here, self.there = StateDir(folder / "here"), StateDir(folder / "there")
        self.file = folder / "drain.run"
        self.cluster = a_cluster({"orders": [(1, 2, 3)]})
        self.engines: list[list[str]] = []
        self.chosen: list[tuple[object, ...]] = []
        monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._choose)
        monkeypatch.setattr("ktui.cli.process.start_engine", self._spawn)
        monkeypatch.setattr("ktui.cli.follow.follow", lambda start, *_, **_more: start() or 0)

    def _choose(self, *names: object) -> Any:
        self.chosen.append(names)
        groups = self.cluster.memberships
        return NamedCluster(reader=self.cluster.reader, groups=groups, context=Context())

    def _spawn(self, run: RunDir, arguments: list[str]) -> None:
        del run
        self.engines.append(arguments)

    def run(self, *more: AnyRunEvent, name: str = "drain") -> RunDir:
        run = self.here.create_run(name)
        events = [started(2, self.cluster.spec.name), planned(2), *more]
        written(run.journal, events).close()
        return run

    def ktui(self, *words: str, state: StateDir | None = None) -> Result:
        where = str((state or self.here).path)
        return CliRunner().invoke(ktui, [*words, "--state-dir", where])

    def export(self, *options: str, name: str = "drain") -> Result:
        return self.ktui("runs", "export", name, str(self.file), *options)

    def take(self, *options: str, state: StateDir | None = None) -> Result:
        return self.ktui("runs", "import", str(self.file), *options, state=state or self.there)

    def resume(self, state: StateDir, name: str = "drain", *options: str) -> Result:
        return self.ktui("resume", name, "--headless", *options, state=state)

    def claimed_by(self, user: str) -> GroupClaim:
        """Have another state directory own the cluster."""
        name, clock = self.cluster.spec.name, VirtualClock(leaping=True)
        claim = GroupClaim(self.cluster.memberships(), name, owner(user), clock)
        asyncio.run(claim.claim(take_over=True))
        return claim

    @property
    def standing(self) -> ClaimStatus:
        """The claim status as seen by a stranger."""
        clock = VirtualClock(leaping=True)
        groups = self.cluster.memberships()
        claim = GroupClaim(groups, self.cluster.spec.name, owner("stranger"), clock)
        return asyncio.run(claim.read())


def folded_run(state: StateDir, name: str = "drain") -> Run:
    with RunFollower(state.run(name).journal) as follower:
        follower.refresh()
    return follower.run


def assert_owned(standing: ClaimStatus) -> None:
    assert isinstance(standing, OwnedByOthers), standing


def words(result: Result) -> str:
    assert isinstance(result.exception, RunRefused | RunProblem | BadInput), result.output
    return str(result.exception)
