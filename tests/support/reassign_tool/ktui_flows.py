"""Flows played with ktui."""

import shutil
from pathlib import Path

from ktui.cli.reassign.command import help_text
from ktui.lab.layout import Lab
from support.reassign_tool.flows import Flow
from support.reassign_tool.own_outcomes import as_ktui_plays
from support.reassign_tool.programs import PROGRAM, KtuiProcess
from support.reassign_tool.recording import Outcome
from support.reassign_tool.stage import Stage, state_dir_on


async def play_with_ktui(lab: Lab, files: Path, state: Path, flow: Flow) -> tuple[Outcome, ...]:
    """Play a flow with a state directory of its own, as far as it goes with ktui."""
    async with (
        state_dir_on(lab, state),
        Stage(lab, files, KtuiProcess(files, state), help_text(PROGRAM)) as stage,
    ):
        outcomes = await stage.play(as_ktui_plays(flow))
    shutil.rmtree(state, ignore_errors=True)
    return outcomes
