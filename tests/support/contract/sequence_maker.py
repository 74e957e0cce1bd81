"""Make the sequences of the contract: the hand-written ones, and two hundred at random."""

from __future__ import annotations

import random
from collections.abc import Iterator
from collections.abc import Sequence as Many

from support.contract.sequences import (
    BROKERS,
    AddPartitions,
    Alter,
    BrokerStep,
    Change,
    Cordon,
    Elect,
    Kill,
    Release,
    Restart,
    Sequence,
    Uncordon,
)

ONE_OUTAGE: tuple[BrokerStep, ...] = (Kill(5), Restart(5))
TWO_OUTAGES: tuple[BrokerStep, ...] = (Kill(5), Kill(4), Restart(4), Restart(5))
CORDON: tuple[BrokerStep, ...] = (Cordon(4), Uncordon(4))

UNCLEAN = "unclean.leader.election.enable"
NEVER_UNCLEAN = (
    "a cancel that would leave no original in sync",
    "the only replica dies during a move",
)
"""Left out with unclean elections, where a cancel can end a controller (Kafka 4.1.2 to 4.3.1).

For the same reason random sequences with outages and unclean elections have no cancels.
"""

CANCEL = Alter({0: None})
ELECT = Elect((0,))
RELEASE = Release()


def to(*replicas: int, factor: bool = True) -> Alter:
    """Alter partition 0."""
    return Alter({0: replicas}, factor)


def with_outages(
    outages: tuple[BrokerStep, ...], phases: Many[Many[Change]]
) -> tuple[Change | BrokerStep, ...]:
    """Put the outages between the phases; there is one more phase than outages."""
    steps: list[Change | BrokerStep] = list(phases[0])
    for outage, phase in zip(outages, phases[1:], strict=True):
        steps += [outage, *phase]
    return tuple(steps)


def chosen() -> list[Sequence]:
    return [*_quiet(), *_one_outage(), *_two_outages()]


def _quiet() -> Iterator[Sequence]:
    """Without outages: by default partition 0 is on 2, 1, 3, and brokers 4 and 5 are held back."""
    plans: dict[str, tuple[Change, ...]] = {
        "an alter during a move makes it forget its origin": (to(4, 1, 3), to(4, 5, 1), CANCEL),
        "a target that keeps what is removed does nothing": (to(4, 1, 3), to(4, 1, 3, 2), RELEASE),
        "a rollback by alter": (to(4, 1, 3), to(2, 1, 3), CANCEL),
        "a rollback by alter in another order": (to(4, 1, 3), to(1, 2, 3), RELEASE),
        "a rollback by alter, let go": (to(4, 5, 3), to(2, 1, 3), RELEASE),
        "a new target drops an adding replica": (to(4, 1, 3), to(5, 1, 3), RELEASE),
        "a new target adds nothing and drops an adding one": (to(4, 5, 3), to(4, 1, 3), RELEASE),
        "a new target drops one, and is cancelled": (to(4, 5, 3), to(5, 1, 3), CANCEL, CANCEL),
        "a new target names what is being removed": (to(4, 1, 3), to(2, 4, 3), RELEASE),
        "a new target of other lengths": (to(4, 1, 3), to(4, 3), to(4, 1, 3), RELEASE),
        "a cancel loses the order": (to(4, 5, 1), CANCEL),
        "a cancel where nothing moves": (CANCEL, to(4, 1, 3), RELEASE, CANCEL),
        "the rollback that is safe": (to(4, 5, 1), CANCEL, to(2, 1, 3), ELECT),
        "another replication factor, guarded": (
            to(2, 1, 3, 4, factor=False),
            to(2, 1, factor=False),
            to(4, 1, 3, factor=False),
            to(4, 1, 3, 2, factor=False),
            to(4, 1, factor=False),
            to(5, 1, 4, factor=False),
        ),
        "another replication factor": (to(2, 1, 3, 4), RELEASE, to(2, 1), to(2), to(4, 5)),
        "another order, and an election": (to(3, 1, 2), ELECT, ELECT, to(2, 3, 1)),
        "an election of one not in sync": (to(4, 1, 3), ELECT, RELEASE, ELECT),
        "an election during a move": (to(1, 4, 3), ELECT, CANCEL, ELECT),
        "an election of one being removed": (to(3, 1, 4), ELECT, to(3, 1, 4), CANCEL),
        "the same target again": (to(4, 1, 3), to(4, 1, 3), RELEASE, to(4, 1, 3)),
        "the same replicas again": (to(2, 1, 3), to(1, 2, 3), to(1, 2, 3)),
        "the same target in another order": (to(4, 1, 3), to(1, 4, 3), RELEASE),
        "the leader is dropped": (to(1, 3), to(3)),
        "the leader is dropped in another order": (to(3, 1), ELECT),
        "a follower is dropped": (to(2, 1), to(2)),
        "a removal during a move": (to(4, 1, 3), to(4, 1), to(4), CANCEL),
        "impossible targets": (to(), to(2, 1, 1), to(2, 1, 99), to(99, 99), to(2, 1, -1)),
        "impossible targets during a move": (to(4, 1, 3), to(), to(4, 4), to(4, 99), CANCEL),
        "impossible targets, guarded": (
            to(factor=False),
            to(2, 1, 1, factor=False),
            to(2, 1, 99, factor=False),
            to(2, 99, factor=False),
        ),
        "a swap of everything": (to(4, 5), RELEASE),
        "a swap of everything, cancelled": (to(5, 4), CANCEL, ELECT),
    }
    for name, steps in plans.items():
        yield Sequence(name=name, replicas=((2, 1, 3),), held=(4, 5), steps=steps)
    yield Sequence(
        name="free targets complete",
        replicas=((2, 1, 3),),
        steps=(to(4, 5, 3), to(2, 1, 3), to(2, 1, 3, 4, 5), to(1), CANCEL),
    )
    yield Sequence(
        name="each partition of a request has an answer of its own",
        replicas=((2, 1), (1, 3), (3, 2)),
        held=(4, 5),
        steps=(
            Alter({0: (4, 1), 1: (1, 99), 2: None, 77: (1, 2)}),
            Alter({0: None, 1: None, 2: (2, 3), 77: None}, factor=False),
            Elect((0, 1, 2, 77)),
            Alter({0: (2, 1, 4), 1: (5, 4), 2: (2, 4)}, factor=False),
            RELEASE,
            Elect((0, 1, 2)),
        ),
    )
    yield Sequence(
        name="a single replica moves",
        replicas=((1,),),
        held=(4,),
        steps=(to(4), CANCEL, to(4), RELEASE, to(5), CANCEL, to(5, 1, 2)),
    )
    yield Sequence(
        name="min.insync.replicas stops no removal",
        replicas=((2, 1, 3),),
        held=(4,),
        configs={"min.insync.replicas": "3"},
        steps=(to(2, 1), to(4, 1), to(1), RELEASE, to(1, 2, 3)),
    )


