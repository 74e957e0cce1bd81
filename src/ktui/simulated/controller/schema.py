"""The values Kafka accepts for the settings of topics and brokers, and its errors for others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from ktui.cluster.cordon import CORDONED
from ktui.cluster.throttle_settings import (
    FOLLOWER_RATE,
    FOLLOWER_REPLICAS,
    LEADER_RATE,
    LEADER_REPLICAS,
    LOG_DIR_RATE,
)

MIN_ISR = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"
CLEANUP = "cleanup.policy"
RETENTION = "retention.bytes"
TIERED = "remote.storage.enable"

_NUMBER = re.compile(r"[+-]?[0-9]+")
_THROTTLED = re.compile(r"([0-9]+:[0-9]+)?")


class SettingType(msgspec.Struct, frozen=True):
    """The type of a setting."""

    problem: Callable[[str, str], str]
    """Function of a key and a value that returns Kafka's words for an error; empty if none."""
    default: tuple[str, ...] | None = None
    """The default of a list, the type that APPEND and SUBTRACT work on; None for other types."""


def parts(value: str) -> list[str]:
    """Split a list as Kafka does, dropping blanks around its commas."""
    return re.split(r"\s*,\s*", value.strip()) if value.strip() else []


def _invalid(key: str, value: str, why: str) -> str:
    return f"Invalid value {value} for configuration {key}: {why}"


def _integer(name: str, bits: int, least: int | None = None) -> SettingType:
    def problem(key: str, value: str) -> str:
        text, limit = value.strip(), 2 ** (bits - 1)
        if not _NUMBER.fullmatch(text) or not -limit <= int(text) < limit:
            return _invalid(key, value, f"Not a number of type {name}")
        if least is not None and int(text) < least:
            return _invalid(key, text, f"Value must be at least {least}")
        return ""

    return SettingType(problem)


def _flag(key: str, value: str) -> str:
    if value.strip().lower() in ("true", "false"):
        return ""
    return _invalid(key, value, "Expected value to be either true or false")


def _policy(key: str, value: str) -> str:
    wrong = [part for part in parts(value) if part not in ("compact", "delete")]
    if not wrong:
        return ""
    return _invalid(key, wrong[0], "String must be one of: compact, delete")


def _throttled(key: str, value: str) -> str:
    listed = parts(value)
    if "".join(listed) == "*" or all(_THROTTLED.fullmatch(part) for part in listed):
        return ""
    shown = f"[{', '.join(listed)}]"
    return _invalid(
        key,
        shown,
        f"{key} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
    )


def _any(key: str, value: str) -> str:  # noqa: ARG001 - every value is fine
    return ""


_LONG = _integer("LONG", 64)
_INT = _integer("INT", 32)
_RATE = _integer("LONG", 64, least=0)
_COUNT = _integer("INT", 32, least=1)
_FLAG = SettingType(_flag)
_TEXT = SettingType(_any)
_REPLICAS = SettingType(_throttled, default=())

TOPIC: Mapping[str, SettingType] = {
    MIN_ISR: _COUNT,
    CLEANUP: SettingType(_policy, default=("delete",)),
    UNCLEAN: _FLAG,
    RETENTION: _LONG,
    TIERED: _FLAG,
    LEADER_REPLICAS: _REPLICAS,
    FOLLOWER_REPLICAS: _REPLICAS,
    **dict.fromkeys(
        ("preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable"), _FLAG
    ),
    **dict.fromkeys(
        (
            "delete.retention.ms",
            "file.delete.delay.ms",
            "flush.messages",
            "flush.ms",
            "local.retention.bytes",
            "local.retention.ms",
            "max.compaction.lag.ms",
            "message.timestamp.after.max.ms",
            "message.timestamp.before.max.ms",
            "min.compaction.lag.ms",
            "retention.ms",
            "segment.jitter.ms",
            "segment.ms",
        ),
        _LONG,
    ),
    **dict.fromkeys(
        ("index.interval.bytes", "max.message.bytes", "segment.bytes", "segment.index.bytes"), _INT
    ),
    **dict.fromkeys(
        (
            "compression.gzip.level",
            "compression.lz4.level",
            "compression.type",
            "compression.zstd.level",
            "message.timestamp.type",
            "min.cleanable.dirty.ratio",
        ),
        _TEXT,
    ),
}
"""The settings that a topic may have, by name. Only the first seven affect a simulation."""

BROKER: Mapping[str, SettingType] = {
    LEADER_RATE: _RATE,
    FOLLOWER_RATE: _RATE,
    LOG_DIR_RATE: _RATE,
    MIN_ISR: _COUNT,
    UNCLEAN: _FLAG,
    "log.retention.bytes": _LONG,
    "log.cleanup.policy": SettingType(_policy, default=("delete",)),
    CORDONED: SettingType(_any, default=()),
}
"""The settings of brokers that are checked; a broker accepts settings with unknown names."""

BROKER_NAMES = {CLEANUP: "log.cleanup.policy", RETENTION: "log.retention.bytes"}
"""Brokers' own names for topic settings that they call differently."""

REBALANCE = "auto.leader.rebalance.enable"
REBALANCE_INTERVAL = "leader.imbalance.check.interval.seconds"
FETCH_BACKOFF = "replica.fetch.backoff.ms"
LAG_TIME = "replica.lag.time.max.ms"
TIERING = "remote.log.storage.system.enable"

STATIC = frozenset({REBALANCE, REBALANCE_INTERVAL, FETCH_BACKOFF, LAG_TIME, TIERING})
"""Broker settings that only a restart changes."""
