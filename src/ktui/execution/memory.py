"""What a live run keeps in mind beside its journal: lost with its process, and found by looking."""

from __future__ import annotations

import enum
from collections.abc import Set as AbstractSet

from ktui.cluster.partition import TopicPartition
from ktui.execution.doubts import Doubts
from ktui.execution.events import Brokers, By, Event, NowIn, Paused
from ktui.execution.run import Run
from ktui.execution.states import State
from ktui.execution.track import Track
from ktui.execution.unanswered import Unanswered, left_open
from ktui.pacing.roster import Roster
from ktui.pacing.situation import Blocked, Done, Next, Situation, Why
from ktui.progress.timeline import Progress


class Hold(enum.Enum):
    """Why nothing is submitted for a partition that could step."""

    PAUSED = "paused"
    TOO_LATE = "too late"
    """It is not expected to end in time."""
    UNSEEN = "unseen"
    """The cluster does not tell how it is."""


class Memory:
    """The run, where each of its partitions stands for pacing, and what is not certain yet."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.roster = Roster(run.limits)
        self.doubts = Doubts()
        self.unanswered = Unanswered(left_open(run))
        self.progress = Progress()
        """Of the partitions in flight."""
        self._held: dict[Hold, set[TopicPartition]] = {why: set() for why in Hold}

    def hold(self, tp: TopicPartition, why: Hold) -> None:
        """Have nothing submitted for a partition, for one of several reasons."""
        if tp in self.roster:
            self._held[why].add(tp)
            self.roster.hold(tp)

    def release(self, tp: TopicPartition, why: Hold) -> None:
        """Lift one reason; with the last of them the partition goes on."""
        if tp in self._held[why]:
            self._held[why].discard(tp)
            if tp in self.roster and not any(tp in held for held in self._held.values()):
                self.roster.release(tp)

    def held(self, why: Hold) -> AbstractSet[TopicPartition]:
        """Give the partitions that are held for a reason."""
        return self._held[why]

    def give_up(
        self, track: Track, state: State, reason: str, replicas: Brokers | None = None
    ) -> Event:
        """Let go of a partition for good, with the replicas that someone else gave it."""
        if track.tp in self.roster:
            self.roster.withdraw(track.tp)
        for held in self._held.values():
            held.discard(track.tp)
        self.doubts.clear(track.tp)
        return now_in(track, state, reason, replicas)

    def failed(self, track: Track, reason: str) -> list[Event]:
        """Let go of a partition that Kafka refuses, and pause the run if that was chosen."""
        events = [self.give_up(track, State.FAILED, reason)]
        if self.run.options.stop_on_failure and By.FAILURE not in self.run.pauses.whole:
            events.append(Paused(by=By.FAILURE, reason=f"{track.tp} has failed"))
        return events

    def taken_note(self, track: Track, situation: Situation) -> list[Event]:
        """File a waiting partition by how it was seen, and give what that changes for people."""
        return stands(track, self.roster.seen(track.tp, situation))


def now_in(track: Track, state: State, reason: str = "", replicas: Brokers | None = None) -> NowIn:
    """Say that a partition has come into a state, and what replicas someone else gave it."""
    topic, partition = track.tp.topic, track.tp.partition
    return NowIn(topic=topic, partition=partition, state=state, reason=reason, replicas=replicas)


def stands(track: Track, step: Next) -> list[Event]:
    """Say where a waiting partition stands now, if that is not where it stood.

    One that waits for its turn keeps the reason why it waits again.
    """
    state, reason = _standing(step)
    if state is track.state and (state is State.QUEUED or reason == track.reason):
        return []
    return [now_in(track, state, reason)]


def _standing(step: Next) -> tuple[State, str]:
    if isinstance(step, Done):
        return State.DONE, ""
    if isinstance(step, Blocked):
        foreign = step.why is Why.REASSIGNING
        return (State.FOREIGN if foreign else State.BLOCKED), step.sentence
    return (State.READY if step.cut else State.QUEUED), ""
