"""Describe where throttles of a run are still set, and why."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.ports import ConfigScope, ConfigSource, Setting
from ktui.cluster.resources import SettingKey
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import SetByRun, ThrottleLedger
from ktui.planning.names import join_some
from ktui.quantities import as_count


def changed_settings(throttled: ThrottleLedger) -> dict[SettingKey, SetByRun]:
    """Return the settings that the run has changed or may have changed, brokers before topics."""
    touched = {key: ours for key, ours in throttled.ours.items() if ours.touched}
    return dict(sorted(touched.items(), key=lambda item: item[0]))


def name_resources(keys: Iterable[SettingKey]) -> str:
    """Name the brokers and topics of settings: "brokers 4 and 5 and topic orders"."""
    brokers = {int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER}
    topics = {r.name for r, _ in keys if r.scope is ConfigScope.TOPIC}
    named = [
        f"{noun}{'' if len(names) == 1 else 's'} {join_some(names, told=8)}"
        for noun, names in (("broker", sorted(brokers)), ("topic", sorted(topics)))
        if names
    ]
    return " and ".join(named)


def throttle_wait_text(run: Run) -> str | None:
    """Return why a run with nothing left to move has not ended; None if it does not wait so."""
    left = changed_settings(run.throttled)
    if not run.tracks or run.over < len(run.tracks) or run.ended or not left:
        return None
    why = "is down or refuses" if len({r for r, _ in left}) == 1 else "are down or refuse"
    return (
        f"all partitions have ended; its throttle is still set on {name_resources(left)}, "
        f"which {why} the change"
    )


def left_throttle_text(run: Run) -> str | None:
    """Name the throttles that a run without an engine leaves set, and why; None for none."""
    left = changed_settings(run.throttled)
    if run.ended or run.exported is not None or not left:
        return None
    where = f"its throttle stays on {name_resources(left)} until it is resumed"
    if run.left is None:
        return f"{where}: its engine has not removed it"
    if run.in_flight:
        flying = as_count(run.in_flight, "step")
        return f"{where}: {flying} in flight {'needs' if run.in_flight == 1 else 'need'} it"
    return f"{where}: it could not be removed"


def setting_text(key: SettingKey, ours: SetByRun) -> str:
    """Describe one setting: the run's values in it, and the value before the run."""
    resource, name = key
    value = ",".join(sorted(ours.values)) or "nothing of the run's for certain"
    return (
        f"{resource.scope} {resource.name} {name}={value} (before: {prior_value_text(ours.before)})"
    )


def prior_value_text(setting: Setting | None) -> str:
    """Describe the value of a setting before the run."""
    if setting is None:  # a broker does not report a rate that is not set
        return "unset"
    if setting.own is not None:
        return setting.own or "empty"
    return (
        "unset"
        if setting.source is ConfigSource.DEFAULT
        else f"unset, {inherited_value_text(setting)}"
    )


def inherited_value_text(setting: Setting) -> str:
    """Describe the value in force where nothing is set on the broker itself."""
    where = "its file" if setting.source is ConfigSource.FILE else "the setting of every broker"
    return f"{setting.value} from {where}"
