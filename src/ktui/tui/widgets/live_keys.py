"""The keys of a screen as they are bound now, and which of them do something now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from rich.cells import cell_len
from textual.binding import ActiveBinding
from textual.screen import Screen

from ktui.tui.widgets.bindings import keys_text
from ktui.tui.widgets.services import services
from ktui.tui.widgets.trouble import Help, helps


class LiveKey(NamedTuple):
    """A key that does something now."""

    display: str
    words: str
    active: ActiveBinding
    role: str = ""
    """The role of the trouble that it helps with; empty where it helps with none."""

    @property
    def action(self) -> str:
        """The action, without the name of who carries it out."""
        return _action(self.active)

    @property
    def width(self) -> int:
        """Cells of the key and its words."""
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
        *(_helping(each, bound[each.action], screen) for each in helping),
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


def _helping(each: Help, active: ActiveBinding, screen: Screen[Any]) -> LiveKey:
    return LiveKey(screen.app.get_key_display(active.binding), each.words, active, each.role)


def fit_keys(
    keys: Sequence[LiveKey], room: int, left_out_first: Sequence[str], *, kept: Sequence[str] = ()
) -> list[LiveKey]:
    """Leave keys out until the rest fits; those that help are left out last.

    Args:
        keys: the keys, in their order.
        room: the cells that there are.
        left_out_first: the actions to leave out first.
        kept: the actions to leave out only before those that help.
    """
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
