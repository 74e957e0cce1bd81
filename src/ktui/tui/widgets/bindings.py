"""Every key of the app and of the Watch screen: the one list that footer, help and palette use.

The list's own keys (up, down, enter and so on) are in `screens/watch/list.py`. Those of the other
screens are with each of them. `help_groups` collects all for `?`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
from textual.binding import Binding
from textual.keys import format_key

RUN_BINDINGS: list[Binding] = [
    Binding(
        "n", "start_plan", "start plan",
        tooltip="Choose a plan, read what it would do, then start it, or add it to the live run",
    ),
    Binding("l", "show_limits", "limits", tooltip="Show the run's limits, and change them"),
    Binding(
        "t", "show_throttle", "throttle",
        tooltip="Show the run's throttle and what comes in under it, and change it at once",
    ),
    Binding(
        "p", "pause", "pause",
        tooltip="Pause the run: nothing new is submitted; or let it go on",
    ),
    Binding(
        "c", "cancel", "cancel",
        tooltip="Stop, roll back or trim partitions of the run, or pause them",
    ),
    Binding("r", "show_runs", "runs", tooltip="Show all runs: attach to one, or resume it"),
]  # fmt: skip
APP_BINDINGS: list[Binding] = [
    *RUN_BINDINGS,
    Binding(
        "X", "cancel_foreign", "cancel foreign",
        tooltip="Cancel what someone else has begun: the marked reassignments, or that under the "
        "cursor",
    ),
    Binding("b", "show_brokers", "brokers", tooltip="Show the brokers: traffic, disks, throttles"),
    Binding(
        "d", "show_dashboard", "dashboard",
        tooltip="Show the flow of copies, the brokers, and a map of all partitions",
    ),
    Binding("e", "show_events", "events", tooltip="Show everything that has happened"),
    Binding(
        "I", "show_insights", "insights", show=False,
        tooltip="Show rates, stalls and advised limits from earlier runs of this cluster",
    ),
    Binding(
        "question_mark,f1", "show_help", "help", key_display="?", tooltip="Show every key and sign"
    ),
    Binding(
        "q", "quit_view", "quit", tooltip="Close this view; nothing on the cluster stops or changes"
    ),
    Binding(
        "R", "resume_run", "resume", show=False,
        tooltip="Start an engine for the run that is shown, if it has none",
    ),
    Binding(
        "U", "undo", "undo", show=False,
        tooltip="Put back the limits or the throttle from before your last change; enter confirms",
    ),
    Binding(
        "O", "open_gate", "open the cancel gate", show=False,
        tooltip="Open the cluster's cancel gate: runs may submit again",
    ),
    Binding(
        "K", "show_tool_commands", "Kafka's commands", show=False,
        tooltip="Show what does the same as the run by kafka-reassign-partitions.sh, to copy",
    ),
    Binding(
        "colon", "command_line", "command line", show=False, key_display=":",
        tooltip="Type a command: throttle 80MB, limits P=10, cancel orders-3 --stop, filter, view",
    ),
    Binding(
        "ctrl+p", "command_palette", "commands", show=False, key_display="ctrl+p",
        tooltip="Find any action or theme by name",
    ),
    Binding(
        "ctrl+c", "quit_view", "quit", show=False, key_display="ctrl+c", priority=True,
        id="app.interrupt",
    ),
]  # fmt: skip
COPY_BINDING = Binding(
    "y", "copy", "copy", show=False, id="partition.copy",
    tooltip="Copy the partition: its name, its row, JSON, or Kafka's command that moves it",
)  # fmt: skip
WATCH_BINDINGS: list[Binding] = [
    Binding(
        "slash", "filter", "filter", key_display="/",
        tooltip="Show only what matches: words, topic:x, broker:3, state:stalled, partition:0",
    ),
    Binding("s", "sort", "sort", tooltip="Sort by the next column"),
    Binding("S", "reverse", "reverse the order", show=False, tooltip="Turn the order round"),
    Binding(
        "v", "view", "view",
        tooltip="Show the run, what is reassigning, what is unhealthy, or the topics chosen",
    ),
    Binding(
        "z", "zoom", "zoom", show=False,
        tooltip="Let the timelines show 5 or 2 minutes, or all that was seen of the last 10",
    ),
    Binding(
        "o", "unfold", "unfold", show=False,
        tooltip="Show a row for every partition of the run, or fold the blocked, queued and done",
    ),
    Binding("T", "choose_topics", "choose topics", show=False, tooltip="Choose the topics to show"),
    Binding(
        "f", "freeze", "freeze",
        tooltip="Freeze the list to read it, and let it go on again; the header goes on",
    ),
    Binding(
        "P", "pause_partition", "pause the partition", show=False,
        tooltip="Pause the partition under the cursor, or let it go on",
    ),
    COPY_BINDING,
    Binding("escape", "clear", "clear the filter", show=False, tooltip="Clear the filter"),
]  # fmt: skip

_NAMES = {
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "question_mark": "?",
    "slash": "/",
    "escape": "esc",
    "plus": "+",
    "minus": "-",
    "comma": ",",
    "colon": ":",
    "full_stop": ".",
    "left": "←",
    "right": "→",
    "shift+left": "shift+←",
    "shift+right": "shift+→",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "enter": "enter",
}


def give_ids(
    place: str, bindings: list[Any], names: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Give each binding an id, under which the config file may name another key for it.

    The id is the place with the words of the footer. A binding that has an id keeps it.

    Args:
        place: the screen, widget or app that has the bindings.
        bindings: the bindings, which are replaced in the list.
        names: what stands in place of the footer's words, by action.
    """
    for at, binding in enumerate(bindings):
        if binding.id is None:
            words = names.get(binding.action, binding.description).lower()
            name = re.sub(r"[^a-z0-9]+", "-", words).strip("-")
            bindings[at] = replace(binding, id=f"{place}.{name}")


