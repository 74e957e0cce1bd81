"""`ktui reassign` does on a real cluster what Apache's tool did, but for the named differences."""

from __future__ import annotations

from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from ktui.lab.layout import Lab
from support.reassign_tool.compare import assert_as_recorded
from support.reassign_tool.flows import FLOWS, Flow, Where
from support.reassign_tool.ktui_flows import play_with_ktui
from support.reassign_tool.recording import load

RECORDED = {flow.name: flow.outcomes for flow in load().flows}
PLAIN = [
    pytest.param(flow, id=flow.name, marks=() if flow.in_every_run else pytest.mark.soak)
    for flow in FLOWS
    if flow.where is Where.PLAIN
]


def _in_soak(where: Where) -> list[ParameterSet]:
    flows = [flow for flow in FLOWS if flow.where is where]
    return [pytest.param(flow, id=flow.name, marks=pytest.mark.soak) for flow in flows]


@pytest.mark.parametrize("flow", PLAIN)
async def test_flows_in_the_clear(reassign_lab: Lab, files: Path, flow: Flow) -> None:
    await _played_as_recorded(reassign_lab, files, flow)


@pytest.mark.parametrize("flow", _in_soak(Where.SECURED))
async def test_flows_on_a_secured_cluster(
    secured_reassign_lab: Lab, files: Path, flow: Flow
) -> None:
    await _played_as_recorded(secured_reassign_lab, files, flow)


@pytest.mark.parametrize("flow", _in_soak(Where.LOG_DIRS))
async def test_flows_between_log_dirs(dirs_reassign_lab: Lab, files: Path, flow: Flow) -> None:
    await _played_as_recorded(dirs_reassign_lab, files, flow)


async def _played_as_recorded(lab: Lab, files: Path, flow: Flow) -> None:
    outcomes = await play_with_ktui(lab, files, files / "state", flow)

    assert_as_recorded(flow, outcomes, RECORDED[flow.name])
