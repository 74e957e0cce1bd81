"""The command palette: every action available here, and every theme."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits, Provider
from textual.types import IgnoreReturnCallbackType

from ktui.tui.widgets.bindings import keys_text, mapped
from ktui.tui.widgets.services import services

_Entry = tuple[str, str, IgnoreReturnCallbackType]


class Commands(Provider):
    """Offers the actions of the app and of the screen beneath, then the themes."""

    async def discover(self) -> Hits:
        for name, words, run in self._entries():
            yield DiscoveryHit(name, run, help=words)

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for name, words, run in self._entries():
            score = max(matcher.match(name), matcher.match(words) * 0.5)
            if score > 0:
                yield Hit(score, matcher.highlight(name), run, help=words)

    def _entries(self) -> Iterator[_Entry]:
        app = self.app
        for owner in (self.screen, app):
            for name, words, action in _actions(owner.BINDINGS, services(app).keymap):
                yield name, words, partial(owner.run_action, action)
        for theme in sorted(app.available_themes):
            yield (
                f"theme: {theme}",
                "Draw everything in this theme",
                partial(setattr, app, "theme", theme),
            )


def _actions(bindings: Sequence[object], keymap: Mapping[str, str]) -> list[tuple[str, str, str]]:
    return [
        (
            binding.description,
            f"{binding.tooltip}  ({keys_text(mapped(binding, keymap))})",
            binding.action,
        )
        for binding in bindings
        if isinstance(binding, Binding) and binding.tooltip and binding.action != "command_palette"
    ]