_APP_NAMES = {
    "cancel_foreign": "cancel-foreign", "open_gate": "open-gate",
    "show_tool_commands": "kafka-commands",
}  # fmt: skip
give_ids("app", APP_BINDINGS, _APP_NAMES)
give_ids("watch", WATCH_BINDINGS)


class KeyHelp(msgspec.Struct, frozen=True):
    """One line of the help: the keys of an action and its description."""

    keys: str
    words: str


class HelpGroup(msgspec.Struct, frozen=True):
    """The keys of one screen."""

    title: str
    keys: tuple[KeyHelp, ...]
    screens: tuple[type, ...] = ()
    """The classes of that screen."""


def help_group(
    title: str,
    bindings: Iterable[object],
    keymap: Mapping[str, str],
    *,
    screens: tuple[type, ...] = (),
) -> HelpGroup:
    """Make the help of a screen from its bindings; those without a tooltip are left out."""
    keys: dict[str, list[str]] = {}
    for binding in bindings:
        if isinstance(binding, Binding) and binding.tooltip:
            keys.setdefault(binding.tooltip, []).append(keys_text(mapped(binding, keymap)))
    lines = [KeyHelp(" ".join(dict.fromkeys(k)), words) for words, k in keys.items()]
    return HelpGroup(title, tuple(lines), screens)


def mapped(binding: Binding, keymap: Mapping[str, str]) -> Binding:
    """Return a binding with the key that it has in a keymap, if it has one there."""
    key = keymap.get(binding.id or "")
    return binding.with_key(key) if key else binding


def keys_text(binding: Binding) -> str:
    """Return the keys of a binding as they are shown."""
    return " ".join(key_text(key) for key in binding.key.split(","))


def key_text(key: str) -> str:
    """Return a key as it is shown."""
    name = key.strip()
    return _NAMES.get(name) or (format_key(name) if "+" not in name else name)
