"""The side of the app that polls, as its controllers use it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.progress.timeline import Progress
from ktui.tui.run_view import messages


class Feed(Protocol):
    """What was polled last, and what is polled next."""

    @property
    def cluster_id(self) -> str | None:
        """The cluster that is polled; None until it has answered."""
        ...

    @property
    def progress(self) -> Progress:
        """What was polled last."""
        ...

    def show_again(self) -> None:
        """Hand every screen what is known, and poll at once."""
        ...

    def begin_with(self, past: Progress) -> None:
        """Let this view's history begin with what was seen before."""
        ...

    def settings_changed(self, topics: Collection[str], brokers: Collection[int]) -> None:
        """Read these settings again with the next poll: the run has changed them."""
        ...


class Selection(Protocol):
    """The partitions that the operator points at."""

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
    """Why not, where the usual text is not true."""

    @property
    def problem(self) -> str | None:
        """Why nothing can be changed from here; None if it can."""
        return None if self.write else self.words

    @property
    def words(self) -> str:
        """The text for a view from which nothing can be changed."""
        return self.why or messages.READ_ONLY
