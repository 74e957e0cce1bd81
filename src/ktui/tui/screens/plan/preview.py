"""The pane that shows what a plan would do, before and after."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from ktui.tui.draw.paint import content
from ktui.tui.run_view.plan_choice import ColouredLine, PlanPreview
from ktui.tui.screens.plan.preview_lines import EVERYTHING, Section, preview_lines


class PreviewPane(Static):
    """Shows the sections of a preview that a step asks for."""

    DEFAULT_CSS = "PreviewPane { height: auto; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__(id="plan-preview", markup=False)
        self._preview: PlanPreview | None = None
        self._sections: Sequence[Section] = EVERYTHING
        self._outdated = ""

    def show(self, preview: PlanPreview | None) -> None:
        """Show another preview; None for none."""
        self._preview, self._outdated = preview, ""
        self._draw()

    def show_sections(self, sections: Sequence[Section]) -> None:
        """Show other sections."""
        if sections != self._sections:
            self._sections = sections
            self._draw()

    def show_outdated(self, why: str) -> None:
        """Show why the preview is not of what is typed now; empty if it is."""
        if why != self._outdated:
            self._outdated = why
            self._draw()

    def on_resize(self) -> None:
        """Draw bars for the room there is."""
        self._draw()

    def _draw(self) -> None:
        preview = self._preview
        if preview is None or not self._sections:
            self.update(Content(""))
            return
        lines = [Content.styled(self._outdated, "$warning")] if self._outdated else []
        lines += map(coloured, preview.in_run)
        if preview.figures is not None:
            width = self.size.width or self.app.size.width
            drawn = preview_lines(preview.figures, self._sections, width)
            lines += [content(line) for line in drawn]
        self.update(Content("\n").join(lines))


def coloured(line: ColouredLine) -> Content:
    """Return a line in its colour."""
    words, colour = line
    return Content.styled(words, colour) if colour else Content(words)
