"""What is wrong with a partition apart from any move, in words."""

from __future__ import annotations

from typing import NamedTuple

from ktui.cluster.broker import TopicConfig
from ktui.cluster.partition import PartitionState
from ktui.progress.health import Health, health


class HealthWords(NamedTuple):
    """A word for the state column, its role, and what is wrong; that is empty while all is well."""

    word: str
    role: str
    wrong: str
    health: Health

    @property
    def offline(self) -> bool:
        """Whether it has no leader."""
        return self.health is Health.OFFLINE

    @property
    def grave(self) -> bool:
        """Whether producers, or everybody, are refused."""
        return self.health in (Health.OFFLINE, Health.UNDER_MIN_ISR)

    @property
    def ill(self) -> bool:
        """Whether anything is known to be wrong."""
        return self.grave or self.health is Health.UNDER_REPLICATED


_HEALTH_WORDS = {
    Health.OK: ("in sync", "in-sync"),
    Health.UNDER_REPLICATED: ("out of ISR", "out-of-sync"),
    Health.UNDER_MIN_ISR: ("UNDER MIN", "stalled"),
    Health.OFFLINE: ("OFFLINE", "stalled"),
    Health.UNKNOWN: ("not known", "waiting"),
}


def health_words(state: PartitionState, config: TopicConfig | None) -> HealthWords:
    """Put a partition's health into words."""
    found = health(state, config)
    return HealthWords(*_HEALTH_WORDS[found], _wrong(found, state, config), found)


def _wrong(found: Health, state: PartitionState, config: TopicConfig | None) -> str:
    if found is Health.OK:
        return ""
    if found is Health.UNKNOWN:
        return "its metadata could not be read"
    away = ", ".join(str(b) for b in state.original if b not in state.isr)
    parts = [f"out of ISR: {away}"] if away else []
    if found is Health.OFFLINE:
        parts.insert(0, "no leader")
    elif found is Health.UNDER_MIN_ISR and config is not None:
        parts.insert(0, f"ISR {len(state.isr)}, min {config.min_insync_replicas}")
    return "; ".join(parts)
