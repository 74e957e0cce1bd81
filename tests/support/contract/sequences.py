"""Sequences of changes to a topic, their outcomes on a cluster, and the files that keep both."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from support.contract.surroundings import Surroundings

BROKERS = (1, 2, 3, 4, 5)
SEED = 20_260
RECORDED = Path(__file__).parents[2] / "contract" / "recorded"
SCHEMA_VERSION = 1


class Alter(msgspec.Struct, frozen=True, tag="alter"):
    """One request that alters partitions, or cancels with None; `factor` allows an RF change."""

    targets: Mapping[int, tuple[int, ...] | None]
    factor: bool = True


class Elect(msgspec.Struct, frozen=True, tag="elect"):
    """One request for preferred elections."""

    partitions: tuple[int, ...]


class AddPartitions(msgspec.Struct, frozen=True, tag="add"):
    """One request for more partitions; without an assignment Kafka places them."""

    count: int  # the number of partitions that the topic is to have
    assignment: tuple[tuple[int, ...], ...] | None = None
    validate_only: bool = False  # whether the cluster only says whether it would add them


class Release(msgspec.Struct, frozen=True, tag="release"):
    """Replicas held back may copy at full speed from now on."""


class Kill(msgspec.Struct, frozen=True, tag="kill"):
    """A broker loses power, and is fenced."""

    broker: int


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """A killed broker comes back."""

    broker: int


class Cordon(msgspec.Struct, frozen=True, tag="cordon"):
    """All log dirs of a broker are cordoned, where the version knows cordons (KIP-1066)."""

    broker: int


class Uncordon(msgspec.Struct, frozen=True, tag="uncordon"):
    """A broker's cordon is removed."""

    broker: int


Change = Alter | Elect | Release | AddPartitions
BrokerStep = Kill | Restart | Cordon | Uncordon
Step = Change | BrokerStep


class Sequence(msgspec.Struct, frozen=True, kw_only=True):
    """Changes to a topic of its own, one step after another, each on a quiet cluster.

    A replica that is added on a `held` broker stays behind until a `Release`. Held brokers are
    none of the first replicas. Other brokers copy within a fraction of a second.
    """

    name: str
    replicas: tuple[tuple[int, ...], ...]  # the replicas of each partition at the start
    held: tuple[int, ...] = ()
    configs: Mapping[str, str] = msgspec.field(default_factory=dict)
    steps: tuple[Step, ...]

    @property
    def broker_steps(self) -> tuple[BrokerStep, ...]:
        """What happens to brokers, which sequences that run together have in common."""
        return tuple(step for step in self.steps if isinstance(step, BrokerStep))


class Answer(msgspec.Struct, frozen=True):
    """The cluster's answer about one partition."""

    verdict: str
    code: str | None = None
    message: str = ""


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """One partition once the cluster was quiet after a step."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]  # a set, in order of id
    leader: int | None
    epochs: int = 0  # increase of the leader epoch in this step
    listed: bool = False
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] | None = None  # eligible leader replicas: a set, in order of id


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The outcome of one step: an answer per requested partition, and all partitions after it."""

    partitions: tuple[Seen, ...]  # all but those that Kafka placed, which it does at random
    answers: Mapping[int, Answer] = msgspec.field(default_factory=dict)
    """By partition; that to `AddPartitions` is under -1."""
    placed: tuple[int, ...] = ()
    """The number of replicas of each partition that Kafka placed in this step."""


class Played(msgspec.Struct, frozen=True):
    """A sequence and the outcome of each of its steps."""

    sequence: Sequence
    outcomes: tuple[Outcome, ...]


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of all sequences on one version of Kafka, and what surrounds it."""

    schema_version: int = SCHEMA_VERSION
    kafka_version: str
    seed: int
    played: tuple[Played, ...]
    surroundings: Surroundings | None = None


def file_of(version: str) -> Path:
    return RECORDED / f"kafka-{version}.json.gz"


def save(recording: Recording, path: Path) -> None:
    """Write a recording, the same bytes for the same content."""
    path.write_bytes(gzip.compress(msgspec.json.encode(recording), mtime=0))


def load(version: str) -> Recording:
    return msgspec.json.decode(gzip.decompress(file_of(version).read_bytes()), type=Recording)


def differences(expected: Iterable[Played], found: Iterable[Played]) -> list[str]:
    """Describe the first differing step of each sequence with different outcomes."""
    by_name = {played.sequence.name: played for played in found}
    return [line for played in expected for line in _first(played, by_name[played.sequence.name])]


def _first(expected: Played, found: Played) -> Iterator[str]:
    sequence = expected.sequence
    assert sequence == found.sequence, f"{sequence.name}: the sequences themselves differ"
    pairs = zip(expected.outcomes, found.outcomes, strict=True)
    for number, (wanted, got) in enumerate(pairs):
        lines = list(_of_step(wanted, got))
        if lines:
            settings = f"held {list(sequence.held)} {dict(sequence.configs)}"
            yield f"{sequence.name}: from {sequence.replicas} {settings}"
            yield from (f"  after {_words(step)}" for step in sequence.steps[:number])
            yield f"  at {_words(sequence.steps[number])}"
            yield from (f"    {line}" for line in lines)
            return


def _of_step(expected: Outcome, found: Outcome) -> Iterator[str]:
    for partition in sorted(expected.answers.keys() | found.answers.keys()):
        wanted, got = expected.answers.get(partition), found.answers.get(partition)
        if wanted != got:
            yield f"partition {partition} is answered {got}"
            yield f"{' ' * len(f'partition {partition}')} expected {wanted}"
    if expected.placed != found.placed:
        yield f"placed partitions have {found.placed} replicas, expected {expected.placed}"
    if len(expected.partitions) != len(found.partitions):
        yield f"{len(found.partitions)} partitions, expected {len(expected.partitions)}"
    pairs = zip(expected.partitions, found.partitions, strict=False)
    for partition, (before, after) in enumerate(pairs):
        yield from (f"partition {partition}: {line}" for line in _of_partition(before, after))


def _of_partition(expected: Seen, found: Seen) -> Iterator[str]:
    for field in Seen.__struct_fields__:
        wanted, got = getattr(expected, field), getattr(found, field)
        if wanted != got:
            yield f"{field} {got}, expected {wanted}"


def _words(step: object) -> str:
    return msgspec.json.encode(step).decode()
