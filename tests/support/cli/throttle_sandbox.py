"""Simulated clusters with throttles and journals of their runs, and `ktui` called on them."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.doctor_findings import DoctorFinding
from ktui.cli.doctor_throttles import judge_throttles
from ktui.cli.main import ktui
from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import (
    ClusterWriter,
    ConfigChange,
    ConfigOp,
    ConfigResource,
    ConfigScope,
    ConfigSource,
    Setting,
    Verdict,
)
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import RunFollower
from ktui.execution.run.events import (
    AnyRunEvent,
    Configure,
    Configured,
    FoundSetting,
    SettingsFound,
    StateEntered,
    ThrottleChanged,
)
from ktui.execution.run.run import Run
from ktui.execution.run.states import State
from ktui.ops.leftovers import Leftovers
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated import layout as acts
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.call_ktui import NamedCluster
from support.journals.journals import a_start, accepted, planned, started, step, written
from support.simulated.moving_clusters import a_cluster

BROKER_1, BROKER_3, BROKER_4, BROKER_5 = (
    ConfigResource(ConfigScope.BROKER, name) for name in "1345"
)
EVERY_BROKER = ConfigResource(ConfigScope.BROKER, "")
ORDERS, PAYMENTS = (ConfigResource(ConfigScope.TOPIC, name) for name in ("orders", "payments"))
SET = ("50000000", "0:4,1:4")


class ThrottleSandbox:
    """A simulated cluster with throttles in it, a state directory, and the doctor."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.state = StateDir(folder / "state")
        self._monkeypatch = monkeypatch
        self.read_only = False
        self.cluster()

    def cluster(self, **more: Any) -> SimulatedCluster:
        topics = {"orders": [(1, 2, 3)] * 3, "payments": [(1, 2, 3)]}
        self.patient = a_cluster(topics, **more)
        self._second_passes()
        self._monkeypatch.setattr(
            "ktui.cli.doctor_throttles.SystemClock", lambda: self.patient.clock
        )
        self.writer: Callable[[], ClusterWriter] = self.patient.writer
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", self._chosen)
        return self.patient

    def _chosen(self, *_: object) -> object:
        context = Context(read_only=self.read_only)
        return NamedCluster(
            reader=self.patient.reader,
            writer=self.writer,
            context=context,
            groups=self.patient.memberships,
        )

    def given(self, resource: ConfigResource, key: str, value: str) -> None:
        self.patient.do(acts.AlterConfigs((ConfigChange(resource, key, ConfigOp.SET, value),)))

    def moves(self, topic: str, partition: int, *target: int) -> None:
        self.patient.do(acts.Alter({TopicPartition(topic, partition): target}))
        self._second_passes()

    def comes_back_behind(self, broker: int) -> None:
        """Let a broker miss messages of orders-0 and orders-1 while it is down."""
        self.goes_down(broker)
        for partition in (0, 1):
            self.patient.do(acts.Append(TopicPartition("orders", partition), 1_000_000))
        self.patient.do(acts.Start(broker))
        self.seconds_pass(20)

    def goes_down(self, broker: int) -> None:
        self.patient.do(acts.Kill(broker))
        self.seconds_pass(30)

    def seconds_pass(self, seconds: int) -> None:
        for _ in range(seconds):
            self._second_passes()

    def _second_passes(self) -> None:
        clock = self.patient.clock
        assert isinstance(clock, VirtualClock)
        clock.pass_time(1.0)
        clock._leaping = True

    def left_behind(self) -> None:
        """Leave a rate and a list behind, like a tool that died."""
        self.given(BROKER_4, FOLLOWER_RATE, SET[0])
        self.given(ORDERS, FOLLOWER_REPLICAS, SET[1])

    def a_run(self, *more: AnyRunEvent) -> RunDir:
        """Make a run that adds orders-0 on broker 4, with a rate and an entry of its own."""
        run = self.state.create_run("drain-b3")
        found = (
            FoundSetting(BROKER_4, FOLLOWER_RATE, Setting("", ConfigSource.DEFAULT)),
            FoundSetting(ORDERS, FOLLOWER_REPLICAS, Setting("", ConfigSource.DEFAULT)),
        )
        changes = (
            ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, SET[0]),
            ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOp.APPEND, "0:4"),
        )
        events = [
            started(1, self.patient.spec.name),
            planned(1),
            step(0),
            SettingsFound(found=found),
            Configure(changes=changes),
            *(Configured(resource=r, verdict=Verdict.ACCEPTED) for r in (BROKER_4, ORDERS)),
            *more,
        ]
        written(run.journal, events).close()
        return run

    async def findings(self) -> list[DoctorFinding]:
        leftovers = Leftovers(self.patient.reader(), self.state, self.patient.clock)
        return judge_throttles(await leftovers.scan())

    def clear(self, *more: str) -> Result:
        arguments = ["doctor", "--clear-throttles", "--state-dir", str(self.state.path), *more]
        return CliRunner().invoke(ktui, arguments)

    @property
    def settings(self) -> Mapping[ConfigResource, Mapping[str, str]]:
        dynamic = self.patient.controller.configs._dynamic
        return {resource: values for resource, values in dynamic.items() if values}


RATE = "50000000"


def throttled(partitions: int = 2) -> list[AnyRunEvent]:
    """Return the events of a run that adds replicas on broker 4, under a throttle of 50 MB/s."""
    found = (
        FoundSetting(BROKER_4, FOLLOWER_RATE, Setting("1000", ConfigSource.OWN)),
        FoundSetting(ORDERS, FOLLOWER_REPLICAS, Setting("", ConfigSource.DEFAULT)),
    )
    rate = ConfigChange(BROKER_4, FOLLOWER_RATE, ConfigOp.SET, RATE)
    entry = ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOp.APPEND, "0:4")
    return [
        *a_start(partitions),
        ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("50MB")),
        step(0),
        SettingsFound(found=found),
        Configure(changes=(rate, entry)),
        Configured(resource=BROKER_4, verdict=Verdict.ACCEPTED),
        Configured(resource=ORDERS, verdict=Verdict.ACCEPTED),
        accepted(0),
    ]


def all_over(partitions: int = 2) -> list[AnyRunEvent]:
    """Return the events that end all partitions, but leave broker 4's throttle set."""
    off = ConfigChange(ORDERS, FOLLOWER_REPLICAS, ConfigOp.DELETE)
    return [
        *(StateEntered(topic="orders", partition=n, state=State.DONE) for n in range(partitions)),
        Configure(changes=(off,), puts_back=True),
        Configured(resource=ORDERS, verdict=Verdict.ACCEPTED),
    ]


def a_run(folder: Path, *events: AnyRunEvent) -> RunDir:
    run = StateDir(folder / "state").create_run("drain-b3")
    written(run.journal, events).close()
    return run


def call(run: RunDir, *arguments: str, verb: str = "throttle") -> Result:
    state = str(run.path.parent.parent)
    return CliRunner().invoke(ktui, [verb, run.name, "--state-dir", state, *arguments])


def json_of(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def lines(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return [" ".join(line.split()) for line in result.stdout.splitlines()]


def run_of(run: RunDir) -> Run:
    with RunFollower(run.journal) as follower:
        follower.refresh()
    return follower.run
