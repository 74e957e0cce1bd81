"""A setting that a run has read and not changed is read again before it is changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, Verdict, WriteResult
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import SettingsFound
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated import layout
from support.runs.throttled import ONE, TWO, ThrottledStory, broker, change_list, set_rate


@pytest.mark.parametrize("before", [None, 3_000_000])
@pytest.mark.parametrize("after", [None, 800_000])
def test_a_rate_set_while_the_engine_was_dead_is_put_back(
    before: int | None, after: int | None, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, ONE)
    story.cluster.configure([set_rate(4, before)])
    story.killed("after writing SettingsFound")
    story.schedule(12.0, layout.AlterConfigs((set_rate(4, after),)))

    story.to_the_end(dead_s=30.0)

    story.assert_left_as_found()
    assert story.at_target("orders-0")


def test_a_rate_somebody_changed_while_it_was_the_wanted_one_is_put_back(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([set_rate(4, 500_000)])
    story.schedule(5.0, layout.AlterConfigs((set_rate(4, 800_000),)))
    story.asked(8.0, SetThrottle(parse_throttle_rates("600kB")))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.rates == {4: "800000"}


def test_a_list_that_nobody_changes_is_journalled_once_however_long_steps_rely_on_it(
    tmp_path: Path,
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(ConfigOp.SET, "*")])

    story.to_the_end()

    found = [each.key for e in story.events if isinstance(e, SettingsFound) for each in e.found]
    assert found.count(FOLLOWER_REPLICAS) == 1
    story.assert_left_as_found()


def test_a_list_that_is_read_again_is_journalled_as_others_have_changed_it(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(ConfigOp.SET, "0:4,1:5")])
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.SET, "0:4,1:5,7:7"),)))

    story.to_the_end()

    found = [each for e in story.events if isinstance(e, SettingsFound) for each in e.found]
    values = [each.before and each.before.value for each in found if each.key == FOLLOWER_REPLICAS]
    assert values == ["0:4,1:5", "0:4,1:5,7:7"]
    story.assert_left_as_found()


def test_a_rate_that_is_changed_again_was_read_for_that_however_slow_the_read_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=2))
    reading, sending = story.reader.settings, story.sending.alter_configs
    began_s = story.clock.monotonic()

    def within(since_s: float, until_s: float) -> bool:
        return since_s <= story.clock.monotonic() - began_s < until_s

    async def slow(resources: Collection[ConfigResource], names: Collection[str]) -> Any:
        answer = await reading(resources, names)
        if within(13.0, 15.5) and broker(4) in resources:
            await story.clock.sleep(3.0)
        return answer

    async def refusing(changes: Sequence[ConfigChange], **how: Any) -> Any:
        raised = {change.resource for change in changes if change.op is ConfigOp.SET}
        if within(8.0, 13.0) and raised:
            return {each: WriteResult(Verdict.REFUSED, "POLICY_VIOLATION") for each in raised}
        return await sending(changes, **how)

    monkeypatch.setattr(story.reader, "settings", slow)
    monkeypatch.setattr(story.sending, "alter_configs", refusing)
    story.asked(8.0, SetThrottle(parse_throttle_rates("500kB,4=600kB")))
    story.asked(11.0, SetThrottle(parse_throttle_rates("500kB,4=600kB,5=700kB")))
    story.schedule(14.0, layout.AlterConfigs((set_rate(5, 800_000),)))

    story.to_the_end()

    story.assert_left_as_found()
    assert story.rates == {5: "800000"}
