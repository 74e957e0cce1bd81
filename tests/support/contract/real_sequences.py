"""Play sequences on a lab."""

from __future__ import annotations

from collections.abc import Sequence as Many

from ktui.lab.layout import Lab, ProgressReport
from support.contract.real_stage import RealStage
from support.contract.sequence_runner import batches, play
from support.contract.sequences import Played, Sequence


async def play_on(
    lab: Lab, plan: Many[Sequence], report: ProgressReport = lambda _: None
) -> list[Played]:
    """Play all sequences, and return them in the order of the plan."""
    found: dict[str, Played] = {}
    for together in batches(plan):
        stage = RealStage(lab)
        try:
            for played in await play(stage, together):
                found[played.sequence.name] = played
        finally:
            await stage.aclose()
        report(f"{len(found)} of {len(plan)} sequences on {lab.layout.kafka_version}")
    return [found[sequence.name] for sequence in plan]
