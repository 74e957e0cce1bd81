"""Lists of others that also throttle a run's replicas: nothing goes unthrottled without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.cluster.ports import ConfigOp
from ktui.execution.run.events import Configure
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.runs.throttled import TWO, ThrottledStory, change_list
from support.simulated.moving_clusters import tp

FOUR = {f"orders-{n}": ((1, 2, 3), (4, 2, 3)) for n in range(4)}


def appended(story: ThrottledStory) -> set[str | None]:
    changes = (c for e in story.events if isinstance(e, Configure) for c in e.changes)
    return {change.value for change in changes if change.op is ConfigOp.APPEND}


@pytest.mark.parametrize("theirs", ["*", "0:4,1:5", "1:5", "7:7, 1:5"])
def test_a_replica_is_listed_once_a_list_of_others_no_longer_binds_it(
    theirs: str, tmp_path: Path
) -> None:
    story = ThrottledStory(tmp_path, TWO)
    story.cluster.configure([change_list(ConfigOp.SET, theirs)])
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.DELETE, None),)))

    story.to_the_end()

    assert "1:5" in appended(story)
    story.assert_left_as_found()


def test_a_replica_is_listed_once_a_wildcard_list_set_midway_is_gone(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, FOUR)
    story.schedule(5.0, layout.AlterConfigs((change_list(ConfigOp.SET, "*"),)))
    story.schedule(30.0, layout.AlterConfigs((change_list(ConfigOp.DELETE, None),)))

    story.to_the_end()

    assert {"0:4", "3:4"} <= appended(story)
    story.assert_left_as_found()


def test_no_step_is_sent_while_a_list_it_relies_on_cannot_be_read(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, TWO, limits=Limits(replicas=1, partitions=1))
    story.cluster.configure([change_list(ConfigOp.SET, "*")])
    story.schedule(3.0, layout.Deny("topic_configs"))
    story.schedule(100.0, layout.Allow("topic_configs"))

    story.played(until_s=90.0)

    assert story.witness.effective(tp("orders-1")) == []
