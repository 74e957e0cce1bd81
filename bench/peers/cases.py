"""What is asked of both planners, and the cluster on which it is asked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import msgspec

from bench.peers.figures import Lists, figures_of, lists_after
from ktui.cluster.partition import Brokers
from ktui.planning.intents.layout import Layout
from ktui.planning.plan import Plan

BROKERS = 7
"""On racks a, b, c, a, b, c, a: without the last one each rack has two."""
LAST = BROKERS
TOPICS = 10
PARTITIONS = 12
"""Partitions per topic."""
FACTOR = 3
ALL = tuple(range(1, BROKERS + 1))
WITHOUT_LAST = ALL[:-1]
_EVEN = ",".join(map(str, WITHOUT_LAST))
_SKEWED = {1: 3.0, 2: 3.0, LAST: 0.0}
"""Even is to be possible without fewer racks: each has two brokers."""
TOLERANCE = 0.1
"""That of `ktui plan spread`."""
UNIT = 64 * 1024
_SIZES = (1, 2, 4, 8, 16, 32)
"""In units. Each is half as frequent as the one before."""


class Topic(msgspec.Struct, frozen=True):
    """A topic to be created: for each partition its replicas, and its bytes."""

    name: str
    replicas: list[Brokers]
    bytes: list[int]


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """An intention, the words for it, and the layout that it meets."""

    name: str
    ktui: tuple[str, ...]
    """The words after `ktui plan`."""
    broker_list: tuple[int, ...]
    """The brokers that may have replicas, as `--generate` takes them; empty if it cannot do it."""
    topicmappr: tuple[str, ...] | None = None
    """The further words of `topicmappr rebuild`; None if it needs ZooKeeper for that."""
    reached: Callable[[Layout, Plan], bool]
    weights: Mapping[int, float] = {}
    """How much rather a broker had replicas; 1 where absent."""
    factor: int = FACTOR
    off_rack: float = 0.0
    """The share of the partitions that were placed regardless of racks."""

    @property
    def among(self) -> tuple[int, ...]:
        """The brokers that may have replicas after the plan."""
        return self.broker_list or ALL


def cases() -> Iterator[Case]:
    """Return the cases in the order of the table."""
    yield Case(
        name="drain a broker",
        ktui=("drain", str(LAST)),
        broker_list=WITHOUT_LAST,
        topicmappr=(),
        reached=lambda layout, plan: _loads(lists_after(layout, plan))[LAST] == 0,
    )
    yield Case(
        name="fill a new broker",
        ktui=("fill", str(LAST)),
        broker_list=ALL,
        topicmappr=("--force-rebuild",),
        reached=_has_its_share,
        weights={LAST: 0},
    )
    yield Case(
        name="spread bytes",
        ktui=("spread", "--brokers", _EVEN),
        broker_list=WITHOUT_LAST,
        reached=lambda layout, plan: _even(layout, plan, by_bytes=True),
        weights=_SKEWED,
    )
    yield Case(
        name="spread replicas",
        ktui=("spread", "--by", "replicas", "--brokers", _EVEN),
        broker_list=WITHOUT_LAST,
        topicmappr=("--force-rebuild",),
        reached=lambda layout, plan: _even(layout, plan, by_bytes=False),
        weights=_SKEWED,
    )
    yield Case(
        name="repair racks",
        ktui=("rack-repair",),
        broker_list=ALL,
        reached=lambda layout, plan: figures_of(layout, plan, ALL).racks_lacking == 0,
        off_rack=0.1,
    )
    yield Case(
        name="replication factor 2 to 3",
        ktui=("replication-factor", str(FACTOR), "*"),
        broker_list=(),
        topicmappr=("--replication", str(FACTOR)),
        reached=lambda layout, plan: all(
            len(each) == FACTOR for each in lists_after(layout, plan).values()
        ),
        factor=FACTOR - 1,
    )


def topics_of(case: Case, racks: Mapping[int, str | None]) -> list[Topic]:
    """Draw the topics of a case; always the same ones.

    Args:
        case: the case.
        racks: the rack of each broker.
    """
    chance = random.Random(1)  # noqa: S311 - not a secret
    return [
        Topic(
            f"peers-{number}",
            [_replicas(case, racks, chance) for _ in range(PARTITIONS)],
            [
                UNIT * size
                for size in chance.choices(_SIZES, [1 / size for size in _SIZES], k=PARTITIONS)
            ],
        )
        for number in range(TOPICS)
    ]


def _replicas(case: Case, racks: Mapping[int, str | None], chance: random.Random) -> Brokers:
    """Draw brokers on different racks, or in some cases regardless of these."""
    found: list[int] = []
    anywhere = chance.random() < case.off_rack
    weights = [case.weights.get(broker, 1.0) for broker in ALL]
    while len(found) < case.factor:
        broker = chance.choices(ALL, weights)[0]
        taken = {racks[other] for other in found}
        if broker not in found and (anywhere or racks[broker] not in taken):
            found.append(broker)
    return tuple(found)


def _loads(lists: Lists) -> Counter[int]:
    return Counter(broker for brokers in lists.values() for broker in brokers)


def _has_its_share(layout: Layout, plan: Plan) -> bool:
    loads = _loads(lists_after(layout, plan))
    return loads[LAST] >= loads.total() // BROKERS


def _even(layout: Layout, plan: Plan, *, by_bytes: bool) -> bool:
    loads: Counter[int] = Counter(dict.fromkeys(WITHOUT_LAST, 0))
    for tp, brokers in lists_after(layout, plan).items():
        for broker in brokers:
            loads[broker] += layout.size(tp) if by_bytes else 1
    share = loads.total() / len(WITHOUT_LAST)
    slack = share * TOLERANCE + (0 if by_bytes else 1)
    return all(abs(load - share) <= slack for load in loads.values())
