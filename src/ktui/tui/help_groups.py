"""Every key of every screen, by group, as `?` tells them."""

from __future__ import annotations

from collections.abc import Iterable

from ktui.tui.actions import HelpGroup, help_group
from ktui.tui.screens.asking import AskingScreen
from ktui.tui.screens.brokers import BrokersScreen, BrokerTable
from ktui.tui.screens.cancel import CancelScreen
from ktui.tui.screens.detail import DetailScreen
from ktui.tui.screens.events import EventsScreen
from ktui.tui.screens.insights import InsightsScreen
from ktui.tui.screens.limits import LimitsScreen
from ktui.tui.screens.plan import PlanScreen
from ktui.tui.screens.runs import RunsScreen
from ktui.tui.screens.throttle import ThrottleScreen
from ktui.tui.screens.watch import WatchScreen
from ktui.tui.widgets.eventlist import EventList
from ktui.tui.widgets.limits_form import LimitInput
from ktui.tui.widgets.partition_list import PartitionList


def help_groups(everywhere: Iterable[object]) -> list[HelpGroup]:
    """Give them all; `everywhere` are the bindings of the app."""
    return [
        help_group("everywhere", everywhere),
        help_group("list of partitions", [*PartitionList.BINDINGS, *WatchScreen.BINDINGS]),
        help_group("detail of a partition", DetailScreen.BINDINGS),
        help_group("brokers", [*BrokersScreen.BINDINGS, *BrokerTable.BINDINGS]),
        help_group("events", [*EventsScreen.BINDINGS, *EventList.BINDINGS]),
        help_group(
            "limits", [*AskingScreen.BINDINGS, *LimitsScreen.BINDINGS, *LimitInput.BINDINGS]
        ),
        help_group("cancel", CancelScreen.BINDINGS),
        help_group("throttle", [*AskingScreen.BINDINGS, *ThrottleScreen.BINDINGS]),
        help_group("runs", RunsScreen.BINDINGS),
        help_group("insights", InsightsScreen.BINDINGS),
        help_group("start or add a plan", PlanScreen.BINDINGS),
    ]
