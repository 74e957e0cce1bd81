"""Which actions can do something now. The footer shows their keys, and no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from ktui.execution.host.catalog import RunState
from ktui.tui.run_view import messages
from ktui.tui.screens.watch.views import View

if TYPE_CHECKING:
    from ktui.tui.app.app import KtuiApp


class Permission(msgspec.Struct):
    """Whether the operator may change anything from this view."""

    write: bool
    why: str | None = None
    """Why not, where the usual text does not apply."""

    @property
    def problem(self) -> str | None:
        """Why nothing can be changed from here; None if it can."""
        return None if self.write else self.words

    @property
    def words(self) -> str:
        """The text for a view from which nothing can be changed."""
        return self.why or messages.READ_ONLY


class Abilities:
    """Judges actions by the run, the permission and the cursor.

    An action that can do nothing keeps its key, and says why when it is pressed.
    """

    def __init__(self, app: KtuiApp) -> None:
        run, runs, cancels = app.run_controller, app.run_catalog, app.cancel_controller
        brokers, watch, permission = app.broker_controller, app.watch_screen, app.permission
        self._run, self._runs = run, runs
        self._watch, self._permission = watch, permission
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
            "cancel_foreign": lambda: cancels.may_cancel_foreign,
            "broker_status": lambda: brokers.may_read,
            "manage_broker": lambda: brokers.why_not is None,
            "open_gate": lambda: permission.write and bool(cancels.gate),
            "view": lambda: len(watch.views) > 1,
        }

    def works(self, action: str) -> bool:
        """Return whether an action can do something now."""
        judge = self._judges.get(action)
        return judge is None or judge()

    def words_of_key(self, action: str, words: str) -> str:
        """Return what a key does now: on a folded line, enter opens no detail."""
        return "unfold" if action == "open" and self._on_folded_line else words

    def helps(self, action: str) -> bool:
        """Return whether an action can help now with the trouble that names it."""
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
        return self._has_run() and self._permission.write

    def _may_resume(self) -> bool:
        status = self._run.status
        waits = status is not None and status.state is RunState.RESUMABLE
        return waits and self._runs.resume_problem is None
