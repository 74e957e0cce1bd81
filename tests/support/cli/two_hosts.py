"""Two state directories, on two hosts, that share one cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import ClaimStatus, OwnedByOthers
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import AnyRunEvent
from ktui.execution.run.run import Run
from ktui.simulated.clock import VirtualClock
from support.cli.named_cluster import NamedCluster
from support.journals.journals import planned, started, written
from support.journals.owners import owner
from support.simulated.moving_clusters import a_cluster

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
        monkeypatch.setattr("ktui.cli.process.launch.start_engine", self._spawn)
        monkeypatch.setattr("ktui.cli.start.follow.follow", lambda start, *_, **_more: start() or 0)

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
