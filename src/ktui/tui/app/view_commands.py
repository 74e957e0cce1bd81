"""What can be done now: the line that `:` opens, and which keys the footer shows."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ktui.execution.host.catalog import RunState
from ktui.execution.journal.commands import (
    CancelMoves,
    Continue,
    Pause,
    SetLimits,
    SetSchedule,
    SetThrottle,
)
from ktui.planning.intents.registry import INTENTS
from ktui.planning.plan import closest_names
from ktui.tui.run_view.launchers import BadCommand, OpenGate, RehearsalInView, RunChange, RunVerbs
from ktui.tui.run_view.plan_request import parse_plan_words
from ktui.tui.screens.dialog import Action, last_word
from ktui.tui.screens.watch.columns import SORTS, Ordering
from ktui.tui.screens.watch.row_model import BadFilter, RowFilter
from ktui.tui.screens.watch.rule import View
from ktui.tui.widgets.services import KeyAbilities

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


_SCREENS = {
    "brokers": "show_brokers",
    "events": "show_events",
    "help": "show_help",
    "insights": "show_insights",
    "quit": "quit_view",
    "runs": "show_runs",
    "start": "start_plan",
    "undo": "undo",
}
"""The action of each command that is no more than a key."""
_BARE = {"limits": "show_limits", "throttle": "show_throttle", "cancel": "cancel"}
"""The action of each verb without any word behind it."""
_OF_BROKER = ("status", "cordon", "uncordon")
_ID_DIGITS = 9
_EVENT = "event"
_EVENT_USAGE = "what happens to the twin, now or at a moment: kill 5, suspend 3 for 60s at 50%"
_SHORT = {"q": "quit"}
_USAGE = {
    "broker": f"{', '.join(_OF_BROKER)}, and the broker's id: status 4",
    "filter": "orders broker:9 state:stalled: show only what matches; nothing shows all",
    "plan": "drain 3, swap 3 7, spread …, as in the shell: opens the start screen on that",
    "sort": f"{', '.join(SORTS)}; reverse behind it for the other way round",
    "theme": "a colour theme by its name",
    "view": f"{', '.join(View)}",
}


class ViewCommands:
    """Parses a line, and carries it out."""

    def __init__(
        self, app: KtuiApp, verbs: RunVerbs | None, twin: RehearsalInView | None = None
    ) -> None:
        self._app, self._verbs, self._twin = app, verbs, twin
        self._run, self._cancels = app.run_controller, app.cancel_controller
        self._runs, self._brokers = app.run_catalog, app.broker_controller
        self.history: list[str] = []

    @property
    def names(self) -> list[str]:
        verbs = () if self._verbs is None else self._verbs.usage
        of_twin = () if self._twin is None else (_EVENT,)
        return sorted({*_SCREENS, *_BARE, *_USAGE, *verbs, *of_twin})

    def usage(self, line: str) -> str:
        verb, space, _ = line.lstrip().partition(" ")
        of_run = {} if self._verbs is None else self._verbs.usage
        of_twin = {} if self._twin is None else {_EVENT: _EVENT_USAGE}
        words = ({**of_run, **_USAGE, **of_twin}).get(verb) if space else None
        return f"{verb}  {words}" if words else ""

    def complete(self, line: str) -> Sequence[str]:
        verb, space, _ = line.lstrip().partition(" ")
        begun = last_word(line)
        if not space:
            return [name for name in self.names if name.startswith(verb)]
        attached = self._run.attached
        if self._verbs is not None and verb in self._verbs.usage:
            run = None if attached is None else attached.run
            return [] if run is None else [*self._verbs.complete(verb, begun, run)]
        return [word for word in self._words_after(verb) if word.startswith(begun)]

    def _words_after(self, verb: str) -> Iterable[str]:
        return {
            "broker": _OF_BROKER,
            "plan": INTENTS,
            "filter": ("topic:", "broker:", "state:", "partition:"),
            "sort": (*SORTS, "reverse"),
            "theme": sorted(self._app.available_themes),
            "view": tuple(View),
            _EVENT: () if self._twin is None else self._twin.verbs,
        }.get(verb, ())

    def parse(self, line: str) -> Action:
        verb, _, rest = line.strip().partition(" ")
        verb, rest = _SHORT.get(verb, verb), rest.strip()
        if verb in _SCREENS:
            return self._key(verb, rest, _SCREENS[verb])
        if verb in _BARE and not rest:
            return self._key(verb, rest, _BARE[verb])
        named = {"plan": self._of_plan, "broker": self._of_broker, _EVENT: self._of_twin}
        if verb in named and verb in self.names:
            return named[verb](rest)
        if verb in _USAGE:
            return self._of_list(verb, rest)
        if verb in INTENTS:
            return self._of_plan(f"{verb} {rest}")
        if verb in self.names:
            return self._of_run(verb, rest)
        near = closest_names(verb, self.names)
        raise BadCommand(
            f"unknown command {verb!r}. Did you mean {near[0]}?"
            if near
            else f"unknown command {verb!r}. The commands are {', '.join(self.names)}"
        )

    def _key(self, verb: str, rest: str, action: str) -> Action:
        if rest:
            raise BadCommand(f"{verb} takes no arguments")

        async def press() -> None:
            await self._app.run_action(f"app.{action}")

        return press

    def _of_plan(self, rest: str) -> Action:
        problem = self._runs.resume_problem
        if problem is not None:
            raise BadCommand(problem)
        request = parse_plan_words(_words(rest))

        async def choose() -> None:
            await self._runs.choose_plan(request=request)

        return choose

    def _of_broker(self, rest: str) -> Action:
        words = _words(rest)
        if len(words) != 2 or not words[1].isdecimal() or len(words[1]) > _ID_DIGITS:  # noqa: PLR2004
            raise BadCommand(f"broker takes {' or '.join(_OF_BROKER)}, and one id: status 4")
        act, broker = words[0], int(words[1])
        _one_of("verb of a broker", act, _OF_BROKER)
        if act != "status" and self._brokers.why_not is not None:
            raise BadCommand(self._brokers.why_not)

        async def carry_out() -> None:
            if act == "status":
                await self._brokers.show_status(broker)
            else:
                self._brokers.change_cordon(broker, lift=act == "uncordon")

        return carry_out

    def _of_twin(self, rest: str) -> Action:
        if self._twin is not None:
            self._twin.check(rest)

        async def happen() -> None:
            self._app.let_happen(rest)

        return happen

    def _of_list(self, verb: str, rest: str) -> Action:
        watch = self._app.watch_screen
        if verb == "theme":
            _one_of("theme", rest, sorted(self._app.available_themes))
            return self._then(lambda: setattr(self._app, "theme", rest), over_all=True)
        if verb == "filter":
            try:
                RowFilter(rest)
            except BadFilter as problem:
                raise BadCommand(str(problem)) from None
            return self._then(lambda: watch.filter_by(rest))
        if verb == "sort":
            column, _, order = rest.partition(" ")
            _one_of("order", column, SORTS)
            if order:
                _one_of("word behind the order", order, ["reverse"])
            ordering = Ordering(column, bool(order))
            return self._then(lambda: watch.order(ordering))
        _one_of("view", rest, watch.views)
        return self._then(lambda: watch.show_view(View(rest)))

    def _then(self, act: Callable[[], object], *, over_all: bool = False) -> Action:
        async def on_the_list() -> None:
            if not over_all:
                await self._app.show_watch_screen()
            act()

        return on_the_list

    def _of_run(self, verb: str, rest: str) -> Action:
        attached = self._run.attached
        starts_engine = verb == "cancel"  # the dialog does so for a run that has none
        problem = self._run.why_not(without_engine=starts_engine)
        if problem is not None or attached is None or self._verbs is None:
            raise BadCommand(problem or "This view changes no runs.")
        return self._action(verb, self._verbs.parse(verb, _words(rest), attached.run))

    def _action(self, verb: str, change: RunChange) -> Action:
        async def carry_out() -> None:
            match change:
                case OpenGate():
                    self._cancels.open_gate()
                case CancelMoves():
                    await self._cancels.preview(change)
                case Pause() | Continue() if not (change.topics or change.partitions):
                    self._run.confirm_pause(change)
                case SetLimits() | SetThrottle() | SetSchedule() | Pause() | Continue():
                    self._run.ask(change, verb)

        return carry_out


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        raise BadCommand("A quote is not closed. Close it") from None


def _one_of(what: str, word: str, known: Sequence[str]) -> None:
    if word not in known:
        raise BadCommand(f"there is no {what} {word!r}. Use {' or '.join(known)}")


class Abilities(KeyAbilities):
    """Judges actions by the run, the permission and the cursor.

    An action that can do nothing keeps its key, and says why when it is pressed.
    """

    def __init__(self, app: KtuiApp) -> None:
        run, runs, cancels = app.run_controller, app.run_catalog, app.cancel_controller
        brokers, watch = app.broker_controller, app.watch_screen
        self._app, self._run, self._runs, self._watch = app, run, runs, watch
        self._judges: dict[str, Callable[[], bool]] = {
            "show_limits": self._goes_on,
            "show_throttle": self._goes_on,
            "show_tool_commands": self._has_run,
            "pause": lambda: run.why_not() is None,
            "pause_partition": lambda: run.why_not() is None,
            "note": self._may_write_on_run,
            "cancel": lambda: self._may_write_on_run() and not run.elsewhere,
            "mark": lambda: self._may_write_on_run() or cancels.may_cancel_foreign,
            "resume_run": self._may_resume,
            "start_plan": lambda: runs.state_dir is not None and runs.resume_problem is None,
            "show_runs": lambda: runs.state_dir is not None,
            "next_run": lambda: bool(run.others) and not run.makes_plan,
            "cancel_foreign": lambda: cancels.may_cancel_foreign,
            "broker_status": lambda: brokers.may_read,
            "manage_broker": lambda: brokers.why_not is None,
            "open_gate": lambda: app.forbidden is None and bool(cancels.gate),
            "view": lambda: len(watch.views) > 1,
        }

    def works(self, action: str) -> bool:
        judge = self._judges.get(action)
        return judge is None or judge()

    def words_of_key(self, action: str, words: str) -> str:
        return "unfold" if action == "open" and self._on_folded_line else words

    def helps(self, action: str) -> bool:
        if action == "open" and self._on_folded_line:
            return False
        shown_already = action == "view" and self._watch.view is View.UNHEALTHY
        return self.works(action) and not shown_already

    @property
    def _on_folded_line(self) -> bool:
        return self._watch.is_current and self._watch.partition_list.on_folded_line

    def _has_run(self) -> bool:
        return self._run.attached is not None

    def _goes_on(self) -> bool:
        status = self._run.status
        return status is not None and status.state is not RunState.ENDED

    def _may_write_on_run(self) -> bool:
        return self._has_run() and self._app.forbidden is None

    def _may_resume(self) -> bool:
        status = self._run.status
        waits = status is not None and status.state is RunState.RESUMABLE
        return waits and self._runs.resume_problem is None
