"""Dynamic settings: the values that Kafka accepts, and incremental changes to them (KIP-339)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from ktui.cluster.errors import KafkaError
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import (
    CORDONED,
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

    problem: Callable[[str, str], str]  # a key and a value to Kafka's words for an error
    default: tuple[str, ...] | None = None  # of a list, for APPEND and SUBTRACT


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
}  # the settings that a topic may have, by name. Only the first seven affect a simulation

BROKER: Mapping[str, SettingType] = {
    LEADER_RATE: _RATE,
    FOLLOWER_RATE: _RATE,
    LOG_DIR_RATE: _RATE,
    MIN_ISR: _COUNT,
    UNCLEAN: _FLAG,
    "log.retention.bytes": _LONG,
    "log.cleanup.policy": SettingType(_policy, default=("delete",)),
    CORDONED: SettingType(_any, default=()),
}  # the settings of brokers that are checked; a broker accepts settings with unknown names

BROKER_NAMES = {CLEANUP: "log.cleanup.policy", RETENTION: "log.retention.bytes"}

REBALANCE = "auto.leader.rebalance.enable"
REBALANCE_INTERVAL = "leader.imbalance.check.interval.seconds"
FETCH_BACKOFF = "replica.fetch.backoff.ms"
LAG_TIME = "replica.lag.time.max.ms"
TIERING = "remote.log.storage.system.enable"

STATIC = frozenset({REBALANCE, REBALANCE_INTERVAL, FETCH_BACKOFF, LAG_TIME, TIERING})


ConfigValues = dict[str, str]

LONGEST = 32_767  # maximum length of a value, in characters


class ConfigRefused(Exception):
    """A refused change of settings, in Kafka's words."""

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


def apply_changes(
    old: Mapping[str, str], changes: Sequence[ConfigChange], kinds: Mapping[str, SettingType]
) -> ConfigValues:
    """Return the settings that result from changes, which are not validated here."""
    _check_form(changes)
    new = dict(old)
    for change in changes:
        value = _value(old.get(change.key), change, kinds)
        if value is None:
            new.pop(change.key, None)
            continue
        if len(value) > LONGEST:
            raise ConfigRefused(
                KafkaError.INVALID_CONFIG,
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {LONGEST} bytes.",
            )
        new[change.key] = value
    return new


def _check_form(changes: Sequence[ConfigChange]) -> None:
    if len({change.key for change in changes}) < len(changes):
        raise ConfigRefused(KafkaError.INVALID_REQUEST, "Error due to duplicate config keys")
    empty = [c.key for c in changes if c.value is None and c.op is not ConfigOp.DELETE]
    if empty:
        raise ConfigRefused(
            KafkaError.INVALID_REQUEST, f"Null value not supported for : {', '.join(empty)}"
        )


def _value(old: str | None, change: ConfigChange, kinds: Mapping[str, SettingType]) -> str | None:
    if change.op is ConfigOp.DELETE or change.value is None:
        return None
    if change.op is ConfigOp.SET:
        return change.value
    kind = kinds.get(change.key)
    if kind is None or kind.default is None:
        words = f"Can't {change.op.name} to key {change.key} because its type is not LIST."
        raise ConfigRefused(KafkaError.INVALID_CONFIG, words)
    listed = list(kind.default) if old is None else [part for part in old.split(",") if part]
    for part in _split(change.value):
        if change.op is ConfigOp.SUBTRACT:
            if part in listed:
                listed.remove(part)
        elif part not in listed:
            listed.append(part)
    return ",".join(listed)


def _split(value: str) -> list[str]:
    """Split as Java does: blanks stay, and trailing empty parts are dropped."""
    if "," not in value:
        return [value]
    split = value.split(",")
    while split and not split[-1]:
        split.pop()
    return split
