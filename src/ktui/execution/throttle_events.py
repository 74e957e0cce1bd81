"""What a run does to the throttles of brokers and topics, as its journal keeps it."""

from __future__ import annotations

import msgspec

from ktui.cluster.ports import ConfigChange, ConfigResource, Setting, Verdict
from ktui.execution.run_event import RunEvent
from ktui.planning.throttle_rates import ThrottleRates


class ThrottleEvent(RunEvent, frozen=True):
    """One of those below."""


class ThrottleChanged(ThrottleEvent, frozen=True, kw_only=True, tag="throttle"):
    """Other rates were put in force, at once and also for what is in flight."""

    old: ThrottleRates
    new: ThrottleRates
    command: int | None = None
    who: str = ""
    """Who asked for it, where someone did: user@host (pid)."""


class FoundSetting(msgspec.Struct, frozen=True):
    """A setting as it stood before the run touched it."""

    resource: ConfigResource
    key: str
    before: Setting | None
    """None where nobody has set it: of such rates a broker tells nothing."""


class SettingsFound(ThrottleEvent, frozen=True, kw_only=True, tag="settings_found"):
    """Written before any of these settings is touched: what they are put back to."""

    found: tuple[FoundSetting, ...]


class Configure(ThrottleEvent, frozen=True, kw_only=True, tag="configure"):
    """An intent: settings are about to be changed. Nothing is sent before it is in the journal."""

    changes: tuple[ConfigChange, ...]
    puts_back: bool = False
    """Whether these give a setting back what stood there before the run."""


class Configured(ThrottleEvent, frozen=True, kw_only=True, tag="configured"):
    """What became of the last intent about one resource."""

    resource: ConfigResource
    verdict: Verdict
    code: str | None = None
    message: str = ""
    node: int | None = None
    """The broker that got it, where it did not answer and is known."""


class SettingChanged(ThrottleEvent, frozen=True, kw_only=True, tag="setting_changed"):
    """Somebody else changed or deleted a setting of the run while it is needed.

    What they deleted is set again. A rate that they set stays.
    """

    resource: ConfigResource
    key: str
    found: str | None
    """The value that is there now; None where there is none."""


class SettingsLeft(ThrottleEvent, frozen=True, kw_only=True, tag="settings_left"):
    """Settings that are the run's no more, as they stand: someone else's value, or no resource."""

    resource: ConfigResource
    keys: tuple[str, ...]
    reason: str
    """Empty where the run has changed nothing there."""
