"""The flows in which ktui does something else than Apache's tool, and what it does there.

Its outcomes are recorded, too, and read before they are kept: `make reassign-record-own`.
"""

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
    steps: Mapping[int, str]  # the name of the difference in each of these steps, counted from 1
    ends: bool = False
    """Whether the flow ends for ktui with the last of these: the rest would never come to rest."""


class RecordedOwn(msgspec.Struct, frozen=True):
    """What ktui did in these steps."""

    flow: str
    outcomes: Mapping[int, Outcome]


_PUT_BACK = "only throttles that were set"
_DOWN = "a broker that is down"
OWN = (
    OwnOutcomes("a throttle of 0 is accepted", dict.fromkeys((2, 3), "no throttle of 0")),
    OwnOutcomes(
        "lists of throttled replicas that others have set are overwritten",
        dict.fromkeys((4, 5), "lists of others"),
    ),
    OwnOutcomes("a second topic is moved beside the first", {9: _PUT_BACK}),
    OwnOutcomes(
        "a second topic is moved beside the first, without a throttle",
        dict.fromkeys((4, 5, 6), "one throttle for all"),
    ),
    OwnOutcomes(
        "the printed plan of a partition that moves has all its replicas",
        dict.fromkeys((4, 5, 6), "the way back of a moving partition"),
    ),
    OwnOutcomes(
        "--verify removes no throttle while another program moves a partition",
        dict.fromkeys((6, 7, 8, 10, 11), _PUT_BACK),
    ),
    OwnOutcomes("one of two partitions is cancelled", {5: _PUT_BACK}),
    OwnOutcomes(
        "a cancel takes the partitions of its plan, whatever their replicas", {3: _PUT_BACK}
    ),
    OwnOutcomes("a cancel removes the throttles of moves that go on", {4: _PUT_BACK}, ends=True),
    OwnOutcomes("a cancel by a controller removes throttles", {3: "cancelled by a controller"}),
    OwnOutcomes(
        "a refusal by the guard leaves the throttle that was set for it",
        dict.fromkeys((2, 3), "a refused throttle goes"),
    ),
    OwnOutcomes("a dead broker is not replaced with a throttle", dict.fromkeys((3, 4), _DOWN)),
    OwnOutcomes("a broker dies while it receives a replica", {7: _PUT_BACK}),
    OwnOutcomes(
        "a broker dies, and the cancel cannot remove its throttle", dict.fromkeys((4, 5), _DOWN)
    ),
    OwnOutcomes(
        "with two log dirs, a replica moves between brokers and another between log dirs",
        dict.fromkeys((3, 4), "no throttle without a copy"),
    ),
    *(
        OwnOutcomes(f"on a secured cluster, one who may only look {name}", {step: difference})
        for name, step, difference in (
            ("is refused a reassignment", 2, "others are respected"),
            ("is refused a throttle", 2, "others are respected"),
            ("verifies, and is refused the removal of throttles", 3, _PUT_BACK),
            ("is refused a cancel", 3, "cluster errors"),
        )
    ),
)


def own_of(flow: Flow) -> OwnOutcomes:
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
