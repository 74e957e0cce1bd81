"""The simulated cluster answers and ends like each real Kafka in every recorded sequence."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence as Many

import pytest

from ktui.lab.layout import VERSIONS, Lab
from support.contract.real_stage import play_on, without_leader_rebalance
from support.contract.sequence_maker import CORDON, ONE_OUTAGE, make
from support.contract.sequence_runner import SimulatedStage, batches, play
from support.contract.sequences import SCHEMA_VERSION, SEED, Played, Recording, differences, load


@pytest.fixture(params=VERSIONS)
def recording(request: pytest.FixtureRequest) -> Recording:
    """The recording of one version of Kafka."""
    version: str = request.param
    return load(version)


async def test_a_simulated_cluster_behaves_like_the_recorded_real_one(recording: Recording) -> None:
    minor = recording.kafka_version.rpartition(".")[0]
    found: list[Played] = []
    for together in batches([played.sequence for played in recording.played]):
        stage = SimulatedStage(minor)
        found += await play(stage, together)
        await stage.aclose()

    lines = differences(recording.played, found)

    assert not lines, "\n".join(lines)


async def test_a_live_cluster_still_behaves_as_recorded(lab: Lab) -> None:
    await asyncio.to_thread(without_leader_rebalance, lab)
    recording = load(lab.layout.kafka_version)
    expected = _some_of(recording.played)

    found = await play_on(lab, [played.sequence for played in expected])

    lines = differences(expected, found)

    assert not lines, "\n".join(lines)


def _some_of(played: Many[Played]) -> list[Played]:
    """Choose fifteen, in three of which a broker is killed and in three one is cordoned."""
    quiet = [one for one in played if not one.sequence.broker_steps]
    killed = [one for one in played if one.sequence.broker_steps == ONE_OUTAGE]
    cordoned = [one for one in played if one.sequence.broker_steps == CORDON]
    chosen = ((quiet, 9), (killed, 3), (cordoned, 3))
    return [one for group, count in chosen for one in group[:: len(group) // count][:count]]


def test_every_version_was_recorded_with_the_current_sequences() -> None:
    recordings = [load(version) for version in VERSIONS]
    made = make(SEED)

    assert len(made) >= 200
    assert [r.kafka_version for r in recordings] == list(VERSIONS)
    assert all(recording.surroundings for recording in recordings)
    for recording in recordings:
        assert (recording.schema_version, recording.seed) == (SCHEMA_VERSION, SEED)
        assert [played.sequence for played in recording.played] == made
