"""Make the sequences of the contract: the hand-written ones, and two hundred at random."""

from __future__ import annotations

import random

from support.contract.chosen_sequences import (
    ONE_OUTAGE,
    TWO_OUTAGES,
    UNCLEAN,
    added_partitions,
    chosen,
    cordoned,
    with_outages,
)
from support.contract.sequences import (
    BROKERS,
    Alter,
    BrokerStep,
    Change,
    Elect,
    Kill,
    Release,
    Restart,
    Sequence,
)

Target = tuple[int, ...] | None

_PLANS: tuple[tuple[int, tuple[BrokerStep, ...]], ...] = (
    (112, ()),
    (30, ONE_OUTAGE),
    (28, (Kill(2), Restart(2))),
    (30, TWO_OUTAGES),
)
"""Numbers of random sequences and their outages. Sequences with the same outages play together."""
_NOBODY = 99


def make(seed: int) -> list[Sequence]:
    """Return all sequences, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311 - dice, not secrets
    made = chosen()
    for count, outages in _PLANS:
        for _ in range(count):
            made.append(_random_sequence(chance, f"random {len(made)}", outages))
    return [*made, *added_partitions(), *cordoned()]


def _random_sequence(chance: random.Random, name: str, outages: tuple[BrokerStep, ...]) -> Sequence:
    factor = chance.choice((1, 2, 2, 3, 3, 3, 4))
    homes = chance.sample(BROKERS, min(4, factor + chance.randint(0, 1)))
    others = _not_in(homes, broken=[outage.broker for outage in outages])
    partitions = chance.choice((1, 1, 2, 3))
    replicas = tuple(tuple(chance.sample(homes, factor)) for _ in range(partitions))
    held = tuple(sorted(chance.sample(others, chance.randint(0, len(others)))))
    configs = _configs(chance, factor)
    steps = _Steps(chance, replicas, cancels=not (outages and UNCLEAN in configs))
    phases = [
        [steps.next() for _ in range(chance.randint(0, 3) if outages else chance.randint(5, 8))]
        for _ in range(len(outages) + 1)
    ]
    return Sequence(
        name=name,
        replicas=replicas,
        held=held,
        configs=configs,
        steps=with_outages(outages, phases),
    )


def _not_in(homes: list[int], *, broken: list[int]) -> list[int]:
    """Return the brokers that may be held: a restarted one copies at full speed for a moment."""
    return [broker for broker in BROKERS if broker not in homes and broker not in broken]


def _configs(chance: random.Random, factor: int) -> dict[str, str]:
    configs = {}
    if chance.random() < 0.3:
        configs["min.insync.replicas"] = str(chance.randint(1, factor))
    if chance.random() < 0.25:
        configs[UNCLEAN] = "true"
    return configs


class _Steps:
    """Random steps on one topic, mostly based on earlier steps; cancels as NEVER_UNCLEAN says."""

    def __init__(
        self, chance: random.Random, replicas: tuple[tuple[int, ...], ...], *, cancels: bool
    ) -> None:
        self._chance = chance
        self._cancels = cancels
        self._first = replicas
        self._last = list(replicas)

    def next(self) -> Change:
        """Return another step."""
        dice = self._chance.random()
        partitions = tuple(range(len(self._first)))
        if dice < 0.06:
            return Release()
        if dice < 0.2:
            return Elect(partitions)
        if dice > 0.8:
            return self._alter(partitions)
        return self._alter((self._chance.choice(partitions),))

    def _alter(self, partitions: tuple[int, ...]) -> Alter:
        targets = {partition: self._target(partition) for partition in partitions}
        return Alter(targets, factor=self._chance.random() < 0.85)

    def _target(self, partition: int) -> Target:
        cancel = self._cancel if self._cancels else self._back
        shape = self._chance.choices(
            (cancel, self._back, self._altered, self._fresh, self._impossible),
            (22, 10, 40, 24, 4),
        )[0]
        return shape(partition)

    def _cancel(self, _partition: int) -> Target:
        return None

    def _back(self, partition: int) -> Target:
        self._last[partition] = self._first[partition]
        return self._first[partition]

    def _altered(self, partition: int) -> Target:
        """Return the last target reordered, with one replaced, dropped or added, or unchanged."""
        replicas = list(self._last[partition])
        others = [broker for broker in BROKERS if broker not in replicas]
        place = self._chance.randrange(len(replicas))
        how = self._chance.choice(("order", "replace", "replace", "drop", "add", "same"))
        if how == "order":
            self._chance.shuffle(replicas)
        elif how == "replace" and others:
            replicas[place] = self._chance.choice(others)
        elif how == "drop" and len(replicas) > 1:
            del replicas[place]
        elif how == "add" and others:
            replicas.insert(place, self._chance.choice(others))
        self._last[partition] = tuple(replicas)
        return self._last[partition]

    def _fresh(self, partition: int) -> Target:
        length = self._chance.choice((len(self._first[partition]), self._chance.randint(1, 5)))
        self._last[partition] = tuple(self._chance.sample(BROKERS, length))
        return self._last[partition]

    def _impossible(self, partition: int) -> Target:
        last = self._last[partition]
        return self._chance.choice(((), (*last, last[0]), (*last, _NOBODY)))
