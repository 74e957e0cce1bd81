"""Runs started in the live view are checked as those of `ktui start`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cli.watch.command import ProcessEngines
from ktui.execution.errors import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.options import RunOptions
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.throttle_rates import parse_throttle_rates
from support.cli.named_cluster import NamedCluster, as_reader
from support.journals.journals import planned, started, written
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import a_cluster, tp


async def test_the_view_starts_no_run_whose_canary_may_not_write(tmp_path: Path) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    denied = frozenset({("ktui-canary-night", "Write")})
    named: Any = NamedCluster(reader=cluster.reader, not_granted=denied)
    state = StateDir(tmp_path / "state")
    wanted = NewRun(
        name="night",
        plan=plan_of({tp("orders-0"): (4, 2, 3)}),
        plan_name="night.json",
        limits=Limits(),
        allowed=Allowances(),
        options=RunOptions(throttle=parse_throttle_rates("slo=p99<150ms"), canary=True),
    )

    with pytest.raises(RunRefused, match="Write on topic ktui-canary-night is not granted"):
        await ProcessEngines(named, as_reader(cluster), {}, state).start(wanted)

    assert state.run_dirs() == []


@pytest.mark.parametrize(
    ("view", "refused"), [({"context": "prod"}, True), ({"context": "other-user"}, False)]
)
async def test_the_view_refuses_an_objective_that_the_runs_own_canary_may_not_measure(
    tmp_path: Path, view: Mapping[str, str], *, refused: bool
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    denied = frozenset({("ktui-canary-night", "Write")})
    named: Any = NamedCluster(reader=cluster.reader, not_granted=denied)
    state = StateDir(tmp_path / "state")
    begun = started(1)
    options = msgspec.structs.replace(begun.options, canary=True)
    begun = msgspec.structs.replace(begun, connection={"context": "prod"}, options=options)
    folder = state.create_run("night")
    written(folder.journal, [begun, planned(1)]).close()
    run = RunClient(folder).read().run
    engines = ProcessEngines(named, as_reader(cluster), view, state)

    await engines.check_throttle(run, parse_throttle_rates("50MB"))
    checked = engines.check_throttle(run, parse_throttle_rates("slo=p99<150ms"))
    if refused:
        with pytest.raises(RunRefused, match="Write on topic ktui-canary-night is not granted"):
            await checked
    else:
        await checked
