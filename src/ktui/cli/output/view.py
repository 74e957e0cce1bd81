"""The keys of the views as the user's config.yaml changes them."""

from __future__ import annotations

import asyncio
import difflib
import gc
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from types import FrameType
from typing import NamedTuple

from textual.app import App
from textual.binding import Binding
from textual.keys import Keys, _character_to_key, key_to_character
from textual.screen import ModalScreen

from ktui.cli.context.config import Config
from ktui.inputfile import FileProblem
from ktui.tui.app.app import KtuiApp
from ktui.tui.app.demo import DemoApp
from ktui.tui.app.simulated import RehearsalApp
from ktui.tui.replay.app import MomentPrompt, ReplayApp
from ktui.tui.screens.brokers.screen import BrokersScreen, BrokerTable
from ktui.tui.screens.brokers.status import (
    BreakList,
    BreakScreen,
    BrokerStatusScreen,
    ManageBrokerScreen,
)
from ktui.tui.screens.dashboard.map import PartitionMap
from ktui.tui.screens.dashboard.screen import DashboardScreen
from ktui.tui.screens.detail.screen import DetailScreen
from ktui.tui.screens.dialog import CommandField, CommandScreen, Dialog
from ktui.tui.screens.events import EventList, EventsScreen
from ktui.tui.screens.forms import AllowanceBox, LimitInput, RateInput
from ktui.tui.screens.help import HelpScreen, SearchField
from ktui.tui.screens.panels import Panels
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.questions import (
    ConfirmScreen,
    CopyScreen,
    NotePrompt,
    ResumeOfferScreen,
    SelectScreen,
    ToolCommandsScreen,
)
from ktui.tui.screens.run.cancel import CancelScreen
from ktui.tui.screens.run.change_screen import LimitsScreen, RunChangeScreen, ThrottleScreen
from ktui.tui.screens.runs import (
    InsightsScreen,
    RehearsalScreen,
    ReportScreen,
    RunsScreen,
    RunTable,
)
from ktui.tui.screens.watch.list import PartitionList
from ktui.tui.screens.watch.rule import TopicsPrompt
from ktui.tui.screens.watch.screen import WatchScreen
from ktui.tui.story import StoryScreen
from ktui.tui.widgets.bindings import key_text
from ktui.tui.widgets.fields import FormChoices, HistoryField
from ktui.tui.widgets.frame import TextScreen

_APPS = (KtuiApp, DemoApp, RehearsalApp, ReplayApp)
_FIELDS = (LimitInput, FormChoices, AllowanceBox)
SCREENS: tuple[tuple[type, ...], ...] = (
    (WatchScreen, PartitionList, HistoryField),
    (WatchScreen, Panels),
    (DetailScreen,),
    (BrokersScreen, BrokerTable),
    (BrokerStatusScreen, Dialog),
    (ManageBrokerScreen, Dialog),
    (BreakScreen, BreakList, Dialog),
    (DashboardScreen, PartitionMap),
    (EventsScreen, EventList),
    (LimitsScreen, RunChangeScreen, Dialog, *_FIELDS),
    (ThrottleScreen, RunChangeScreen, Dialog, RateInput, *_FIELDS),
    (RunsScreen, RunTable),
    (InsightsScreen, TextScreen),
    (StartScreen, PlanScreen, *_FIELDS),
    (RehearsalScreen, TextScreen),
    (AddScreen, PlanScreen, *_FIELDS),
    (CancelScreen, Dialog),
    (ConfirmScreen, Dialog),
    (ResumeOfferScreen, Dialog),
    (NotePrompt, Dialog),
    (TopicsPrompt, Dialog),
    (CommandScreen, CommandField, HistoryField),
    (ToolCommandsScreen,),
    (CopyScreen,),
    (SelectScreen,),
    (HelpScreen, SearchField),
    (StoryScreen,),
    (ReportScreen, TextScreen),
    (MomentPrompt, Dialog),
)
"""Each screen, with the widgets on it that have keys."""
_NAMES = {
    **{key.value: key.value for key in Keys if not key.value.startswith("<")},
    "esc": "escape", "pgup": "pageup", "pgdn": "pagedown", "return": "enter", "del": "delete",
}  # fmt: skip
"""The names of keys as people write them."""
_MODIFIERS = ("ctrl", "alt", "shift")


class _Bound(NamedTuple):
    action: str
    id: str
    keys: tuple[str, ...]


class Action(NamedTuple):
    """An action whose keys may be changed."""

    id: str
    keys: tuple[str, ...]
    words: str


def actions() -> list[Action]:
    """Return all actions whose keys may be changed, those of the app first."""
    found: dict[str, Action] = {}
    for binding in _bindings([*_APPS, *(kind for screen in SCREENS for kind in screen)]):
        name, keys = binding.id or "", _split(binding.key)
        known = found.get(name, Action(name, (), binding.tooltip or binding.description))
        found[name] = known._replace(keys=tuple(dict.fromkeys((*known.keys, *keys))))
    return list(found.values())


def _bindings(kinds: Iterable[type]) -> Iterator[Binding]:
    for kind in kinds:
        for binding in vars(kind).get("BINDINGS", ()):
            if isinstance(binding, Binding):
                yield binding


def _split(keys: str) -> tuple[str, ...]:
    return tuple(_normalised(key.strip()) or key.strip() for key in keys.split(","))


