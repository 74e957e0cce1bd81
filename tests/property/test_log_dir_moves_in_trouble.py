"""Paced moves between log dirs on a simulated cluster, whatever happens on the way."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from ktui.cli.reassign.log_dirs.pacing import Pace
from ktui.cluster.clock import wait_at_most
from ktui.cluster.partition import Replica
from ktui.simulated import events
from support.simulated.moving_log_dirs import FIRST, SECOND, SIZE, MovingDirs, on

LIMIT_S = 1_200.0
"""Far more than moves, broken brokers and waits for room take together."""
_SECONDS = st.floats(0.0, 60.0)
_TROUBLE = st.one_of(
    st.builds(events.Kill, st.just(2)),
    st.builds(events.Start, st.just(2)),
    st.builds(events.FailLogDir, st.sampled_from((1, 2)), st.just(SECOND)),
    st.builds(events.FillDisk, st.just(1), st.integers(SIZE, 3 * SIZE)),
    st.just(events.LoseAnswer()),
    st.just(events.LoseRequest()),
    st.just(events.ChangeController()),
)
_WANTED = st.dictionaries(
    st.builds(on, st.sampled_from((1, 2)), st.integers(0, 5)),
    st.sampled_from((FIRST, SECOND)),
    min_size=1,
)
_PACES = st.builds(Pace, per_dir=st.integers(1, 3), one_broker=st.booleans())


@given(_WANTED, _PACES, st.lists(st.tuples(_SECONDS, _TROUBLE), max_size=4))
def test_moves_end_within_their_pace_and_each_is_complete_or_has_a_reason(
    wanted: dict[Replica, str], pace: Pace, trouble: list[tuple[float, events.OutsideEvent]]
) -> None:
    dirs = MovingDirs()
    for second, act in trouble:
        dirs.at(second, act)

    async def moved() -> dict[str, str]:
        moving = asyncio.ensure_future(dirs.move(wanted, pace))
        await wait_at_most(LIMIT_S, moving, dirs.cluster.clock)
        assert moving.done()
        return await moving

    left = asyncio.run(moved())

    assert pace.per_dir is not None
    assert max(dirs.ports.most.values(), default=0) <= pace.per_dir
    if pace.one_broker:
        assert all(len(brokers) <= 1 for brokers in dirs.ports.together)
    for replica, path in wanted.items():
        held = dirs.cluster.replication.replica_dir(replica.tp, replica.broker)
        if held is not None and held.path != path:  # else it is there, or lost with its log dir
            assert f"{replica.tp}-{replica.broker}" in left
    lossy = any(isinstance(act, events.LoseRequest | events.LoseAnswer) for _, act in trouble)
    assert lossy or len(dirs.ports.sent) == len({*dirs.ports.sent})
