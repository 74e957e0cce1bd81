"""Ten minutes of a cluster in which everything that the list can show has happened."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from ktui.cluster.broker import TopicConfig
from ktui.cluster.observation import Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.progress.timeline import Progress
from support.observations import MESSAGE_BYTES, a_move, a_partition, an_observation, folded

LONG_S = 600
MESSAGES = 9_000_000
_COPIES = {
    ("orders", 0): 13_000.0,
    ("orders", 1): 9_000.0,
    ("payments", 12): 40_000.0,
    ("audit", 3): 50_000.0,
    ("clicks", 7): 12_000.0,
}
"""Messages that each adding replica copies a second."""
_STALLED_AT_S = 390.0
_BEGAN_S = {("audit", 3): 440.0, ("clicks", 7): 200.0, ("payments", 12): 60.0}
_ENDED_S = {("payments", 12): 290.0, ("clicks", 7): 420.0}

ORDERS_0, ORDERS_1, PAYMENTS, AUDIT, CLICKS, METRICS = (
    TopicPartition("orders", 0), TopicPartition("orders", 1), TopicPartition("payments", 12),
    TopicPartition("audit", 3), TopicPartition("clicks", 7), TopicPartition("metrics", 4),
)  # fmt: skip


@cache
def busy() -> Progress:
    """What is known at the end of the ten minutes."""
    return folded(_polls())


def _polls() -> Iterator[Observation]:
    for at_s in range(0, LONG_S + 1, 2):
        states = list(_states(float(at_s)))
        yield an_observation(
            states,
            float(at_s),
            brokers=range(1, 10),
            down=[9] if at_s >= _STALLED_AT_S else [],
            controller=3,
            ends={
                (state.tp, broker): _end(state, broker, float(at_s))
                for state in states
                for broker in {state.leader or -1, *state.catching_up}
            },
            starts={state.tp: 0 for state in states},
            sizes={
                (state.tp, broker): _end(state, broker, float(at_s)) * MESSAGE_BYTES
                for state in states
                for broker in state.replicas
            },
            topic_configs={state.tp.topic: TopicConfig(2) for state in states},
        )


def _states(at_s: float) -> Iterator[PartitionState]:
    yield a_move(ORDERS_0, (5, 6, 2), (7, 6, 2))
    yield a_move(ORDERS_1, (1, 2, 3), (1, 2, 9), offline=(9,) if at_s >= _STALLED_AT_S else ())
    yield _between(PAYMENTS, at_s, (4, 7, 2), (7, 4, 3), done=True)
    yield _between(AUDIT, at_s, (1, 2), (1, 2, 4), done=True)
    yield _between(CLICKS, at_s, (1, 2, 3), (1, 2, 8), done=False)
    yield a_partition(METRICS, isr=(1, 2) if at_s > LONG_S / 2 else (1, 2, 3))


def _between(
    tp: TopicPartition,
    at_s: float,
    original: tuple[int, ...],
    target: tuple[int, ...],
    *,
    done: bool,
) -> PartitionState:
    """A partition that moves for a while; afterwards at its target or where it was."""
    key = (tp.topic, tp.partition)
    if at_s < _BEGAN_S[key]:
        return a_partition(tp, original)
    if at_s < _ENDED_S.get(key, LONG_S + 1):
        return a_move(tp, original, target)
    return a_partition(tp, target if done else original)


def _end(state: PartitionState, broker: int, at_s: float) -> int:
    """A log end that grows by 500 messages a second at the leader."""
    leader_end = MESSAGES + round(500 * at_s)
    if broker in state.out_of_sync:
        return leader_end - round(600 * (at_s - LONG_S / 2))
    if broker not in state.adding:
        return leader_end
    key = (state.tp.topic, state.tp.partition)
    until_s = min(at_s, _STALLED_AT_S) if broker == 9 else at_s
    return min(leader_end, round(_COPIES[key] * (until_s - _BEGAN_S.get(key, 0.0))))
