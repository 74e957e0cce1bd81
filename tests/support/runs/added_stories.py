"""Stories of runs to which an extra plan is added at a certain stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ktui.cluster.partition import TopicPartition
from ktui.execution.journal.commands import Add, Command
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import Added, JournalEntry, OnConflict, Planned, StepBegun
from ktui.execution.run.states import CancelKind
from ktui.pacing.limits import Limits
from support.runs.cancel_stories import Such
from support.runs.engine_runs import Replicas
from support.runs.held_to_rules import Rules
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

SIZE = 1_000_000


class AddingStory(Story):
    """A story in which a command is sent as soon as an event has been written.

    A replica is copied in 2.5 s by default. Every decision is checked against the limits and the
    forbidden steps, by the present goal of each partition.
    """

    def __init__(
        self,
        folder: Path,
        ways: Mapping[str, tuple[Replicas, Replicas]],
        limits: Limits | None = None,
        cluster: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        quick = {"messages": 2_500, **(cluster or {})}
        super().__init__(folder, ways, limits=limits, cluster=quick, **options)
        self.rules = Rules(self, 1)
        self._waiting: list[tuple[Such, Mapping[str, Replicas] | Command, OnConflict]] = []

    async def start(self) -> None:
        await super().start()
        self.targets = _Goals(self)

    def adds(
        self,
        such: Such,
        targets: Mapping[str, Replicas],
        on_conflict: OnConflict = OnConflict.ROLLBACK,
    ) -> None:
        """Request an extra plan as soon as such an event has been written."""
        self._waiting.append((such, targets, on_conflict))

    def asks(self, such: Such, command: Command) -> None:
        """Send another command as soon as such an event has been written."""
        self._waiting.append((such, command, OnConflict.ROLLBACK))

    def written(self, entries: Any) -> None:
        super().written(entries)
        for entry in entries:
            self._ask_after(entry)

    def _ask_after(self, entry: JournalEntry) -> None:
        due = [one for one in self._waiting if one[0](entry.event)]
        for one in due:
            self._waiting.remove(one)
            _, wanted, on_conflict = one
            command = self.add(wanted, on_conflict) if isinstance(wanted, Mapping) else wanted
            with Journal.open(self.path, self.clock) as journal:
                journal.ask(command, "somebody@here (2)")

    def add(
        self, targets: Mapping[str, Replicas], on_conflict: OnConflict = OnConflict.ROLLBACK
    ) -> Add:
        """Return the command for an extra plan, with the partitions as they are now."""
        found = tuple(self._found(tp(name), target) for name, target in targets.items())
        return Add("more.json", "0" * 64, found, on_conflict)

    def _found(self, each: TopicPartition, target: Replicas) -> Planned:
        known = self.cluster.controller.get(each)
        assert known is not None
        original = tuple(broker for broker in known.replicas if broker not in known.adding)
        topic_id = self.cluster.controller.topics[each.topic].id
        return Planned(each.topic, each.partition, topic_id, target, original, known.leader, SIZE)

    @property
    def has_asked(self) -> bool:
        """Whether every planned command has been sent."""
        return not self._waiting

    @property
    def words(self) -> list[str]:
        """The texts of the answers, in order."""
        return [each.answer.words for each in self.answers if each.answer is not None]

    def came_to(self, name: str, replicas: Replicas) -> bool:
        """Return whether a partition has these replicas in this order, led by the first of them."""
        return (self.replicas(tp(name)), self.leader(tp(name))) == (replicas, replicas[0])

    def steps_since_added(self, name: str) -> list[StepBegun]:
        """Return the steps of a partition that were begun after the last extra plan was added."""
        events = self.events
        last = max(n for n, event in enumerate(events) if isinstance(event, Added))
        return [e for e in events[last:] if isinstance(e, StepBegun) and e.tp == tp(name)]


class _Goals(dict[TopicPartition, Replicas]):
    """The present goal of each partition of a run."""

    def __init__(self, story: AddingStory) -> None:
        super().__init__(story.targets)
        self._story = story

    def __getitem__(self, each: TopicPartition) -> Replicas:
        track = self._story.folded.tracks[each]
        return track.original if track.cancel is CancelKind.ROLLBACK else track.planned.target