def _one_outage() -> Iterator[Sequence]:
    """Broker 5 is killed and comes back."""
    plans: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[Change, ...], ...]]] = {
        "a dead target is accepted, and cancelled": (
            (2, 1, 3),
            (4,),
            ((), (to(5, 1, 3), CANCEL), ()),
        ),
        "a dead target hangs until it is back": ((2, 1, 3), (4,), ((), (to(5, 1, 3),), (CANCEL,))),
        "a dead target beside a free one": ((2, 1, 3), (), ((), (to(5, 4, 3), to(4, 1, 3)), ())),
        "a kept replica is dead": ((2, 5, 3), (), ((), (to(2, 5, 4), CANCEL), (to(2, 5, 4),))),
        "a kept replica is dead, and more go than come": (
            (2, 5, 3, 1),
            (),
            ((), (to(2, 5, 4), to(2, 5)), (CANCEL,)),
        ),
        "a dead replica is removed": ((2, 5, 3), (4,), ((), (to(2, 4, 3), RELEASE), (to(5, 4),))),
        "a dead replica is dropped": ((2, 5, 3), (4,), ((), (to(2, 3), to(2)), (to(5, 2),))),
        "one is dropped while another is dead": (
            (2, 5, 3),
            (4,),
            ((), (to(2, 5), CANCEL, to(5, 2)), (ELECT,)),
        ),
        "the dead preferred leader": ((5, 1, 3), (4,), ((), (ELECT, to(1, 5, 3), ELECT), (ELECT,))),
        "the leader dies during a move": ((5, 1, 3), (4,), ((to(4, 1, 3),), (CANCEL,), (ELECT,))),
        "the leader dies during a move away from it": (
            (5, 1, 3),
            (4,),
            ((to(1, 3, 4),), (RELEASE,), (to(5, 1),)),
        ),
        "a target dies during a move": ((2, 1, 3), (4,), ((to(4, 5, 3),), (RELEASE,), (CANCEL,))),
        "a rollback by alter while a target is dead": (
            (2, 1, 3),
            (4,),
            ((to(4, 5, 3),), (to(2, 1, 3),), (CANCEL, to(2, 1, 3))),
        ),
        "a cancel that would leave no original in sync": (
            (5,),
            (1,),
            ((to(4, 1),), (CANCEL, ELECT, to(4, 5)), (CANCEL, RELEASE)),
        ),
        "the only replica dies": ((5,), (4,), ((), (to(4), ELECT, CANCEL, to(1, 5)), (RELEASE,))),
        "the only replica dies during a move": ((5,), (4,), ((to(4),), (CANCEL, to(1)), (ELECT,))),
    }
    for name, (replicas, held, phases) in plans.items():
        steps = with_outages(ONE_OUTAGE, phases)
        yield Sequence(name=name, replicas=(replicas,), held=held, steps=steps)
        if name not in NEVER_UNCLEAN:
            yield Sequence(
                name=f"{name}, with unclean elections",
                replicas=(replicas,),
                held=held,
                configs={UNCLEAN: "true"},
                steps=steps,
            )


