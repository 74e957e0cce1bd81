"""A simulated cluster, runs beside it, and a folder: where sessions of golden files are played."""

import asyncio
import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktui.cli.doctor_findings import DoctorFinding, good
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope, Permissions
from ktui.execution import JournalProblem, RunProblem
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import CancelGateFile, Holder, Ownership, own_run, this_process
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer
from ktui.execution.journal.journal import Journal
from ktui.kafka.capabilities import BrokerAbilities
from ktui.simulated import layout
from ktui.simulated.clock import FIRST_MOMENT, VirtualClock
from ktui.simulated.layout import OutsideEvent, TopicSpec
from support.cli.call_ktui import NamedCluster
from support.cli.golden_runs import kinds
from support.cli.start_sandbox import PlanSandbox, StartSandbox, cluster
from support.golden import Acts
from support.journals.journals import owner, written
from support.simulated.moving_clusters import Replicas, a_cluster, move, wait

_CLOCKED = (
    "ktui.cli.alter",
    "ktui.cli.doctor",
    "ktui.cli.doctor_throttles",
    "ktui.cli.output.plan_check",
    "ktui.cli.run.hand_over",
    "ktui.cli.run.list",
    "ktui.cli.run.status",
)
"""Modules that take the time from the machine's clock."""
_OWNER = Holder(4711, "ops1", "ada", FIRST_MOMENT)


