"""Apply incremental changes to settings (KIP-339)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.simulated.controller.schema import SettingType

ConfigValues = dict[str, str]
"""Settings by name."""

LONGEST = 32_767
"""Maximum length of a value, in characters."""


class ConfigRefused(Exception):
    """A refused change of settings, in Kafka's words.

    Attributes:
        code: Kafka's name for the error.
        message: the message of a broker or the controller.
    """

    def __init__(self, code: str, message: str) -> None:
        self.code = code
        self.message = message
        super().__init__(message)


def apply_changes(
    old: Mapping[str, str], changes: Sequence[ConfigChange], kinds: Mapping[str, SettingType]
) -> ConfigValues:
    """Return the settings that result from changes.

    Raises:
        NotTaken: a change cannot be made. The resulting values are not validated here.
    """
    _check_form(changes)
    new = dict(old)
    for change in changes:
        value = _value(old.get(change.key), change, kinds)
        if value is None:
            new.pop(change.key, None)
            continue
        if len(value) > LONGEST:
            raise ConfigRefused(
                "INVALID_CONFIG",
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {LONGEST} bytes.",
            )
        new[change.key] = value
    return new


def _check_form(changes: Sequence[ConfigChange]) -> None:
    if len({change.key for change in changes}) < len(changes):
        raise ConfigRefused("INVALID_REQUEST", "Error due to duplicate config keys")
    empty = [c.key for c in changes if c.value is None and c.op is not ConfigOp.DELETE]
    if empty:
        raise ConfigRefused("INVALID_REQUEST", f"Null value not supported for : {', '.join(empty)}")


def _value(old: str | None, change: ConfigChange, kinds: Mapping[str, SettingType]) -> str | None:
    if change.op is ConfigOp.DELETE or change.value is None:
        return None
    if change.op is ConfigOp.SET:
        return change.value
    kind = kinds.get(change.key)
    if kind is None or kind.default is None:
        words = f"Can't {change.op.name} to key {change.key} because its type is not LIST."
        raise ConfigRefused("INVALID_CONFIG", words)
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
