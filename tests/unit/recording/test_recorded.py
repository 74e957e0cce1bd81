"""Looks that are recorded are as those that are not."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.resources import topic_resource
from ktui.recording.lines import LostPollLine
from ktui.recording.playing import PlayedPoll
from ktui.recording.recorded import RecordingSource
from ktui.recording.recorder import Recorder
from ktui.simulated import events
from support.recordings.recordings import all_to_the_millisecond, happenings, seen_in
from support.simulated.polled_cluster import EVERYONE, Looking, looking_at_a_move

EVERYTHING = Interest(topics=frozenset({"orders"}), fresh=True, unhealthy=True, census=True)


class RecordedLooks:
    """What an observer sees of a simulated cluster, recorded."""

    def __init__(self, look: Looking, folder: Path) -> None:
        self._clock = look.clock
        recorder = Recorder(folder, look.clock, program="ktui of a test")
        self.source = RecordingSource(look.observer, recorder)

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        looking = asyncio.create_task(self.source.poll(interest))
        await self._clock.advance(1.0)
        return await looking


async def test_what_is_seen_of_a_cluster_is_in_the_recording(tmp_path: Path) -> None:
    async with looking_at_a_move() as look:
        looks = RecordedLooks(look, tmp_path)
        seen = [await looks.poll() for _ in range(10)]
        seen += [await looks.poll(EVERYTHING) for _ in range(40)]
        await look.do(events.Hang(4))
        seen += [await looks.poll(EVERYTHING) for _ in range(5)]

    assert seen[-1].failures
    assert seen[-1].census is not None
    assert seen_in(tmp_path) == all_to_the_millisecond(seen)


async def test_a_poll_that_fails_is_recorded_with_the_reason_and_fails_as_before(
    tmp_path: Path,
) -> None:
    async with looking_at_a_move() as look:
        looks = RecordedLooks(look, tmp_path)
        await looks.poll()
        await look.do(*map(events.Kill, EVERYONE))
        with pytest.raises(Unreachable) as told:
            await looks.poll()

    seen, lost = happenings(tmp_path)
    assert isinstance(seen, PlayedPoll)
    assert isinstance(lost, LostPollLine)
    assert lost.reason == str(told.value)


async def test_settings_that_someone_says_are_changed_are_read_in_the_next_look(
    tmp_path: Path,
) -> None:
    change = ConfigChange(topic_resource("orders"), "min.insync.replicas", ConfigOp.SET, "2")
    async with looking_at_a_move() as look:
        looks = RecordedLooks(look, tmp_path)
        await looks.poll()
        await look.do(events.AlterConfigs((change,)))
        looks.source.settings_changed({"orders"}, ())
        await looks.poll()

    before, after = seen_in(tmp_path)
    assert before.topic_configs["orders"].min_insync_replicas == 1
    assert after.topic_configs["orders"].min_insync_replicas == 2
