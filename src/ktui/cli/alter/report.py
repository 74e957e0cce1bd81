"""What `ktui alter-topic` prints beside its run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ktui.cli.alter.change import TopicChange
from ktui.cli.output.json_form import SCHEMA_VERSION, encode, shown_json
from ktui.cli.start import dry_run as of_run
from ktui.cli.start.dry_run import DryRun
from ktui.cluster.partition import Brokers, TopicPartition
from ktui.quantities import as_count


class AddedPartitionJson(msgspec.Struct, frozen=True):
    """A new partition; `replicas` is null where Kafka is still to place them."""

    partition: int
    replicas: Brokers | None


class AddedJson(msgspec.Struct, frozen=True, kw_only=True):
    """The line of --json for new partitions."""

    schema_version: int = SCHEMA_VERSION
    event: str = "partitions_added"
    topic: str
    partitions_before: int
    partitions: int
    added: tuple[AddedPartitionJson, ...]


class AlterTopicJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui alter-topic --dry-run --json`."""

    schema_version: int = SCHEMA_VERSION
    cluster: str
    topic: str
    partitions_before: int
    partitions: int
    added: tuple[AddedPartitionJson, ...]
    run: DryRun | None
    """As of `ktui start --dry-run --json`; null if no replicas move."""


def dry_run_text(change: TopicChange, dry_run: DryRun | None) -> str:
    """Describe for people what would be sent."""
    lines = "\n".join(change.lines())
    return f"{lines}\n\n{'Nothing was sent.' if dry_run is None else of_run.dry_run_text(dry_run)}"


def dry_run_json(cluster: str, change: TopicChange, dry_run: DryRun | None) -> str:
    """Describe for scripts what would be sent."""
    placed = change.placed or [None] * change.adds
    return encode(
        AlterTopicJson(
            cluster=cluster,
            topic=change.topic,
            partitions_before=change.before,
            partitions=change.count,
            added=_added(dict(zip(change.added, placed, strict=True))),
            run=dry_run,
        )
    )


def added_text(change: TopicChange) -> str:
    """Report partitions that have been added."""
    added = as_count(change.adds, "partition")
    return f"{change.topic}: {added} added. It has {as_count(change.count, 'partition')} now"


def added_json(change: TopicChange, replicas: Mapping[TopicPartition, Brokers]) -> str:
    """Report partitions that have been added, as one line for scripts."""
    added = AddedJson(
        topic=change.topic,
        partitions_before=change.before,
        partitions=change.count,
        added=_added({tp: replicas[tp] for tp in change.added}),
    )
    return shown_json(msgspec.json.encode(added).decode())


def _added(replicas: Mapping[TopicPartition, Brokers | None]) -> tuple[AddedPartitionJson, ...]:
    return tuple(AddedPartitionJson(tp.partition, brokers) for tp, brokers in replicas.items())
