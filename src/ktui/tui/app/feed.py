"""The polling side of the app, as its controllers use it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Progress
from ktui.tui.run_view import messages


class Feed(Protocol):
    """Access to the last poll, and influence on the next one."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster that is polled; None until it has answered."""
        ...

    @property
    def progress(self) -> Progress:
        """Everything that the polls have shown, up to the last one."""
        ...

    def report_news(
        self, words: str, severity: str = "information", timeout_s: float | None = None
    ) -> None:
        """Show what no key has asked for; it waits behind the answer to a key."""
        ...

    def draw_screens(self) -> None:
        """Have every screen draw what is known."""
        ...

    def refresh_screens(self) -> None:
        """Have every screen draw what is known, and poll at once."""
        ...

    def expect_history(self) -> None:
        """Keep the polls from now on for a history that is being read."""
        ...

    def add_history(self, past: Progress | None) -> None:
        """Start this view's history with what was seen before it was opened; None for nothing."""
        ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Read these settings again in the next poll, as the run has changed them."""
        ...


class Selection(Protocol):
    """The partitions that the operator has selected."""

    @property
    def selected(self) -> TopicPartition | None:
        """The partition under the cursor, or the one whose detail is open."""
        ...

    @property
    def marked(self) -> Collection[TopicPartition]:
        """The partitions that are marked."""
        ...


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
