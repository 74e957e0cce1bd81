"""Apache's tool and `ktui reassign` side by side on one cluster: the same but for what is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cli.reassign.command import help_text
from ktui.lab.layout import Lab
from support.reassign_tool.cases import ArgumentList, argument_lists
from support.reassign_tool.compare import assert_as_recorded, assert_list_as_recorded
from support.reassign_tool.flows import FLOWS, Flow, Where
from support.reassign_tool.ktui_flows import play_with_ktui
from support.reassign_tool.programs import (
    PROGRAM,
    ApacheProcess,
    ApacheTool,
    KtuiProcess,
    apaches_help,
)
from support.reassign_tool.recording import load
from support.reassign_tool.stage import Stage, state_dir_on

pytestmark = [pytest.mark.soak, pytest.mark.kafka]

_LABS = {
    Where.PLAIN: "reassign_lab",
    Where.SECURED: "secured_reassign_lab",
    Where.LOG_DIRS: "dirs_reassign_lab",
}
EVERY_TENTH = argument_lists()[::10]


@pytest.mark.parametrize("case", argument_lists(), ids=lambda case: case.name)
async def test_argument_lists(reassign_lab: Lab, files: Path, case: ArgumentList) -> None:
    with ApacheTool(reassign_lab.layout, files) as tool:
        async with Stage(reassign_lab, files, tool, apaches_help(tool)) as stage:
            theirs = await stage.play_list(case)
    state = files / "state"
    ktui = KtuiProcess(files, state)
    async with (
        state_dir_on(reassign_lab, state),
        Stage(reassign_lab, files, ktui, help_text(PROGRAM)) as stage,
    ):
        ours = await stage.play_list(case)

    assert_list_as_recorded(case.words, ours, theirs)


@pytest.fixture
def lab_of_flow(request: pytest.FixtureRequest, flow: Flow) -> Lab:
    """The lab of a flow. It is started before the test's event loop runs."""
    lab: Lab = request.getfixturevalue(_LABS[flow.where])
    return lab


@pytest.mark.parametrize("flow", FLOWS, ids=lambda flow: flow.name)
async def test_flows(lab_of_flow: Lab, files: Path, flow: Flow) -> None:
    with ApacheTool(lab_of_flow.layout, files) as tool:
        async with Stage(lab_of_flow, files, tool, apaches_help(tool)) as stage:
            theirs = await stage.play(flow)
    ours = await play_with_ktui(lab_of_flow, files, files / "state", flow)

    assert_as_recorded(flow, ours, theirs)


@pytest.mark.parametrize("case", EVERY_TENTH, ids=lambda case: case.name)
async def test_the_tool_answers_in_a_process_of_its_own_as_in_the_jvm_of_many_runs(
    reassign_lab: Lab, files: Path, case: ArgumentList
) -> None:
    recorded = {each.words: each for each in load().lists}[case.words]
    tool = ApacheProcess(reassign_lab.layout, files)
    async with Stage(reassign_lab, files, tool, apaches_help(tool)) as stage:
        played = await stage.play_list(case)

    assert played.answer == recorded.answer
