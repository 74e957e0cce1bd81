"""Every key of the app and of the Watch screen: the one list that footer, help and palette use.

The list's own keys (up, down, enter and so on) are in `screens/watch/list.py`. Those of the other
screens are with each of them. `help_groups` collects all for `?`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
from rich.cells import cell_len
from textual.binding import ActiveBinding, Binding
from textual.keys import format_key
from textual.screen import Screen

from ktui.tui.widgets.services import services
from ktui.tui.widgets.trouble import helps

RUN_BINDINGS: list[Binding] = [
    Binding(
        "n", "start_plan", "start plan",
        tooltip="Choose a plan, read what it would do, then start it, or add it to the live run",
    ),
    Binding("l", "show_limits", "limits", tooltip="Show the run's limits, and change them"),
    Binding(
        "t", "show_throttle", "throttle",
        tooltip="Show the run's throttle and the rates under it, and change it at once",
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
        tooltip="Restore the limits or the throttle from before your last change; enter confirms",
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
    """Give each binding an id of place and words, by which the config names another key for it."""
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


class LiveKey(NamedTuple):
    """A key that does something now."""

    display: str
    words: str
    active: ActiveBinding
    role: str = ""

    @property
    def action(self) -> str:
        return _action(self.active)

    @property
    def width(self) -> int:
        return cell_len(f"{self.display} {self.words}")


def _action(active: ActiveBinding) -> str:
    return active.binding.action.removeprefix("app.").removeprefix("screen.")


def _bindings(screen: Screen[Any]) -> Iterator[tuple[str, ActiveBinding]]:
    for active in screen.active_bindings.values():
        yield _action(active), active


def key_names(screen: Screen[Any]) -> dict[str, str]:
    """Return the first key of each action on a screen, as sentences name it."""
    names: dict[str, str] = {}
    for action, active in _bindings(screen):
        names.setdefault(action, keys_text(active.binding))
    return names


def key_of(screen: Screen[Any], binding_id: str) -> str:
    """Return the first key of the binding with an id; empty where the screen has none."""
    bound = (each.binding for each in screen.active_bindings.values())
    return next((keys_text(binding) for binding in bound if binding.id == binding_id), "")


def live_keys(screen: Screen[Any]) -> list[LiveKey]:
    """Return the keys that do something now: first those that help, then the usual ones."""
    app = services(screen)
    bound: dict[str, ActiveBinding] = {}
    shown: dict[str, ActiveBinding] = {}
    for action, active in _bindings(screen):
        bound.setdefault(action, active)
        if active.binding.show:
            shown.setdefault(action, active)
    bound |= shown
    status = app.cluster_status()
    helping = [
        each
        for each in ([] if status is None else helps(status))
        if each.action in bound and bound[each.action].enabled and app.helps(each.action)
    ]
    helped = {each.action for each in helping}
    return [
        *(
            LiveKey(screen.app.get_key_display(active.binding), each.words, active, each.role)
            for each in helping
            for active in (bound[each.action],)
        ),
        *(
            LiveKey(
                screen.app.get_key_display(active.binding),
                app.words_of_key(action, active.binding.description),
                active,
            )
            for action, active in shown.items()
            if action not in helped and app.works(action)
        ),
    ]


def fit_keys(
    keys: Sequence[LiveKey], room: int, left_out_first: Sequence[str], *, kept: Sequence[str] = ()
) -> list[LiveKey]:
    """Leave keys out until the rest fits; those `kept` go late, those that help last."""
    usual = [key.action for key in reversed(keys) if not key.role]
    last = [action for action in usual if action in kept]
    helping = [key.action for key in reversed(keys) if key.role]
    rest = [action for action in usual if action not in kept]
    fitting = list(keys)
    for action in (*(a for a in left_out_first if a in rest), *rest, *last, *helping[:-1]):
        if line_width(fitting) <= room:
            break
        fitting = [key for key in fitting if key.action != action]
    return fitting


def gap_after(key: LiveKey, following: LiveKey) -> str:
    """Return what stands between two keys."""
    if not key.role:
        return " "
    return " · " if following.role else "   "


def line_width(keys: Sequence[LiveKey]) -> int:
    """Return the cells that keys take in one line."""
    gaps = sum(len(gap_after(a, b)) for a, b in pairwise(keys))
    return sum(key.width for key in keys) + gaps
