"""Lists of a scenario file as one text each, which YAML reads many times faster than lists.

A text has an entry for each partition, `1,2,3 2,3,1`, or for some, `7=2,3 12=3,1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from ktui.simulated.scenario.file import FieldPlace
from ktui.units import Rate, Size

Q = TypeVar("Q", Size, Rate)
Entry = tuple[FieldPlace, int, Any]
"""The place of an entry, its partition, and its value."""
_LIST = "expected a list, or a text such as '1,2,3 2,3,1'"
_SPARSE = "expected partitions and values, such as {7: 2, 12: 3} or '7=2 12=3'"


def replica_lists(place: FieldPlace, value: Any) -> list[Any]:
    """Return a list of brokers for each partition: of lists, or of a text such as `1,2,3 2,3,1`."""
    if isinstance(value, list):
        return value
    return [_brokers(place, word) for word in _text(place, value, _LIST).split()]


def quantities(place: FieldPlace, value: Any, kind: type[Q]) -> Q | tuple[Q, ...]:
    """Return one quantity, or one for each partition: of a list, or of a text, `1GiB 5MB`."""
    if isinstance(value, list):
        return tuple(place.at(index).convert(each, kind) for index, each in enumerate(value))
    words = value.split() if isinstance(value, str) else ()
    if len(words) > 1 and words[1][0].isdecimal():  # no unit after a blank
        return tuple(_quantity(place, word, kind) for word in words)
    return place.convert(value, kind)


def entries(place: FieldPlace, value: Any, partitions: int) -> Iterator[Entry]:
    """Yield the entries of some partitions: of a map, or of a text such as `7=2 12=3`.

    Args:
        value: the value; None has no entries.

    Raises:
        FileProblem: an entry is wrong, or there is no such partition; with the line.
    """
    if value is None:
        return
    if isinstance(value, dict):
        words = [(place.at(str(key)), str(key), each) for key, each in value.items()]
    else:
        split = (word.partition("=") for word in _text(place, value, _SPARSE).split())
        words = [(place, key, each) for key, _, each in split]
    seen: set[int] = set()
    for here, key, each in words:
        if not key.isdecimal() or each in (None, ""):
            raise here.problem(_SPARSE)
        partition = int(key)
        if partition >= partitions:
            raise here.problem(f"there is no partition {key}; there are 0 to {partitions - 1}")
        if partition in seen:
            raise here.problem(f"partition {partition} is named twice")
        seen.add(partition)
        yield here, partition, each


def broker_list(place: FieldPlace, value: Any) -> list[int]:
    """Return brokers: of a list, of a text such as `1,2`, or a single one."""
    if isinstance(value, list):
        return [place.at(index).convert(each, int) for index, each in enumerate(value)]
    return _brokers(place, str(value))


def sizes_by_broker(place: FieldPlace, value: Any) -> Iterator[tuple[FieldPlace, int, Size]]:
    """Yield a size for some brokers: of a map, or of a text such as `4:12GB,5:3GB`."""
    if isinstance(value, dict):
        for key, each in value.items():
            here = place.at(str(key))
            yield here, here.convert(key, int), here.convert(each, Size)
        return
    for word in _text(place, value, "expected brokers and sizes").split(","):
        broker, _, size = word.partition(":")
        if not broker.isdecimal() or not size:
            raise place.problem(f"expected a broker and a size, such as 4:12GB, got {word!r:.40}")
        yield place, int(broker), _quantity(place, size, Size)


def _brokers(place: FieldPlace, text: str) -> list[int]:
    brokers = text.split(",")
    for broker in brokers:
        if not broker.isdecimal() or not broker.isascii():
            raise place.problem(f"expected ids of brokers such as 1,2,3, got {text!r:.40}")
    return [int(broker) for broker in brokers]


def _quantity(place: FieldPlace, word: str, kind: type[Q]) -> Q:
    if word.isdecimal() and len(word) < 16:  # noqa: PLR2004 - most are plain, and small enough
        return kind(int(word))
    return place.convert(word, kind)


def _text(place: FieldPlace, value: Any, expected: str) -> str:
    """Return a text; YAML reads one of a single number as the number."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise place.problem(expected)
    return str(value)