def _two_outages() -> Iterator[Sequence]:
    """Brokers 5 and 4 are killed, one after the other, and come back in the opposite order."""
    plans: dict[str, tuple[tuple[int, ...], tuple[tuple[Change, ...], ...]]] = {
        "all replicas die": ((5, 4), ((), (), (ELECT, CANCEL), (ELECT,), (ELECT,))),
        "all replicas die in the other order": ((4, 5), ((), (), (ELECT,), (), (ELECT,))),
        "an offline partition is moved": (
            (5, 4),
            ((), (), (to(1, 2), ELECT, CANCEL), (), (ELECT,)),
        ),
        "one of three is left": ((5, 4, 3), ((), (ELECT,), (to(3, 4, 5), ELECT), (), (ELECT,))),
        "one of three is left during a move": (
            (5, 4, 3),
            ((to(1, 2),), (), (CANCEL,), (), (to(3, 4), ELECT)),
        ),
        "the last in sync goes": ((3, 4, 5), ((to(5, 4),), (), (to(4, 1),), (CANCEL,), (ELECT,))),
    }
    settings: tuple[dict[str, str], ...] = (
        {},
        {"min.insync.replicas": "2"},
        {"min.insync.replicas": "2", UNCLEAN: "true"},
    )
    for name, (replicas, phases) in plans.items():
        for configs in settings:
            yield Sequence(
                name=", ".join((name, *(f"{key}={value}" for key, value in configs.items()))),
                replicas=(replicas,),
                held=(1,),
                configs=configs,
                steps=with_outages(TWO_OUTAGES, phases),
            )


DECIDING = {2: (0, 1), 3: (0, 2), 5: (0, 2), 6: (0, 5), 20: (0, 13, 19)}
"""By the number of a topic's partitions: those of which one is moved while others are added."""


def added_partitions() -> Iterator[Sequence]:
    """Partitions are added while others move; broker 4 is held back."""
    for count, deciding in DECIDING.items():
        for moved in deciding:
            yield Sequence(
                name=f"partitions are added while {moved} of {count} moves",
                replicas=((2, 1),) * count,
                held=(4,),
                steps=(
                    Alter({moved: (4, 1)}),
                    AddPartitions(count + 2),
                    AddPartitions(count + 3, ((1, 2),)),
                    AddPartitions(count + 3, ((5, 1, 3),)),
                    Alter({moved: None}),
                    AddPartitions(count + 4),
                ),
            )
    yield Sequence(
        name="partitions are added after one got more replicas",
        replicas=((2, 1), (1, 2), (2, 1)),
        steps=(Alter({2: (2, 1, 3)}), AddPartitions(5), Alter({0: (2, 1, 3, 5)}), AddPartitions(6)),
    )
    yield Sequence(
        name="more partitions than a request may make",
        replicas=((1,),),
        steps=(
            AddPartitions(10_001, validate_only=True),
            AddPartitions(10_002, validate_only=True),
        ),
    )
    yield Sequence(
        name="partitions are added while a broker is dead",
        replicas=((2,),),
        held=(4,),
        steps=with_outages(
            ONE_OUTAGE,
            (
                (to(4),),
                (
                    AddPartitions(2, ((5,),)),
                    AddPartitions(2, ((5, 1),)),
                    AddPartitions(4),
                    CANCEL,
                    AddPartitions(5, ((5,),)),
                ),
                (AddPartitions(6),),
            ),
        ),
    )


