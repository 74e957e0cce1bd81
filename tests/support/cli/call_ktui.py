"""`ktui` called as a shell calls it: in this process, which is cheap, or in one of its own."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Collection
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, cast
from unittest import mock

import msgspec

from ktui.cli.context.cluster import Cluster
from ktui.cli.context.config import Context
from ktui.cli.main import main
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import ClusterClaim, ClusterOwner, GroupMembership
from ktui.cluster.ports import GRANTS, CanaryObstacles, ClusterReader, Permissions
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.journals.journals import GoodClaim

Done = subprocess.CompletedProcess[str]


def call_ktui(*words: str, **environment: str) -> Done:
    """Call ktui in this process, without a terminal.

    Args:
        words: the verb and its arguments.
        environment: further variables; of those of ktui, only these are set.
    """
    command = ["ktui", *words]
    out, err = _stream(), _stream()
    with (
        mock.patch.dict(os.environ, _environment(environment), clear=True),
        mock.patch.object(sys, "argv", command),
        mock.patch("click.core._detect_program_name", return_value="ktui"),
        mock.patch.object(sys, "stdin", _stream()),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        else:
            code = 0
    return _checked(subprocess.CompletedProcess(command, code, _text(out), _text(err)))


def call_ktui_process(*words: str, **environment: str) -> Done:
    """Call ktui as a process, where what libraries print is seen, too."""
    done = subprocess.run(
        [sys.executable, "-m", "ktui", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        env=_environment(environment),
    )
    return _checked(done)


def _checked(done: Done) -> Done:
    assert "Traceback" not in done.stderr
    return done


def _environment(more: dict[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KTUI_")}
    return {**kept, **more}


def _stream() -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding="utf-8")


def _text(stream: io.TextIOWrapper) -> str:
    stream.seek(0)
    return stream.read()


OF_A_CANARY = ("Create", "Write", "Delete")
EVERYTHING = frozenset(grant.operation for grant in GRANTS)


class NamedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `choose_cluster`, without a connection."""

    reader: Callable[[], ClusterReader]
    writer: Callable[[], Any] | None = None
    name: str = "prod-eu"
    context: Context = Context()
    theme: str | None = None
    bell: bool = False
    unverified: tuple[str, ...] = ()
    not_granted: frozenset[tuple[str, str]] = frozenset()
    """The operations that the principal lacks: "cluster" or a topic, and the operation."""

    canary_refusal: str = ""  # why the topic of a canary cannot be used; empty if it can

    groups: Callable[[], GroupMembership] | None = None
    """The way to the cluster's consumer groups; without one, every claim of the cluster is good."""

    def ask(self, read: Any) -> Any:
        return Cluster.ask(cast("Any", self), read)

    def ports(self) -> Any:
        return Cluster.ports(cast("Any", self))

    def claim(self, me: ClusterOwner, cluster_id: str, _over: object = None) -> ClusterClaim:
        if self.groups is None:
            return GoodClaim(me)
        return GroupClaim(self.groups(), cluster_id, me, VirtualClock(leaping=True))

    async def release(self) -> str | None:
        return None

    async def canary_obstacles(self, topic: str) -> CanaryObstacles:
        denied = (each for each in OF_A_CANARY if (topic, each) in self.not_granted)
        return CanaryObstacles(tuple(denied), self.canary_refusal)

    async def permissions(self, topics: Collection[str]) -> Permissions:
        def granted(resource: str) -> frozenset[str]:
            return EVERYTHING - {operation for on, operation in self.not_granted if on == resource}

        return Permissions(granted("cluster"), {topic: granted(topic) for topic in topics})


def as_reader(cluster: SimulatedCluster) -> Any:
    """Return the reader of a simulated cluster, in place of Kafka's."""
    return cluster.reader()
