"""How the operator has arranged the view of a cluster, kept for the next time it is watched."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

import msgspec

from ktui.durable import read_note, write_whole
from ktui.execution import RunProblem
from ktui.execution.host.state_dir import StateDir
from ktui.json_text import decode_untrusted
from ktui.tui.screens.panels import PANELS, PanelChoices, Panels
from ktui.tui.screens.watch.columns import SORTS, Ordering
from ktui.tui.screens.watch.list import ZOOMS
from ktui.tui.screens.watch.rule import View
from ktui.tui.screens.watch.screen import WatchScreen

log = logging.getLogger(__name__)

_MOST_LINES = 1_000  # of a panel, far above what any terminal has


class KeptView(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept. What this version does not know, or cannot be, is left as it is by default."""

    sort: str = Ordering().by
    reverse: bool = False
    zoom_s: float | None = None  # the seconds that timelines reach back; None for all
    view: str = View.REASSIGNING.value
    hidden: tuple[str, ...] = ()  # panels
    more: dict[str, int] = {}  # lines that a panel was given, or lost where below 0

    @classmethod
    def of_screen(cls, screen: WatchScreen, panels: Panels) -> KeptView:
        rows, choices = screen.partition_list, panels.choices
        # The run's own view comes by itself with a run, and topics are chosen for a time.
        lasting = screen.view if screen.view in _LASTING else View.REASSIGNING
        return cls(
            sort=rows.ordering.by,
            reverse=rows.ordering.reverse,
            zoom_s=rows.zoom,
            view=lasting.value,
            hidden=tuple(name for name in PANELS if name in choices.hidden),
            more={name: lines for name, lines in choices.more.items() if lines},
        )

    def apply_to(self, screen: WatchScreen, panels: Panels) -> None:
        if self.sort in SORTS:
            screen.order(Ordering(self.sort, self.reverse))
        if self.zoom_s in ZOOMS:
            screen.partition_list.show_last(self.zoom_s)
        if screen.view is View.REASSIGNING and self.view in _LASTING:
            screen.show_view(View(self.view))
        more = {
            name: lines
            for name, lines in self.more.items()
            if name in PANELS and abs(lines) <= _MOST_LINES
        }
        panels.set_choices(PanelChoices(frozenset(self.hidden) & {*PANELS}, more))


_LASTING = (View.REASSIGNING, View.UNHEALTHY)
_DECODER = msgspec.json.Decoder(KeptView)


class ViewKeeper:
    """Keeps the view of one cluster in the state directory; without one, nothing is kept."""

    def __init__(self, state: StateDir | None) -> None:
        self._state = state
        self._kept: KeptView | None = None
        self._cluster_id: str | None = None

    def restore(self, cluster_id: str, screen: WatchScreen, panels: Panels) -> None:
        """Arrange the view as it was left, when the cluster has answered for the first time."""
        if self._state is None or self._cluster_id is not None:
            return
        self._cluster_id = cluster_id
        path = self._state.cluster_note("views", cluster_id)
        try:
            kept = decode_untrusted(_DECODER, read_note(path))
        except FileNotFoundError:
            kept = KeptView()
        except (OSError, msgspec.DecodeError) as error:
            log.warning("%s: the view begins as usual: %s", path, error)
            kept = KeptView()
        self._kept = kept
        if kept != KeptView():
            kept.apply_to(screen, panels)

    def changed(self, screen: WatchScreen, panels: Panels) -> Callable[[], None] | None:
        """Return what writes down how the view is arranged; None where that is as it was."""
        if self._state is None or self._cluster_id is None:
            return None
        now = KeptView.of_screen(screen, panels)
        if now == self._kept:
            return None
        self._kept = now
        return partial(_write, self._state, self._cluster_id, now)


def _write(state: StateDir, cluster_id: str, view: KeptView) -> None:
    path = state.cluster_note("views", cluster_id)
    try:
        state.make(path.parent)
        write_whole(path, msgspec.json.encode(view))
    except (OSError, RunProblem) as error:
        log.warning("%s: the view is not kept: %s", path, error)
