"""The one table by which a run's partitions are counted."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.run.states import STAGES, Stage, State, count_stages


@given(st.dictionaries(st.sampled_from(State), st.integers(0, 100_000)), st.data())
def test_every_partition_is_counted_once(counts: dict[State, int], data: st.DataObject) -> None:
    between = data.draw(st.integers(0, counts.get(State.QUEUED, 0)))
    held_up = data.draw(st.integers(0, counts.get(State.ADDING, 0)))
    stages = count_stages(counts, between, Counter({Stage.HELD_UP: held_up}))
    assert sum(stages.values()) == sum(counts.values())
    assert all(stages.values())
    assert stages.get(Stage.WAITING, 0) == between
    assert stages.get(Stage.HELD_UP, 0) == held_up


def test_what_is_ready_is_not_done_and_what_has_ended_is_not_under_way() -> None:
    assert STAGES[State.READY] is Stage.READY
    over = {Stage.DONE, Stage.CALLED_OFF, Stage.FAILED, Stage.LEFT_OUT}
    assert {STAGES[state] for state in State if state.ended} == over
