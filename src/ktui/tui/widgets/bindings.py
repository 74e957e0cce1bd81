"""Every key of the app and of the Watch screen: the one list that footer, help and palette use.

The list's own keys (up, down, enter and so on) are in `screens/watch/list.py`. Those of the other
screens are with each of them. `help_sections` collects all for `?`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

from rich.cells import cell_len
from textual.binding import ActiveBinding, Binding
from textual.dom import DOMNode
from textual.keys import format_key
from textual.screen import Screen

from ktui.tui.draw.cells import Piece
from ktui.tui.widgets.services import services
from ktui.tui.widgets.trouble import helps


def bind(keys: str, action: str, words: str, tooltip: str = "", **more: Any) -> Binding:
    """Return a key with its words in the footer, and in the help those of the tooltip."""
    return Binding(keys, action, words, tooltip=tooltip, **more)


def hidden(keys: str, action: str, words: str, tooltip: str = "", **more: Any) -> Binding:
    """Return a key that only the help shows."""
    return bind(keys, action, words, tooltip, show=False, **more)


RUN_BINDINGS: list[Binding] = [
    bind(
        "n", "start_plan", "start plan",
        "Choose a plan, read what it would do, then start it, or add it to the live run",
    ),
    bind("l", "show_limits", "limits", "Show the run's limits, and change them"),
    bind(
        "t", "show_throttle", "throttle",
        "Show the run's throttle and the rates under it, and change it at once",
    ),
    bind("p", "pause", "pause", "Pause the run: nothing new is submitted; or let it go on"),
    bind("c", "cancel", "cancel", "Stop, roll back or trim partitions of the run, or pause them"),
    bind("r", "show_runs", "runs", "Show all runs: attach to one, or resume it"),
    bind(
        "ctrl+r", "next_run", "next run",
        "Show the next run of this cluster that lives or waits, or that of the row",
        key_display="ctrl+r",
    ),
]  # fmt: skip
APP_BINDINGS: list[Binding] = [
    *RUN_BINDINGS,
    Binding(
        "X", "cancel_foreign", "cancel foreign",
        tooltip="Cancel what someone else has begun: the marked reassignments, or that under the "
        "cursor",
    ),
    bind("b", "show_brokers", "brokers", "Show the brokers: traffic, disks, throttles"),
    bind(
        "d", "show_dashboard", "dashboard",
        "Show the flow of copies, the brokers, and a map of all partitions",
    ),
    bind("e", "show_events", "events", "Show everything that has happened"),
    hidden(
        "I", "show_insights", "insights",
        "Show rates, stalls and advised limits from earlier runs of this cluster",
    ),
    bind("question_mark,f1", "show_help", "help", "Show every key and sign", key_display="?"),
    bind("q", "quit_view", "quit", "Close this view; nothing on the cluster stops or changes"),
    hidden(
        "R", "resume_run", "resume",
        "Start an engine for the run that is shown, if it has none",
    ),
    hidden(
        "U", "undo", "undo",
        "Restore the limits or the throttle from before your last change; enter confirms",
    ),
    hidden(
        "O", "open_gate", "open the cancel gate",
        "Open the cluster's cancel gate: runs may submit again",
    ),
    hidden(
        "K", "show_tool_commands", "Kafka's commands",
        "Show what does the same as the run by kafka-reassign-partitions.sh, to copy",
    ),
    hidden(
        "colon", "command_line", "command line",
        "Type a command: throttle 80MB, limits P=10, cancel orders-3 --stop, filter, view",
        key_display=":",
    ),
    hidden(
        "ctrl+p", "command_palette", "commands",
        "Find any action or theme by name", key_display="ctrl+p",
    ),
    hidden("ctrl+c", "quit_view", "quit", key_display="ctrl+c", priority=True, id="app.interrupt"),
]  # fmt: skip
COPY_BINDING = hidden(
    "y", "copy", "copy",
    "Copy the partition: its name, its row, JSON, or Kafka's command that moves it",
    id="partition.copy",
)  # fmt: skip
WATCH_BINDINGS: list[Binding] = [
    bind(
        "slash", "filter", "filter",
        "Show only what matches: words, topic:x, broker:3, state:stalled, partition:0",
        key_display="/",
    ),
    bind("s", "sort", "sort", "Sort by the next column"),
    hidden("S", "reverse", "reverse the order", "Turn the order round"),
    bind(
        "v", "view", "view",
        "Show the run, what is reassigning, what is unhealthy, or the topics chosen",
    ),
    hidden(
        "z", "zoom", "zoom",
        "Show the last 10 minutes, the last minute, or all since the first move",
    ),
    hidden(
        "o", "unfold", "unfold",
        "Show a row for every partition of the run, or fold the blocked, queued and done",
    ),
    hidden("T", "choose_topics", "choose topics", "Choose the topics to show"),
    bind(
        "f", "freeze", "freeze",
        "Freeze the list to read it, and let it go on again; the header goes on",
    ),
    hidden(
        "P", "pause_partition", "pause the partition",
        "Pause the partition under the cursor, or let it go on",
    ),
    COPY_BINDING,
    *(
        hidden(str(digit), f"panel({digit})", f"panel {digit}", f"Give the keys to {panel}")
        for digit, panel in enumerate(
            (
                "the panel of the partition under the cursor", "the panel of brokers",
                "the panel of events", "the panel of what was sent to Kafka",
            ), 1,
        )
    ),
    hidden(
        "vertical_line", "panels", "panels", "Hide the panels under the list, or show them again",
        key_display="|",
    ),
    hidden("escape", "clear", "clear the filter", "Clear the filter"),
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


class HelpSection(NamedTuple):
    """A title, and keys or signs with their meanings; of keys, also the screens that have them."""

    title: list[Piece]
    rows: Sequence[tuple[Piece, str]]
    screens: tuple[type, ...] = ()


def keys_section(
    title: str,
    owners: Iterable[type[DOMNode]],
    keymap: Mapping[str, str],
    screens: tuple[type, ...] = (),
) -> HelpSection:
    """Make the help of a screen from the keys of these; those without a tooltip are left out."""
    keys: dict[str, list[str]] = {}
    for binding in (binding for owner in owners for binding in owner.BINDINGS):
        if isinstance(binding, Binding) and binding.tooltip:
            keys.setdefault(binding.tooltip, []).append(keys_text(mapped(binding, keymap)))
    rows = [
        (Piece(" ".join(dict.fromkeys(k)), "moving", bold=True), words) for words, k in keys.items()
    ]
    return HelpSection([Piece(title, "header", bold=True)], rows, screens)


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
        if each.action in bound and bound[each.action].enabled and app.abilities.helps(each.action)
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
                app.abilities.words_of_key(action, active.binding.description),
                active,
            )
            for action, active in shown.items()
            if action not in helped and app.abilities.works(action)
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
