"""Runs started in the live view are checked as those of `ktui start`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktui.cli.watch.launcher import ProcessEngines
from ktui.execution.errors import RunRefused
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances
from ktui.planning.throttle_rates import parse_throttle_rates
from support.cli.named_cluster import NamedCluster
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
        throttle=parse_throttle_rates("slo=p99<150ms"),
        canary=True,
    )

    with pytest.raises(RunRefused, match="Write on topic ktui-canary-night is not granted"):
        await ProcessEngines(named, cluster.reader(), {}, state).start(wanted)

    assert state.run_dirs() == []
