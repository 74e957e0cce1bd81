"""Where something of a run's throttles stands, and why it does still, in words."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.cluster.ports import ConfigScope, ConfigSource, Setting
from ktui.cluster.resources import SettingKey
from ktui.execution.run.run import Run
from ktui.execution.run.throttle_ledger import SetByRun, Throttled
from ktui.planning.names import join_some
from ktui.quantities import as_count


def standing(throttled: Throttled) -> dict[SettingKey, SetByRun]:
    """Give the settings in which something of the run's may be, brokers before topics."""
    touched = {key: ours for key, ours in throttled.ours.items() if ours.touched}
    return dict(sorted(touched.items(), key=lambda item: item[0]))


def places(keys: Iterable[SettingKey]) -> str:
    """Name whose settings they are: "brokers 4 and 5 and topic orders"."""
    brokers = {int(r.name) for r, _ in keys if r.scope is ConfigScope.BROKER}
    topics = {r.name for r, _ in keys if r.scope is ConfigScope.TOPIC}
    named = [
        f"{noun}{'' if len(names) == 1 else 's'} {join_some(names, told=8)}"
        for noun, names in (("broker", sorted(brokers)), ("topic", sorted(topics)))
        if names
    ]
    return " and ".join(named)


def still_to_be_taken_off(run: Run) -> str | None:
    """Say what a run waits for that has nothing left to move; None while it does not."""
    left = standing(run.throttled)
    if not run.tracks or run.over < len(run.tracks) or run.ended or not left:
        return None
    what = "down, or does not take the change"
    return (
        f"all partitions are over; its throttle is still to be taken off {places(left)}, which "
        f"{'is' if len({r for r, _ in left}) == 1 else 'are'} {what}"
    )


def stays(run: Run) -> str | None:
    """Say which throttles of a run stay that no process carries on, and why; None for none."""
    left = standing(run.throttled)
    if run.ended or run.exported is not None or not left:
        return None
    where = f"its throttle stays on {places(left)} until it is resumed"
    if run.left is None:
        return f"{where}: its process has not taken it off"
    if run.in_flight:
        flying = as_count(run.in_flight, "step")
        return f"{where}: {flying} in flight {'needs' if run.in_flight == 1 else 'need'} it"
    return f"{where}: it could not be taken off"


def setting_in_words(key: SettingKey, ours: SetByRun) -> str:
    """Name one setting with what of it is the run's, and what stood there before."""
    resource, name = key
    value = ",".join(sorted(ours.values)) or "nothing of ours for certain"
    return f"{resource.scope} {resource.name} {name}={value} (before: {before(ours.before)})"


def before(setting: Setting | None) -> str:
    """Say what a setting was before the run."""
    if setting is None:  # a broker does not tell of a rate that it has not
        return "unset"
    if setting.own is not None:
        return setting.own or "empty"
    return "unset" if setting.source is ConfigSource.DEFAULT else f"unset, {inherited(setting)}"


def inherited(setting: Setting) -> str:
    """Say what holds where nothing is set on a broker itself."""
    where = "its file" if setting.source is ConfigSource.FILE else "the setting of every broker"
    return f"{setting.value} from {where}"