class SessionSandbox(StartSandbox):
    """A cluster in virtual time, and verbs that start no engine: they fail, and say so.

    Args:
        folder: where files are, and a state directory.
        monkeypatch: replaces the cluster, the clock, and the engines of the verbs.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.environment = {
            "KTUI_STATE_DIR": str(folder / "state"),
            "KTUI_CONFIG_DIR": str(folder),
            "KTUI_CONTEXT": "prod",
        }
        me = this_process()
        self.fixed = {str(folder): "FOLDER", f"{me.user} on {me.host}": "ada on here"}
        self._owned: dict[str, Ownership] = {}
        self._given: set[str] = set()
        self.not_granted: list[tuple[str, str]] = []
        self._context: dict[str, Any] = {}
        super().__init__(folder, monkeypatch, PlanSandbox(folder, monkeypatch))
        monkeypatch.chdir(folder)
        monkeypatch.setattr("ktui.cli.process.start_engine", self._start)
        answer = Answer(accepted=True, words="in force")
        monkeypatch.setattr(RunClient, "_answer", lambda *_: answer)
        monkeypatch.setattr("ktui.cli.doctor.check_connection", _connected)
        monkeypatch.setattr("ktui.cli.doctor.Capabilities", lambda _: _Capabilities(self))
        monkeypatch.setattr(
            NamedCluster,
            "connection",
            SimpleNamespace(bootstrap_servers=["b1:9092"]),
            raising=False,
        )
        for module in _CLOCKED:
            monkeypatch.setattr(f"{module}.SystemClock", lambda: self.simulated.clock)

    def cluster(self, cluster: Any, **more: Any) -> None:
        self.simulated = cluster
        wait(cluster, 1.0)
        super().cluster(cluster, **more)

    def _start(self, run: RunDir, arguments: list[str]) -> None:
        if run.name not in self._given:
            shutil.rmtree(run.path)
        raise RunProblem(f"an engine starts here: {' '.join(arguments)}")

    @property
    def condition(self) -> dict[str, str]:
        """Partitions, settings that were changed, files, and commands to runs."""
        self.simulated.catch_up()
        controller = self.simulated.controller
        found: dict[str, str] = {}
        for name, topic in controller.topics.items():
            for n, each in enumerate(topic.partitions):
                found[f"{name}-{n}"] = f"{','.join(map(str, each.replicas))}, led by {each.leader}"
        for resource, values in controller.configs._dynamic.items():
            for key, value in values.items():
                found[f"{resource.scope} {resource.name} {key}"] = value
        files = (file for file in self.folder.iterdir() if file.is_file())
        found["files"] = " ".join(sorted(file.name for file in files))
        found["runs"] = " ".join(run.name for run in StateDir(self.folder / "state").run_dirs())
        return {**found, **commands(self.state)}

    def again(self) -> None:
        """Let the cluster be used with the present context and permissions."""
        self.cluster(self.simulated, not_granted=self.not_granted, **self._context)

    def use(self, *words: str) -> None:
        """Use a new cluster without runs: topics as `orders:1,2,3;2,3,1`, settings and fields."""
        self._reset()
        topics: dict[str, list[Replicas]] = {}
        configs: dict[str, str] = {}
        fields: dict[str, Any] = {}
        for word in words:
            if ":" in word:
                name, _, lists = word.partition(":")
                topics[name] = [_numbers(each) for each in lists.split(";")]
                continue
            name, _, value = word.partition("=")
            if "." in name:
                configs[name] = value
            else:
                fields[name] = float(value) if value.isdecimal() else value
        if "brokers" in fields:
            first, _, last = fields["brokers"].partition("-")
            fields["brokers"] = range(int(first), int(last) + 1)
        self.cluster(a_cluster(topics, configs=configs, **fields))

    def six(self, *words: str) -> None:
        """Use six brokers on three racks, of which the last is empty."""
        self._reset()
        fields = dict(word.split("=") for word in words if "=" in word)
        racks = fields.pop("racks", "1a,2b,3c,4a,5b,6c")
        of = {int(each[0]): each[1:] for each in racks.split(",") if each}
        self.cluster(cluster(racks=of, internal="internal" in words, **fields))

    def _reset(self) -> None:
        self.close()
        self.not_granted, self._context = [], {}
        for run in self.state.run_dirs():
            shutil.rmtree(run.path)

    def context(self, text: str) -> None:
        """Use a context with these settings, which are JSON."""
        self._context = json.loads(text)
        self.again()

    def lacks(self, resource: str, *operations: str) -> None:
        self.not_granted += [(resource, each) for each in operations]
        self.again()

    def do(self, event: OutsideEvent, seconds: float = 1.0) -> None:
        self.simulated.do(event)
        wait(self.simulated, seconds)

    def comes_back_behind(self, broker: int) -> None:
        """Let a broker miss messages of orders-0 and orders-1 while it is down."""
        self.do(layout.Kill(broker), 30.0)
        for partition in (0, 1):
            self.simulated.do(layout.Append(TopicPartition("orders", partition), 1_000_000))
        self.do(layout.Start(broker), 20.0)

    def owned(self) -> None:
        """Let another state directory own the cluster."""
        bob, clock = owner("bob"), VirtualClock(leaping=True)
        claim = GroupClaim(self.simulated.memberships(), self.cluster_id, bob, clock)
        asyncio.run(claim.claim(take_over=True))

    def set(self, scope: str, name: str, key: str, value: str) -> None:
        """Let somebody set something."""
        resource = ConfigResource(ConfigScope(scope), name)
        self.do(layout.AlterConfigs((ConfigChange(resource, key, ConfigOp.SET, value),)))

    def write_plan(self, *words: str) -> None:
        """Write plan.json: `orders-0=4,2,3` is a partition in it, on a line of its own."""
        named = (word.split("=") for word in words)
        rows = {name.replace("-", "_"): _numbers(replicas) for name, replicas in named}
        self.plan_sandbox.plan(**rows)

    def run(self, name: str, kind: str, cluster_id: str = "") -> None:
        """Write the journal of a run on this cluster, or on another one."""
        self._given.add(name)
        begun, *more = kinds()[kind]
        fields = {"cluster_id": cluster_id or self.cluster_id, "connection": {"context": "prod"}}
        begun = type(begun)(**{**_fields(begun), **fields})
        written(self.state.create_run(name).journal, [begun, *more]).close()

    def live(self, name: str) -> None:
        """Let an engine of another host own a run, which accepts every command."""
        self._owned[name] = own_run(self.state.run(name), _OWNER)

    def dies(self, name: str) -> None:
        self._owned.pop(name).release()

    def close(self) -> None:
        while self._owned:
            self._owned.popitem()[1].release()


def commands(state: StateDir) -> dict[str, str]:
    """Return the commands to each run."""
    asked: dict[str, str] = {}
    for run in state.run_dirs():
        with suppress(JournalProblem), Journal.open(run.journal, VirtualClock()) as journal:
            for each in journal.asked(unanswered=False):
                asked[f"command {each.id} to {run.name}"] = str(each.command)
    return asked


async def _connected(_connection: object) -> list[DoctorFinding]:
    return [good("both clients connect")]


class _Capabilities:
    """What the doctor asks a cluster beside its reader."""

    def __init__(self, sandbox: SessionSandbox) -> None:
        self._sandbox = sandbox

    async def brokers(self) -> list[BrokerAbilities]:
        return [BrokerAbilities(broker, "4.3") for broker in self._sandbox.simulated.machines]

    async def permissions(self) -> Permissions:
        topics = self._sandbox.simulated.controller.topics
        return await NamedCluster(
            reader=self._sandbox.simulated.reader, not_granted=frozenset(self._sandbox.not_granted)
        ).permissions(topics)

    async def visible_topics(self, names: Collection[str] | None) -> Collection[str]:
        known = {*self._sandbox.simulated.controller.topics}
        return known if names is None else known & {*names}

    async def aclose(self) -> None:
        pass


def _fields(event: Any) -> dict[str, Any]:
    return {name: getattr(event, name) for name in event.__struct_fields__}


def _numbers(text: str) -> Replicas:
    return tuple(map(int, text.split(",")))


def _topic(sandbox: SessionSandbox, name: str, lists: str) -> None:
    spec = TopicSpec(name=name, replicas=tuple(_numbers(each) for each in lists.split(";")))
    sandbox.do(layout.CreateTopic(spec))


ACTS: Acts = {
    "cluster": SessionSandbox.use,
    "six": SessionSandbox.six,
    "context": SessionSandbox.context,
    "lacks": SessionSandbox.lacks,
    "plan": SessionSandbox.write_plan,
    "write": lambda sandbox, name, *lines: (sandbox.folder / name).write_text("\n".join(lines)),
    "gate": lambda sandbox: CancelGateFile(sandbox.state, sandbox.cluster_id).shut(
        FIRST_MOMENT, "ada@ops1", "everything on the cluster"
    ),
    "gate-opens": lambda sandbox: CancelGateFile(sandbox.state, sandbox.cluster_id).open(),
    "make": lambda sandbox, name: (sandbox.folder / name).mkdir(parents=True),
    "run": SessionSandbox.run,
    "live": SessionSandbox.live,
    "dies": SessionSandbox.dies,
    "owned": SessionSandbox.owned,
    "set": SessionSandbox.set,
    "move": lambda sandbox, name, to: sandbox.do(move(name, *_numbers(to))),
    "topic": _topic,
    "delete": lambda sandbox, name: sandbox.do(layout.DeleteTopic(name)),
    "behind": lambda sandbox, broker: sandbox.comes_back_behind(int(broker)),
    "hang": lambda sandbox, broker: sandbox.do(layout.Hang(int(broker))),
    "offline": lambda sandbox, broker, path: sandbox.do(layout.FailLogDir(int(broker), path)),
    "stops": lambda sandbox, broker: sandbox.do(layout.Shutdown(int(broker))),
    "deny": lambda sandbox, *calls: [sandbox.do(layout.Deny(call)) for call in calls],
    "remove": lambda sandbox, name: (sandbox.folder / name).unlink(),
    "down": lambda sandbox, broker: sandbox.do(layout.Kill(int(broker)), 30.0),
    "disk-left": lambda sandbox, broker, left: sandbox.do(
        layout.FillDisk(int(broker), leave=int(left))
    ),
    "wait": lambda sandbox, seconds: wait(sandbox.simulated, float(seconds)),
}