def read_keymap(config: Config) -> dict[str, str]:
    """Return the keys that config.yaml changes, by action id, under Textual's names."""
    if not config.keys or config.file is None:
        return {}
    known = {action.id: action for action in actions()}
    changed: dict[str, tuple[str, ...]] = {}
    for name, keys in config.keys.items():
        if name not in known:
            raise _problem(config, name, _unknown(name, known))
        changed[name] = tuple(_key(config, name, key) for key in keys)
    _check_screens(config, changed)
    return {name: ",".join(keys) for name, keys in _with_neighbours(changed).items()}


def _problem(config: Config, name: str, words: str) -> FileProblem:
    if config.file is None:
        return FileProblem(config.path, None, words)
    return config.file.problem(("keys", name), f"keys.{name}: {words}")


def _unknown(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    hint = (
        f"Did you mean {close[0]!r}?" if close else "docs/keys.md lists all, such as app.throttle"
    )
    return f"there is no such action. {hint}"


def _key(config: Config, name: str, key: str) -> str:
    normalised = _normalised(key)
    if normalised is None:
        hint = 'Write a character such as "T", or a name such as f5, ctrl+t or pagedown'
        raise _problem(config, name, f"there is no key {key!r}. {hint}")
    return normalised


def _normalised(key: str) -> str | None:
    parts = key.split("+") if len(key) > 1 else [key]
    *modifiers, last = [part if len(part) == 1 else part.lower() for part in parts]
    if set(modifiers) - set(_MODIFIERS) or len(set(modifiers)) < len(modifiers):
        return None
    if len(last) == 1:
        if not last.isprintable() or "shift" in modifiers:  # shift with a letter is the capital
            return None
        return "+".join([*modifiers, _character_to_key(last)])
    name = _NAMES.get("+".join([*modifiers, last])) or _NAMES.get(last, last)
    if name in _NAMES.values() or key_to_character(name) is not None:
        return name if "+" in name else "+".join([*modifiers, name])
    return None


def _check_screens(config: Config, changed: Mapping[str, Sequence[str]]) -> None:
    """Refuse a key that two actions would have on one screen, and had not before."""
    for app in _APPS:
        of_app = list(_bindings([app]))
        always = [binding for binding in of_app if binding.priority]
        for kinds in SCREENS:
            modal = issubclass(kinds[0], ModalScreen)
            bindings = [*_bindings(kinds), *(always if modal else of_app)]
            bound = [
                _Bound(re.sub(r"^(app|screen)\.", "", b.action), b.id or "", _split(b.key))
                for b in bindings
            ]
            for one, other in combinations(bound, 2):
                _check_pair(config, changed, one, other)


def _check_pair(
    config: Config, changed: Mapping[str, Sequence[str]], one: _Bound, other: _Bound
) -> None:
    if one.id == other.id or one.action == other.action or not {one.id, other.id} & {*changed}:
        return
    both = set(changed.get(one.id, one.keys)) & set(changed.get(other.id, other.keys))
    new = both - (set(one.keys) & set(other.keys))
    if new:
        first, second = (one, other) if one.id in changed else (other, one)
        key = key_text(min(new))
        fix = f"Choose another key, or give {second.id} another one, too"
        raise _problem(config, first.id, f"{key!r} is the key of {second.id} there. {fix}")


def _with_neighbours(changed: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Add the actions that share a key with a changed one: Textual would unbind these, too."""
    whole = dict(changed)
    for kind in (*_APPS, *(kind for screen in SCREENS for kind in screen)):
        bindings = list(_bindings([kind]))
        freed = {key for b in bindings if b.id in changed for key in _split(b.key)}
        for binding in bindings:
            name, keys = binding.id or "", _split(binding.key)
            if name not in changed and freed & set(keys):
                whole[name] = tuple(dict.fromkeys((*whole.get(name, ()), *keys)))
    return whole


_THRESHOLDS = (10_000, 20, 50)
"""New objects before a collection of the young, and collections before one of the older ones."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Collect less often, and nothing that is alive now: of 100,000 rows each takes 50 ms."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


_HUNG_UP = 128 + signal.SIGHUP
_temporary: set[Path] = set()  # folders that do not outlive this process, however it is hung up


@contextmanager
def temporary_folder(prefix: str) -> Iterator[Path]:
    """Make a folder for as long as a view needs it; a hang-up removes it, too."""
    on_main = threading.current_thread() is threading.main_thread()
    if on_main and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
        signal.signal(signal.SIGHUP, _end_by_hang_up)
    with tempfile.TemporaryDirectory(prefix=prefix, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        _temporary.add(folder)
        try:
            yield folder
        finally:
            _temporary.discard(folder)


def _end_by_hang_up(number: int, _frame: FrameType | None) -> None:
    _remove_temporary()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _remove_temporary() -> None:
    for folder in tuple(_temporary):
        shutil.rmtree(folder, ignore_errors=True)


async def show_app(app: App[None]) -> None:
    """Show a view until it ends.

    A view that another process ends still restores the terminal. A view whose terminal is gone ends
    as by SIGHUP. It watches for that itself: not every parent passes SIGHUP on (make does not),
    and Textual reads a dead terminal forever.
    """
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, app.exit)
    if sys.__stdin__ is not None and sys.__stdin__.isatty():
        watch = threading.Thread(target=_hang_up, args=(sys.__stdin__.fileno(),), daemon=True)
        watch.start()
    with rare_collections():
        await app.run_async()


def _hang_up(terminal: int) -> None:
    """Wait until a terminal is gone, and then end this process."""
    poll = select.poll()
    poll.register(terminal, 0)
    if not any(event & select.POLLHUP for _, event in poll.poll()):
        return
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        _remove_temporary()
        os._exit(_HUNG_UP)  # the main thread blocks on a write to the terminal forever
    os.kill(os.getpid(), signal.SIGHUP)
