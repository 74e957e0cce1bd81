"""Build the cluster of a scenario: its brokers and the capacity of their machines."""

from __future__ import annotations

from typing import Any

import msgspec

from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import broker_resource
from ktui.simulated.controller import schema
from ktui.simulated.layout import VERSIONS, BrokerSpec, ClusterSpec, Tide, TopicSpec
from ktui.simulated.scenario.file import BrokerPart, ClusterPart, FieldPlace, as_text
from ktui.simulated.scenario.world import World
from ktui.units import Size

MOST_BROKERS = 200
_KEYS_OF_SETTINGS = {
    schema.REBALANCE: "auto-leader-rebalance",
    schema.REBALANCE_INTERVAL: "rebalance-interval",
    schema.LAG_TIME: "replica-lag-time",
}
"""Settings that have their own key in the file."""
_MACHINE = {
    "network_in": "net_in",
    "network_out": "net_out",
    "disk_write": "disk_write",
    "copy_in": "copy_in",
    "copy_half_at": "copy_half_at",
    "copy_most_at": "copy_most_at",
    "throttle_share": "throttle_share",
    "disk": "disk_bytes",
}
"""Capacities of a machine: from the key in the file to the field of `BrokerSpec`."""


def read_cluster(place: FieldPlace, value: dict[str, Any]) -> ClusterSpec:
    """Read the section `cluster` of a file, still without topics.

    Raises:
        FileProblem: the section is wrong; with the line.
    """
    part = place.convert(value, ClusterPart)
    version = str(part.version)
    if version not in VERSIONS:
        raise place.at("version").problem(f"expected one of {', '.join(VERSIONS)}, got {version}")
    tide = part.tide
    if not tide.period:
        raise place.at("tide", "period").problem("expected more than 0 s")
    if not part.rebalance_interval:
        raise place.at("rebalance-interval").problem("expected more than 0 s")
    return ClusterSpec(
        brokers=_brokers(place, part),
        version=version,
        name=part.name,
        tide=Tide(float(tide.swing), float(tide.period), float(tide.noise)),
        session_timeout_s=float(part.session_timeout),
        lag_time_max_s=float(part.replica_lag_time),
        startup_s=float(part.startup),
        copy_start_s=float(part.copy_start),
        metadata_lag_s=float(part.metadata_lag),
        auto_leader_rebalance=part.auto_leader_rebalance,
        rebalance_interval_s=float(part.rebalance_interval),
        broker_configs=_settings(place.at("configs"), part),
    )


def with_topics(spec: ClusterSpec, topics: tuple[TopicSpec, ...]) -> ClusterSpec:
    """Return the cluster with these topics."""
    return msgspec.structs.replace(spec, topics=topics)


def check_broker_settings(place: FieldPlace, cluster: ClusterSpec, world: World) -> None:
    """Check the settings of single brokers, which Kafka must accept.

    Args:
        place: the place of the list of brokers.
        world: the same cluster, which is asked.

    Raises:
        FileProblem: a setting is wrong; with the line.
    """
    for index, broker in enumerate(cluster.brokers):
        for key, value in broker.configs.items():
            change = ConfigChange(broker_resource(broker.id), key, ConfigOp.SET, value)
            world.configure(place.at(index, "configs", key), change)


def _settings(place: FieldPlace, part: ClusterPart) -> dict[str, str]:
    """Check the static settings. A broker accepts settings that it does not know."""
    settings = {key: as_text(value) for key, value in part.configs.items()}
    for key, value in settings.items():
        if key in _KEYS_OF_SETTINGS:
            own = _KEYS_OF_SETTINGS[key]
            raise place.at(key).problem(
                f"not allowed in 'configs'; set it with {own!r} of 'cluster'"
            )
        if key in schema.BROKER and (problem := schema.BROKER[key].problem(key, value)):
            raise place.at(key).problem(problem)
        if key == schema.FETCH_BACKOFF and not value.isdecimal():
            raise place.at(key).problem(f"expected milliseconds, got {value!r}")
    return settings


def _brokers(place: FieldPlace, part: ClusterPart) -> tuple[BrokerSpec, ...]:
    here = place.at("brokers")
    parts = _listed(here, part.brokers) if isinstance(part.brokers, list) else _counted(part)
    if not 1 <= len(parts) <= MOST_BROKERS:
        raise here.problem(f"expected 1 to {MOST_BROKERS:,} brokers")
    ids: set[int] = set()
    for index, broker in enumerate(parts):
        if broker.id in ids:
            raise here.at(index).problem(f"broker {broker.id} is listed twice")
        ids.add(broker.id)
    return tuple(_broker(here, each, part, turn) for turn, each in enumerate(parts))


def _counted(part: ClusterPart) -> list[BrokerPart]:
    """Number the brokers from 1, up to one too many: enough to refuse any larger count."""
    assert isinstance(part.brokers, int)  # noqa: S101 - the caller has checked that it is no list
    return [BrokerPart(id=number) for number in range(1, min(part.brokers, MOST_BROKERS + 1) + 1)]


def _listed(place: FieldPlace, values: list[Any]) -> list[BrokerPart]:
    return [
        place.at(index).convert(value if isinstance(value, dict) else {"id": value}, BrokerPart)
        for index, value in enumerate(values)
    ]


def _broker(place: FieldPlace, own: BrokerPart, shared: ClusterPart, turn: int) -> BrokerSpec:
    """Fill in a broker's missing fields; brokers without a rack get the cluster's in turn."""
    rack = shared.racks[turn % len(shared.racks)] if shared.racks else None
    known: dict[str, Any] = {}
    for key, name in _MACHINE.items():
        value = getattr(own, key) if getattr(own, key) is not None else getattr(shared, key)
        if value is not None and value <= 0 and key != "copy_half_at":
            raise place.problem(f"{key.replace('_', '-')} of broker {own.id}: expected more than 0")
        if value is not None:
            known[name] = int(value) if isinstance(value, Size) else float(value)
    configs = {key: as_text(value) for key, value in own.configs.items()}
    return BrokerSpec(id=own.id, rack=own.rack or rack, down=own.down, configs=configs, **known)