def cordoned() -> Iterator[Sequence]:
    """Broker 4 is cordoned and uncordoned; 5 is held back."""
    three = (2, 1, 3)
    plans: dict[str, tuple[tuple[int, ...], tuple[tuple[Change, ...], ...]]] = {
        "a target names a cordoned broker": (
            three,
            ((), (to(4, 1, 3), to(2, 1, 3, 4), to(4), CANCEL), (to(4, 1, 3),)),
        ),
        "an impossible target names a cordoned broker": (
            three,
            ((), (to(4, 4, 1), to(4, 99, 1), to(), to(4, 1, factor=False), to(4, 5)), ()),
        ),
        "a cordoned broker stays": (
            (2, 4, 3),
            ((), (to(4, 2, 3), to(2, 4), to(2, 4, 3, 1), to(2, 4, 3), to(2, 1, 4)), (to(4, 2),)),
        ),
        "a cordoned broker goes": ((2, 4, 3), ((), (to(2, 1, 3), to(2, 4, 3)), (to(2, 4, 3),))),
        "a cordoned leader goes": ((4, 2, 3), ((), (to(2, 1, 3), ELECT, to(1, 2, 3)), ())),
        "a cordoned broker is dropped": ((2, 4, 3), ((), (to(2, 3), to(2)), ())),
        "the only replica is on a cordoned broker": (
            (4,),
            ((), (to(4, 1), to(1, 4), to(5), CANCEL, to(1)), (to(4),)),
        ),
        "a cordoned broker is elected": ((1, 4, 3), ((to(4, 1, 3),), (ELECT, ELECT), (ELECT,))),
        "a move away from a cordoned broker is cancelled": (
            (2, 4, 3),
            ((), (to(2, 5, 3), CANCEL, to(2, 4, 3), to(2, 5, 3), RELEASE), ()),
        ),
        "a move away began before the cordon, and is cancelled": (
            (2, 4, 3),
            ((to(2, 5, 3),), (CANCEL, to(4, 2, 3)), (to(4, 2, 3),)),
        ),
        "a move away began before the cordon, and gets other targets": (
            (2, 4, 3),
            ((to(2, 5, 3),), (to(2, 5, 4), to(2, 5, 1), RELEASE), (CANCEL,)),
        ),
    }
    for name, (replicas, phases) in plans.items():
        yield Sequence(
            name=name, replicas=(replicas,), held=(5,), steps=with_outages(CORDON, phases)
        )
    onto: dict[str, tuple[tuple[Change, ...], ...]] = {
        "completes": ((to(4, 1, 3),), (RELEASE, to(4, 3, 1), to(2, 1, 3)), ()),
        "is cancelled": ((to(4, 1, 3),), (CANCEL, to(4, 1, 3)), (to(4, 1, 3),)),
        "is sent again": ((to(4, 1, 3),), (to(4, 1, 3), to(2, 1, 3), CANCEL), ()),
        "gets another target": ((to(4, 1, 3),), (to(5, 1, 3), CANCEL, RELEASE), ()),
    }
    for name, phases in onto.items():
        yield Sequence(
            name=f"a move onto a broker that is then cordoned {name}",
            replicas=(three,),
            held=(4, 5),
            steps=with_outages(CORDON, phases),
        )
    yield Sequence(
        name="one target of a request names a cordoned broker",
        replicas=((2, 1), (1, 3), (3, 4)),
        held=(5,),
        steps=with_outages(
            CORDON,
            (
                (),
                (Alter({0: (4, 1), 1: (5, 3), 2: (4, 3)}), Alter({0: (3, 1), 1: None, 2: (3, 2)})),
                (Alter({0: (4, 1), 2: (3, 4)}),),
            ),
        ),
    )
    yield Sequence(
        name="partitions are added beside a cordoned broker",
        replicas=((2, 4, 3),),
        steps=with_outages(
            CORDON,
            (
                (AddPartitions(2, ((4, 1, 2),)),),
                (
                    AddPartitions(3, ((4, 1, 3),)),
                    AddPartitions(4, ((5, 1, 3), (1, 4, 5))),
                    AddPartitions(6),
                    AddPartitions(7, ((5, 1, 3),)),
                ),
                (AddPartitions(8, ((4, 1, 3),)),),
            ),
        ),
    )
    yield Sequence(
        name="too few brokers are without a cordon",
        replicas=((1, 2, 3, 4, 5),),
        steps=with_outages(CORDON, ((), (AddPartitions(2),), (AddPartitions(2),))),
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
