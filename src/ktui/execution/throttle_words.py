"""Each event about throttles in one line, for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import assert_never

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, Verdict
from ktui.execution.throttle_events import (
    Configure,
    Configured,
    SettingChanged,
    SettingsFound,
    SettingsLeft,
    ThrottleChanged,
)
from ktui.planning.names import among

Told = (
    ThrottleChanged | SettingsFound | Configure | Configured | SettingsLeft | SettingChanged
)  # fmt: skip
_SIGNS = {ConfigOp.APPEND: "+", ConfigOp.SUBTRACT: "-", ConfigOp.SET: "=", ConfigOp.DELETE: "unset"}


def throttle_words(event: Told) -> str:  # noqa: PLR0911 - a case an event
    """Say what was done to throttles."""
    match event:
        case ThrottleChanged():
            who = f", asked by {event.who}" if event.who else ""
            return f"throttle: {event.old.words} -> {event.new.words}, at once{who}"
        case SettingsFound():
            return f"found before they are touched: {_found(event)}"
        case Configure():
            verb = "to be put back" if event.puts_back else "to be set"
            return f"{verb}: {among(list(_setting_changes(event.changes)), told=4)}"
        case Configured():
            return f"{_of(event.resource)}: {_verdict(event)}"
        case SettingsLeft():
            why = f": {event.reason}" if event.reason else ""
            return f"{_of(event.resource)}: {', '.join(event.keys)} left as it is{why}"
        case SettingChanged():
            if not event.found:
                return f"{_of(event.resource)}: somebody else has deleted {event.key}"
            return f"{_of(event.resource)}: somebody else has set {event.key} to {event.found}"
        case _:
            assert_never(event)


def _found(event: SettingsFound) -> str:
    told = [
        f"{_of(each.resource)} {each.key}"
        f"{' unset' if each.before is None or each.before.own is None else '=' + each.before.value}"
        for each in event.found
    ]
    return among(told, told=4)


def _setting_changes(changes: Iterable[ConfigChange]) -> Iterable[str]:
    for change in changes:
        value = "" if change.value is None else f" {change.value}"
        yield f"{_of(change.resource)} {change.key} {_SIGNS[change.op]}{value}"


def _verdict(event: Configured) -> str:
    if event.verdict is Verdict.ACCEPTED:
        return "Kafka has set it"
    if event.verdict is Verdict.UNKNOWN:
        return "the answer was lost: it may have taken effect"
    why = ": ".join(filter(None, (event.code, event.message)))
    return f"{'could not be sent' if event.code is None else 'was refused'}: {why}"


def _of(resource: ConfigResource) -> str:
    return f"{resource.scope} {resource.name}"
