"""The JSON form of a run's events, and of the notices that the command of `--on-event` gets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET

from ktui.cluster.errors import Failure
from ktui.cluster.observation import Observation
from ktui.json_text import encode, shown_json, utc
from ktui.planning.throttle_rates import Objective
from ktui.progress.row import PartitionJson, partition_json
from ktui.progress.timeline import Timeline

__all__ = [
    "SCHEMA_VERSION",
    "ListJson",
    "encode",
    "encode_record",
    "list_json",
    "record_object",
    "shown_json",
    "utc",
]

SCHEMA_VERSION = 1


class FailureJson(msgspec.Struct, frozen=True):
    """A missing part of the answer."""

    operation: str
    broker: int | None
    topic: str | None
    answer: str


class ListJson(msgspec.Struct, frozen=True):
    """The output of `ktui list --json`."""

    schema_version: int
    cluster_id: str
    at: str
    partitions: tuple[PartitionJson, ...]
    failures: tuple[FailureJson, ...]


def list_json(observation: Observation, timelines: Iterable[Timeline]) -> ListJson:
    """Return the JSON form of one poll of the cluster."""
    return ListJson(
        schema_version=SCHEMA_VERSION,
        cluster_id=observation.cluster_id,
        at=utc(observation.at),
        partitions=tuple(partition_json(timeline) for timeline in timelines),
        failures=tuple(failure_json(failure) for failure in observation.failures),
    )


def failure_json(failure: Failure) -> FailureJson:
    """Return the JSON form of a missing part of an answer."""
    return FailureJson(failure.operation.value, failure.broker, failure.topic, failure.answer)


def encode_record(record: Any) -> str:
    """Return a record as the JSON object that a verb prints, indented for readers.

    It has `schema_version`, then every field of the record, with times in UTC. The record itself
    is the contract: golden files hold it.
    """
    return encode({"schema_version": SCHEMA_VERSION} | record_object(record))


def record_object(value: Any) -> Any:
    """Return a record as plain JSON values: an object with every field, also those with defaults.

    An objective is its text ("p99<150ms"). A field that is unset is left out.
    """
    match value:
        case Objective():
            return str(value)
        case msgspec.Struct():
            names = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
            values = ((name, getattr(value, field)) for name, field in names)
            return {name: record_object(each) for name, each in values if each is not UNSET}
        case datetime():
            return utc(value)
        case Mapping():
            return {str(key): record_object(each) for key, each in value.items()}
        case list() | tuple():
            return [record_object(each) for each in value]
    return value
