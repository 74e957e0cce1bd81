"""Hide the names in events of runs by their JSON keys; works for events of a newer ktui too."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from ktui.json_input import decode_untrusted
from ktui.recording.redact_text import is_plain

_KINDS = {
    "topic": "topic",
    "topics": "topic",
    "topic_id": "id",
    "cluster_id": "cluster",
    "plan": "plan",
    "plan_sha256": "sha256",
    "host": "host",
    "user": "user",
    "bootstrap_server": "host",
    "command_config": "path",
    "file": "path",
    "run": "run",
    "context": "cluster",
    "on_event": "path",
    "while_command": "path",
    "metrics_file": "path",
    "sli_command": "path",
    "sli_prometheus": "path",
}
"""The kind of name under each key."""

_KEPT = frozenset(
    (
        "event", "by", "state", "kind", "request", "verdict", "op", "key", "scope", "source",
        "version", "until", "shape", "mode", "order", "on_stall", "on_foreign_change",
        "on_foreign_throttle", "on_conflict", "broker", "window", "start_at",
        "ends_at", "unit", "cause",
    )
)  # fmt: skip
"""Keys with words of ktui or Kafka, a version, a time or a broker: their values stay."""

_WHO = re.compile(r"([^@]*)@(\S*)( \(\d+\))?")
"""The author of a command: user@host (pid)."""


class NameHider(Protocol):
    """Hides names."""

    def hide(self, kind: str, name: str) -> str:
        """Return the replacement of a name."""
        ...

    def text(self, text: str) -> str:
        """Return a free text without names."""
        ...


_ANYTHING = msgspec.json.Decoder()


def redact_event(event: bytes, names: NameHider) -> bytes:
    """Return an event, as JSON, without names. Values under unknown keys count as free text.

    Raises:
        msgspec.DecodeError: the text is not an event of a journal.
    """
    try:
        return msgspec.json.encode(_hidden("", decode_untrusted(_ANYTHING, event), names))
    except RecursionError:
        raise msgspec.DecodeError("nested too deep") from None


def _hidden(key: str, value: Any, names: NameHider) -> Any:
    match value:
        case str():
            return _hidden_word(key, value, names)
        case dict():
            return {
                _hidden_key(k, names): _hidden(_kind_of_name(k, value), v, names)
                for k, v in value.items()
            }
        case list():
            return [_hidden(key, item, names) for item in value]
    return value


def _hidden_word(key: str, value: str, names: NameHider) -> str:
    if key in _KEPT:
        return value
    if key in _KINDS:
        return names.hide(_KINDS[key], value)
    who = _WHO.fullmatch(value) if key == "who" else None
    if who is None:
        return names.text(value)
    return f"{names.hide('user', who[1])}@{names.hide('host', who[2])}{who[3] or ''}"


def _hidden_key(key: str, names: NameHider) -> str:
    """Keep plain keys: fields and states are plain words, and nothing else is a key so far."""
    return key if all(map(is_plain, key.split("_"))) else names.text(key)


def _kind_of_name(key: str, within: Mapping[str, Any]) -> str:
    """Return the key that decides how to hide a value: of a resource's `name`, its scope."""
    return str(within["scope"]) if key == "name" and "scope" in within else key
