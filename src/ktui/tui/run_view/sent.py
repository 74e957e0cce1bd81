"""What a run has sent to Kafka, each request with its answer, for a panel that shows the newest."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.ports import ConfigResource, Verdict
from ktui.execution.run import events
from ktui.execution.run.events import JournalEntry, Request
from ktui.tui.draw import format as figures
from ktui.tui.draw.cells import Piece

ALTER, ELECT, CONFIGURE = (
    "AlterPartitionReassignments", "ElectLeaders", "IncrementalAlterConfigs",
)  # fmt: skip
MOST_SENT = 200
"""The requests that are kept: more than any terminal has lines for."""
_MARKS = {
    Verdict.ACCEPTED: Piece("✓", "in-sync"),
    Verdict.REFUSED: Piece("✗ not sent", "stalled"),  # without Kafka's name of an error
    Verdict.UNKNOWN: Piece("? no answer", "falling-behind"),
}
_OPEN = Piece("… no answer yet", "dim")


class SentRequest(msgspec.Struct):
    """A part of a request, about one partition, topic or broker, and the answer so far."""

    at: datetime
    api: str  # Kafka's name of the request
    what: str
    verdict: Verdict | None = None  # None while there is no answer
    why: str = ""  # Kafka's name of the error


class SentRequests:
    """The newest requests of one run, by the intents and answers in its journal."""

    def __init__(self) -> None:
        self.newest: deque[SentRequest] = deque(maxlen=MOST_SENT)
        self._open: dict[Hashable, SentRequest] = {}
        self.changes = 0  # how often any of them has changed: who has drawn them need not again

    def note_entries(self, entries: Sequence[JournalEntry]) -> None:
        # Each request has at most two entries; older ones could not be shown.
        for entry in entries[-2 * MOST_SENT :]:
            self._note(entry)

    def _note(self, entry: JournalEntry) -> None:
        match entry.event:
            case events.StepBegun(alters=True) as step:
                replicas = ",".join(map(str, step.replicas))
                self._sent(entry, (step.tp, Request.ALTER), ALTER, f"{step.tp} [{replicas}]")
            case events.Cancel() as cancel:
                self._sent(entry, (cancel.tp, Request.CANCEL), ALTER, f"{cancel.tp} cancel")
            case events.Elect() as elect:
                self._sent(entry, (elect.tp, Request.ELECT), ELECT, f"{elect.tp} {elect.leader}")
            case events.Configure(changes=changes):
                for resource in dict.fromkeys(change.resource for change in changes):
                    self._sent(entry, resource, CONFIGURE, _resource_text(resource))
            case events.Answered() as answer:
                self._answered((answer.tp, answer.request), answer.verdict, answer.code)
            case events.Configured() as answer:
                self._answered(answer.resource, answer.verdict, answer.code)

    def _sent(self, entry: JournalEntry, key: Hashable, api: str, what: str) -> None:
        request = SentRequest(entry.at, api, what)
        if len(self.newest) == MOST_SENT:
            oldest = self.newest[0]
            self._open = {k: each for k, each in self._open.items() if each is not oldest}
        self.changes += 1
        self.newest.append(request)
        self._open[key] = request

    def _answered(self, key: Hashable, verdict: Verdict, code: str | None) -> None:
        request = self._open.pop(key, None)
        if request is not None:
            self.changes += 1
            request.verdict, request.why = verdict, code or ""


def _resource_text(resource: ConfigResource) -> str:
    return f"{resource.scope.value} {resource.name}"


def sent_lines(newest: Iterable[SentRequest]) -> list[list[Piece]]:
    """Draw a line for each request, the oldest first: what one request and answer share is one."""
    lines: list[list[Piece]] = []
    together: list[SentRequest] = []
    for each in newest:
        if together and _shared(each) != _shared(together[0]):
            lines.append(_line(together))
            together = []
        together.append(each)
    return [*lines, _line(together)] if together else lines


def _shared(request: SentRequest) -> tuple[str, str, Verdict | None, str]:
    return figures.as_time(request.at), request.api, request.verdict, request.why


def _line(together: Sequence[SentRequest]) -> list[Piece]:
    time, api, verdict, why = _shared(together[0])
    mark = _OPEN if verdict is None else _MARKS[verdict]
    return [
        Piece(f"{time} ", "dim"),
        mark._replace(text=f"✗ {why}") if why and verdict is Verdict.REFUSED else mark,
        Piece(f" {api} ", "header"),
        Piece(", ".join(each.what for each in together)),
    ]
