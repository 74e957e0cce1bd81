"""The twins of a cluster: their copy rates, and where they are played."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ktui.planning.plan import PartitionTarget, Plan
from ktui.rehearsal import twins
from ktui.rehearsal.twin import Pace, Twin
from ktui.rehearsal.twins import rehearse
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.answer import Span
from support.rehearsal.small_twins import TWIN, rehearsal_of

ALONE = Plan((PartitionTarget("empty", 0, (1, 2, 4)),))


def test_twins_played_in_processes_of_their_own_give_the_same_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rehearsal = rehearsal_of(ALONE, "load x2 at 0s")
    here = rehearse(rehearsal, TWIN, start=FIRST_MOMENT)
    monkeypatch.setattr(twins, "FEW", 0)
    monkeypatch.setattr(twins, "cores", lambda: 2)

    apart = rehearse(rehearsal, TWIN, start=FIRST_MOMENT)

    assert apart == here
    assert [twin.pace for twin in here] == [Pace.SLOW, Pace.USUAL, Pace.FAST]
    assert [twin.rate for twin in here] == [40e6, 100e6, 200e6]


def _throttled(twin: Twin) -> list[float]:
    paces = (Pace.SLOW, Pace.USUAL, Pace.FAST)
    return [twin.cluster(pace).brokers[0].throttle_share for pace in paces]


def test_copies_get_less_of_a_throttle_on_the_slow_twin_and_its_gulps_on_the_fast_one() -> None:
    brokers = [replace(broker, throttle_share=0.8) for broker in TWIN.spec.brokers]
    seen = replace(
        TWIN,
        spec=replace(TWIN.spec, brokers=tuple(brokers)),
        rates=Span(30e6, 40e6, 60e6),
        recorded=True,
    )

    assert _throttled(TWIN) == pytest.approx([0.35, 0.6, 1.1])
    assert _throttled(seen) == pytest.approx([0.8 / 1.3, 0.8, 1.1])
    assert _throttled(seen.at(1e6)) == [1.0, 1.0, 1.0]


def test_a_twin_never_has_the_id_of_its_cluster() -> None:
    spec = TWIN.cluster(Pace.SLOW)

    assert (TWIN.spec.name, spec.name) == ("prod", "simulated-prod")
    assert {broker.copy_in for broker in spec.brokers} == {40e6}
