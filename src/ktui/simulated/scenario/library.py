"""Read scenario files: YAML written by users, and the scenarios shipped with ktui."""

from __future__ import annotations

import importlib.resources
import math
from pathlib import Path
from typing import Any

from ktui.cluster.text import clean
from ktui.pacing.limits import Limits
from ktui.simulated.layout import MIB
from ktui.simulated.scenario.faults import read_captions, read_faults
from ktui.simulated.scenario.file import (
    FieldPlace,
    Scenario,
    ScenarioPart,
    SnapshotInfo,
    SnapshotPart,
    SnapshotRates,
)
from ktui.simulated.scenario.plan import plan_of
from ktui.simulated.scenario.topics import add_topics
from ktui.simulated.scenario.world import World, check_broker_settings, read_cluster, with_topics
from ktui.yamlfile import read_yaml

DEFAULT = "drain-a-broker"
MOST_BYTES = 64 * MIB  # of a file; a cluster of the most partitions needs a third of that
_FOLDER = Path(str(importlib.resources.files("ktui"))) / "simulated" / "scenarios"


def load_scenario(path: Path) -> Scenario:
    """Read a scenario file and check all of it."""
    file = read_yaml(path, MOST_BYTES)
    root = FieldPlace(file)
    part = root.convert(file.data, ScenarioPart)
    if math.isnan(part.speed):
        raise root.at("speed").problem("expected a number")
    cluster = read_cluster(root.at("cluster"), part.cluster)
    world = World(cluster)
    check_broker_settings(root.at("cluster", "brokers"), cluster, world)
    add_topics(root.at("topics"), part.topics, world, cluster.brokers)
    spec = with_topics(cluster, tuple(world.topics.values()))
    plan, limits = None, Limits()
    if part.plan is not None:
        plan, limits = plan_of(root.at("plan"), part.plan, world)
    return Scenario(
        title=clean(part.title),
        about=clean(" ".join(part.about.split())),
        spec=spec,
        faults=read_faults(root.at("faults"), part.faults, world),
        plan=plan,
        limits=limits,
        speed=part.speed,
        captions=read_captions(root.at("captions"), part.captions),
        snapshot=None if part.snapshot is None else _snapshot(root.at("snapshot"), part.snapshot),
    )


def _snapshot(place: FieldPlace, value: dict[str, Any]) -> SnapshotInfo:
    part = place.convert(value, SnapshotPart)
    rates = part.rates
    if not 1 <= rates.slow <= rates.usual <= rates.fast:
        raise place.at("rates").problem(
            "expected at least 1 byte a second, and slow <= usual <= fast"
        )
    return SnapshotInfo(
        cluster=clean(part.cluster),
        taken=part.taken,
        rates=SnapshotRates(
            slow=float(rates.slow),
            usual=float(rates.usual),
            fast=float(rates.fast),
            half_at=rates.half_at,
            most_at=rates.most_at,
            throttled=rates.throttled,
            source=rates.source,
        ),
    )


def shipped_names() -> tuple[str, ...]:
    """Return the names of the shipped scenarios, the default first."""
    names = sorted(path.stem for path in _FOLDER.glob("*.yaml"))
    return tuple(sorted(names, key=lambda name: name != DEFAULT))


def shipped_path(name: str) -> Path:
    """Return the path of a shipped scenario."""
    return _FOLDER / f"{name}.yaml"
