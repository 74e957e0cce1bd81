"""The flows in which ktui does something else than Apache's tool, and what it does there.

Its outcomes are recorded, too, and read before they are kept: `make reassign-record-own`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import msgspec

from support.reassign_tool.flows import Flow
from support.reassign_tool.recording import Outcome

RECORDED = Path(__file__).parent / "recorded" / "ktui.jsonl"


class OwnOutcomes(msgspec.Struct, frozen=True):
    """The steps of a flow in which ktui is not held against Apache's tool, but against itself."""

    flow: str
    steps: Mapping[int, str]
    """The name of the difference in each of these steps, counted from 1."""
    ends: bool = False
    """Whether the flow ends for ktui with the last of these: the rest would never come to rest."""


class RecordedOwn(msgspec.Struct, frozen=True):
    """What ktui did in these steps."""

    flow: str
    outcomes: Mapping[int, Outcome]


OWN: tuple[OwnOutcomes, ...] = ()


def own_of(flow: Flow) -> OwnOutcomes:
    """Return the differences in a flow."""
    return next((each for each in OWN if each.flow == flow.name), OwnOutcomes(flow.name, {}))


def as_ktui_plays(flow: Flow) -> Flow:
    """Return a flow as far as it is played with ktui."""
    own = own_of(flow)
    return msgspec.structs.replace(flow, steps=flow.steps[: max(own.steps)]) if own.ends else flow


@cache
def recorded_own(path: Path = RECORDED) -> Mapping[str, Mapping[int, Outcome]]:
    """Return what ktui did, by the name of the flow and the step."""
    rows = [msgspec.json.decode(row, type=RecordedOwn) for row in path.read_bytes().splitlines()]
    return {row.flow: row.outcomes for row in rows}
