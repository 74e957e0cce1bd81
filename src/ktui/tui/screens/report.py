"""The screen with the report of a rehearsal: text that is computed in the background."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Static

from ktui.tui.draw.paint import panel_title, titled_rule
from ktui.tui.run_view.launchers import RehearsalInView
from ktui.tui.widgets.bindings import give_ids
from ktui.tui.widgets.footer import FooterKeys
from ktui.tui.widgets.header import StatusHeader
from ktui.tui.widgets.off_loop import ReportsOwnErrors

_OF_FAULTS = ("  ktui", "  to do", "  a rollback then")  # the beginnings of the lines below a fault
READING = "Working out what it has done so far …"


class ReportScreen(Screen[None], ReportsOwnErrors):
    """Shows what a rehearsal has done so far, or up to its end, as it was when it was read."""

    CSS = """
    ReportScreen {
        background: $background;
        & > #report-title { height: 1; }
        & > VerticalScroll { padding: 1 2; scrollbar-size-vertical: 1; }
        & #report { height: auto; }
    }
    """
    AUTO_FOCUS = "VerticalScroll"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,i", "back", "back", key_display="esc", tooltip="Go back"),
        Binding("r", "read", "read again", tooltip="Work out what it has done by now"),
    ]
    give_ids("report", BINDINGS)

    def __init__(self, rehearsal: RehearsalInView) -> None:
        super().__init__()
        self._rehearsal = rehearsal

    def compose(self) -> ComposeResult:
        yield StatusHeader()
        yield Static(id="report-title", markup=False)
        with VerticalScroll():
            yield Static(READING, id="report", markup=False)
        yield FooterKeys()

    def on_mount(self) -> None:
        self._refresh_title()
        self.action_read()

    @on(Resize)
    def _refresh_title(self) -> None:
        words = "over" if self._rehearsal.outcome else "so far"
        title = panel_title(self._rehearsal.name, None, Content.styled(words, "$dim"))
        self.query_one("#report-title", Static).update(titled_rule(title, self.size.width))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        del parameters
        return action != "read" or not self._rehearsal.outcome

    def action_read(self) -> None:
        self.run_worker(self._show(), group="report", exclusive=True, exit_on_error=False)

    async def _show(self) -> None:
        report = await self._rehearsal.report()
        self.query_one("#report", Static).update(report_content(report))
        self._refresh_title()
        self.refresh_bindings()

    def action_back(self) -> None:
        self.dismiss()


def report_content(report: str) -> Content:
    """Return a report with the headings of its tables, and its verdict, set off."""
    return Content("\n").join(map(_line, report.splitlines()))


def _line(line: str) -> Content:
    if line.isupper():
        return Content.styled(line, "$header")
    subject, _, _ = line.partition(":")
    if ": does not hold (" in line:
        return Content.styled(line, "bold $error")
    if ": holds (" in line:
        return Content.assemble((subject, "bold $success"), line.removeprefix(subject))
    if subject in _OF_FAULTS:
        return Content.assemble((subject, "$dim"), line.removeprefix(subject))
    return Content(line)
