"""A field to type into."""

from __future__ import annotations

from textual.reactive import reactive
from textual.widgets import Input


class TextField(Input):
    """Textual's input with a cursor that stands still: nothing on these screens blinks."""

    cursor_blink = reactive(False, init=False)  # noqa: FBT003 - how a reactive takes its default
