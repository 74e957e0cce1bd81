"""Which values Kafka takes for the settings of topics and brokers, and what it says of others."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

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
    """Of a key and a value: Kafka's words for what is wrong with it, or nothing."""
    default: tuple[str, ...] | None = None
    """Of a list, which APPEND and SUBTRACT work on; None of anything else."""


def parts(value: str) -> list[str]:
    """Split a list as Kafka reads it, with blanks around its commas."""
    return re.split(r"\s*,\s*", value.strip()) if value.strip() else []


def _invalid(key: str, value: str, why: str) -> str:
    return f"Invalid value {value} for configuration {key}: {why}"


def _whole(name: str, bits: int, least: int | None = None) -> SettingType:
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


def _any(key: str, value: str) -> str:  # noqa: ARG001 - what is wrong with it: nothing
    return ""


_LONG = _whole("LONG", 64)
_INT = _whole("INT", 32)
_RATE = _whole("LONG", 64, least=0)
_COUNT = _whole("INT", 32, least=1)
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
"""The settings that a topic may have, by name. Only the first seven matter to a simulation."""

BROKER: Mapping[str, SettingType] = {
    LEADER_RATE: _RATE,
    FOLLOWER_RATE: _RATE,
    LOG_DIR_RATE: _RATE,
    MIN_ISR: _COUNT,
    UNCLEAN: _FLAG,
    "log.retention.bytes": _LONG,
    "log.cleanup.policy": SettingType(_policy, default=("delete",)),
}
"""The settings of brokers that are checked; a broker takes a name that it does not know."""

BROKER_NAMES = {CLEANUP: "log.cleanup.policy", RETENTION: "log.retention.bytes"}
"""What brokers call the settings of topics that they have by another name."""

REBALANCE = "auto.leader.rebalance.enable"
REBALANCE_INTERVAL = "leader.imbalance.check.interval.seconds"
FETCH_BACKOFF = "replica.fetch.backoff.ms"
LAG_TIME = "replica.lag.time.max.ms"
TIERING = "remote.log.storage.system.enable"

STATIC = frozenset({REBALANCE, REBALANCE_INTERVAL, FETCH_BACKOFF, LAG_TIME, TIERING})
"""Settings of brokers that only a restart changes."""
