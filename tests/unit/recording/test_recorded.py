"""A recorded poll returns what an unrecorded one does."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ktui.cluster.errors import Unreachable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import NO_INTEREST, Interest
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import topic_resource
from ktui.recording.lines import LostPollLine
from ktui.recording.reading import PlayedPoll
from ktui.recording.recorder import Recorder
from ktui.recording.replay_tape import RecordingSource
from ktui.simulated import layout
from support.recordings.recordings import all_to_the_millisecond, happenings, seen_in
from support.simulated.polled_cluster import EVERYONE, Looking, looking_at_a_move

EVERYTHING = Interest(topics=frozenset({"orders"}), fresh=True, unhealthy=True, census=True)


class RecordedPolls:
    """The recorded polls of a simulated cluster."""

    def __init__(self, polled: Looking, folder: Path) -> None:
        self._clock = polled.clock
        recorder = Recorder(folder, polled.clock, program="ktui of a test")
        self.source = RecordingSource(polled.observer, recorder)

    async def poll(self, interest: Interest = NO_INTEREST) -> Observation:
        polling = asyncio.create_task(self.source.poll(interest))
        await self._clock.advance(1.0)
        return await polling


async def test_every_poll_of_a_cluster_is_in_the_recording(tmp_path: Path) -> None:
    async with looking_at_a_move() as polled:
        polls = RecordedPolls(polled, tmp_path)
        seen = [await polls.poll() for _ in range(10)]
        seen += [await polls.poll(EVERYTHING) for _ in range(40)]
        await polled.do(layout.Hang(4))
        seen += [await polls.poll(EVERYTHING) for _ in range(5)]

    assert seen[-1].failures
    assert seen[-1].census is not None
    assert seen_in(tmp_path) == all_to_the_millisecond(seen)


async def test_a_poll_that_fails_is_recorded_with_the_reason_and_fails_as_before(
    tmp_path: Path,
) -> None:
    async with looking_at_a_move() as polled:
        polls = RecordedPolls(polled, tmp_path)
        await polls.poll()
        await polled.do(*map(layout.Kill, EVERYONE))
        with pytest.raises(Unreachable) as raised:
            await polls.poll()

    seen, lost = happenings(tmp_path)
    assert isinstance(seen, PlayedPoll)
    assert isinstance(lost, LostPollLine)
    assert lost.reason == str(raised.value)


async def test_settings_reported_as_changed_are_read_in_the_next_poll(
    tmp_path: Path,
) -> None:
    change = ConfigChange(topic_resource("orders"), "min.insync.replicas", ConfigOp.SET, "2")
    async with looking_at_a_move() as polled:
        polls = RecordedPolls(polled, tmp_path)
        await polls.poll()
        await polled.do(layout.AlterConfigs((change,)))
        polls.source.settings_changed({"orders"}, ())
        await polls.poll()

    before, after = seen_in(tmp_path)
    assert before.topic_configs["orders"].min_insync_replicas == 1
    assert after.topic_configs["orders"].min_insync_replicas == 2
