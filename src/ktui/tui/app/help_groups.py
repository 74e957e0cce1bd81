"""Every key of every screen, in the groups that `?` shows."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.tui.screens.brokers.screen import BrokersScreen, BrokerTable
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.event_list import EventList
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.forms.limits_form import LimitInput
from ktui.tui.screens.insights import InsightsScreen
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.change_screen import RunChangeScreen
from ktui.tui.screens.run.limits import LimitsScreen
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.runs import RunsScreen
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.widgets.bindings import HelpGroup, help_group


def help_groups(everywhere: Iterable[object]) -> list[HelpGroup]:
    """Return all groups; `everywhere` are the app's bindings."""
    return [
        help_group("everywhere", everywhere),
        help_group("list of partitions", [*PartitionList.BINDINGS, *WatchScreen.BINDINGS]),
        help_group("detail of a partition", DetailScreen.BINDINGS),
        help_group("brokers", [*BrokersScreen.BINDINGS, *BrokerTable.BINDINGS]),
        help_group("events", [*EventsScreen.BINDINGS, *EventList.BINDINGS]),
        help_group(
            "limits", [*RunChangeScreen.BINDINGS, *LimitsScreen.BINDINGS, *LimitInput.BINDINGS]
        ),
        help_group("cancel", CancelScreen.BINDINGS),
        help_group("throttle", [*RunChangeScreen.BINDINGS, *ThrottleScreen.BINDINGS]),
        help_group("runs", RunsScreen.BINDINGS),
        help_group("insights", InsightsScreen.BINDINGS),
        help_group("start or add a plan", PlanScreen.BINDINGS),
    ]
