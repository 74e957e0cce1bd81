"""`ktui broker status --json`."""

from __future__ import annotations

import msgspec

from ktui.cli.output.json_form import SCHEMA_VERSION
from ktui.execution.broker.holdings import HeldReplica, Stay, TopicHoldings
from ktui.execution.broker.status import BrokerStatus


class LogDirJson(msgspec.Struct, frozen=True):
    """One log dir, as the broker reports it. Bytes."""

    path: str
    error: str | None
    total_bytes: int | None
    usable_bytes: int | None
    cordoned: bool


class ReplicaJson(msgspec.Struct, frozen=True, kw_only=True):
    """One replica on the broker."""

    partition: int
    bytes: int | None
    why: Stay
    run: str | None
    """The run that moves, takes or keeps it; for a canary, the run that it belongs to."""
    leaves: bool
    """Whether something takes it away, without a further plan."""
    leads: bool
    preferred: bool
    only_in_sync: bool
    offline: bool
    """Whether its partition has no leader."""
    moves_dirs: bool


class TopicJson(msgspec.Struct, frozen=True):
    """The replicas of one topic on the broker."""

    topic: str
    bytes: int | None
    replicas: tuple[ReplicaJson, ...]


class BrokerStatusJson(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `ktui broker status --json`."""

    schema_version: int
    cluster: str
    cluster_id: str
    broker: int
    registered: bool
    alive: bool
    rack: str | None
    log_dirs: tuple[LogDirJson, ...] | None
    """Null where the broker does not answer."""
    replicas: int
    bytes: int | None
    leads: int
    preferred: int
    only_in_sync: int
    whys: dict[Stay, int]
    """How many replicas are there for each reason."""
    topics: tuple[TopicJson, ...]
    """Every topic, that with the most bytes first."""
    without_engine: tuple[str, ...]
    """The runs among them that wait for `ktui resume`."""
    unread: tuple[str, ...]


def status_json(cluster: str, view: BrokerStatus) -> BrokerStatusJson:
    """Return the JSON form of a broker's status."""
    facts, held = view.facts, view.holdings.replicas
    broker = facts.broker
    return BrokerStatusJson(
        schema_version=SCHEMA_VERSION,
        cluster=cluster,
        cluster_id=facts.cluster_id,
        broker=facts.id,
        registered=broker is not None,
        alive=broker is not None and broker.alive,
        rack=None if broker is None else broker.rack,
        log_dirs=None if facts.on_disk is None else _log_dirs(view),
        replicas=len(held),
        bytes=view.holdings.bytes,
        leads=sum(each.leads for each in held),
        preferred=sum(each.preferred for each in held),
        only_in_sync=sum(each.only_in_sync for each in held),
        whys={why: view.holdings.count(why) for why in Stay},
        topics=tuple(map(_topic, view.holdings.topics())),
        without_engine=view.without_engine,
        unread=facts.unread,
    )


def _log_dirs(view: BrokerStatus) -> tuple[LogDirJson, ...]:
    return tuple(
        LogDirJson(each.path, each.error, each.total_bytes, each.usable_bytes, each.cordoned)
        for each in sorted(view.facts.log_dirs, key=lambda log_dir: log_dir.path)
    )


def _topic(topic: TopicHoldings) -> TopicJson:
    return TopicJson(topic.topic, topic.bytes, tuple(map(_replica, topic.replicas)))


def _replica(held: HeldReplica) -> ReplicaJson:
    return ReplicaJson(
        partition=held.tp.partition,
        bytes=held.size,
        why=held.why,
        run=held.run or None,
        leaves=held.why.leaves,
        leads=held.leads,
        preferred=held.preferred,
        only_in_sync=held.only_in_sync,
        offline=held.offline,
        moves_dirs=held.moves_dirs,
    )
