"""The differences between two clusters that played the same sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from support.contract.sequences import Outcome, Played, Seen


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
