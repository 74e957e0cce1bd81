"""Pure: the throttles that are set in a cluster, and which of them nobody needs any more."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.cluster.ports import ConfigResource, ConfigScope, ConfigSource, Setting
from ktui.cluster.throttle_settings import LOG_DIR_RATE, RATES, REPLICAS, entries
from ktui.execution.throttled import Key
from ktui.progress.left_behind import needed

BROKER_KEYS = (*RATES, LOG_DIR_RATE)

Settings = Mapping[ConfigResource, Mapping[str, Setting]]
Moving = Mapping[TopicPartition, Reassignment]


class Stands(enum.StrEnum):
    """Why a throttle stands."""

    LEFT_BEHIND = "left behind"
    """Nobody needs it."""
    MOVING = "moving"
    """A move in flight needs it, or may."""
    LIVE_RUN = "live run"
    WAITING_RUN = "waiting run"
    """A run set it that no process carries on: resumed, it puts back what stood there."""
    LOG_DIRS = "log dirs"
    """It binds moves between log dirs, which are not seen."""
    INHERITED = "inherited"
    """It is not set on the broker itself."""


class Claim(msgspec.Struct, frozen=True):
    """What a run that is not at its end has set, or may have."""

    run: str
    live: bool
    """Whether a process carries it on."""
    ours: Mapping[Key, frozenset[str]]


class Throttle(msgspec.Struct, frozen=True, kw_only=True):
    """A rate, or those entries of a list that stand for the same reason."""

    resource: ConfigResource
    key: str
    values: tuple[str, ...]
    stands: Stands
    run: str = ""
    """The run that has set it."""
    setting: Setting
    """The whole setting, in Kafka's own text."""

    @property
    def where(self) -> str:
        """Name the broker or topic."""
        return f"{self.resource.scope} {self.resource.name}"

    @property
    def value(self) -> str:
        """Give the rate, or the entries, as Kafka has them."""
        return ",".join(self.values)

    @property
    def whole(self) -> bool:
        """Whether it is all that the setting has."""
        return frozenset(self.values) == entries(self.setting.value)


def throttles_in(settings: Settings, moving: Moving, claims: Sequence[Claim]) -> list[Throttle]:
    """Tell every throttle, brokers first.

    Args:
        settings: of all topics and brokers, with BROKER_KEYS and REPLICAS.
        moving: every reassignment in flight.
        claims: of the runs that this machine remembers.
    """
    found: list[Throttle] = []
    for resource, theirs in sorted(settings.items(), key=lambda item: _order(item[0])):
        for key in (*BROKER_KEYS, *REPLICAS):
            if key in theirs:
                found += _of(resource, key, theirs[key], moving, claims)
    return found


def _order(resource: ConfigResource) -> tuple[bool, int, str]:
    number = int(resource.name) if resource.scope is ConfigScope.BROKER else 0
    return resource.scope is ConfigScope.TOPIC, number, resource.name


def _of(
    resource: ConfigResource,
    key: str,
    setting: Setting,
    moving: Moving,
    claims: Sequence[Claim],
) -> Iterator[Throttle]:
    if setting.source is ConfigSource.DEFAULT:
        return
    alike: dict[tuple[Stands, str], list[str]] = {}
    values = entries(setting.value) if key in REPLICAS else (setting.value,)
    for value in sorted(values, key=_numbers):
        claimed = _claimed((resource, key), value, claims)
        if setting.source is not ConfigSource.OWN:
            stands = Stands.INHERITED, ""
        elif claimed is not None:
            stands = Stands.LIVE_RUN if claimed.live else Stands.WAITING_RUN, claimed.run
        elif key in REPLICAS:
            about_move = needed(resource.name, key, value, moving)
            stands = Stands.MOVING if about_move else Stands.LEFT_BEHIND, ""
        elif key == LOG_DIR_RATE:
            stands = Stands.LOG_DIRS, ""
        else:
            stands = Stands.MOVING if moving else Stands.LEFT_BEHIND, ""
        alike.setdefault(stands, []).append(value)
    for (why, run), some in alike.items():
        yield Throttle(
            resource=resource, key=key, values=tuple(some), stands=why, run=run, setting=setting
        )


def _claimed(key: Key, value: str, claims: Iterable[Claim]) -> Claim | None:
    """Give the run that a value may be of; of a rate any, for what it was may come back."""
    for claim in claims:
        ours = claim.ours.get(key)
        if ours is not None and (key[1] not in REPLICAS or value in ours):
            return claim
    return None


def _numbers(value: str) -> tuple[list[int], str]:
    """Order entries by their numbers."""
    return [int(part) for part in value.split(":") if part.isdecimal()], value
