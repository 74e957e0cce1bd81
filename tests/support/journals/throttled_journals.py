"""Journals of runs with throttles, and `ktui` called on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cluster.ports import (
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
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.journals.journals import a_start, accepted, step, written

BROKER_4 = ConfigResource(ConfigScope.BROKER, "4")
ORDERS = ConfigResource(ConfigScope.TOPIC, "orders")
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
