"""The verdict on a schedule, by the controllers' log, acknowledged messages and settings."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator

import msgspec
from confluent_kafka import Consumer, TopicPartition

from ktui.cluster.ports import Verdict
from ktui.execution.run.events import Answered, Configured, Started, StepOver, ThrottleChanged
from ktui.execution.run.states import State
from ktui.kafka.connection.connection import Connection
from ktui.kafka.reader import KafkaReader
from ktui.kafka.transport.pool import redirect_client_log
from support.kafka.real_runs import (
    changed,
    described,
    otherwise_than_expected,
    steps_against_cancels,
)
from support.schedules.log_judge import (
    Replayed,
    TopicLog,
    after_the_end,
    against_intents,
    intents,
    late_s,
    lost_in_sync,
    read_log,
    recorded_looks,
    unthrottled,
)
from support.schedules.play import Play
from support.schedules.schedule import BROKERS, PARTITIONS, Asked, Fault

_READ_S = 60.0
_ENDS = frozenset({State.DONE, State.STOPPED, State.ROLLED_BACK})
"""The possible final states of a partition that nobody else touches."""


class Verdicts(msgspec.Struct):
    """The outcome of a schedule."""

    number: int
    happened: list[str]
    problems: list[str] = []
    fired: Counter[Fault | Asked] = msgspec.field(default_factory=Counter)
    moved: int = 0  # steps that added or removed replicas, and reached their target
    states: Counter[State] = msgspec.field(default_factory=Counter)
    unknown: int = 0  # requests without an answer, including those for settings
    acknowledged: int = 0
    lost: int = 0  # acknowledged messages that are lost because Kafka elected a replica out of sync
    passed_over: int = 0
    """Messages that are there, but below the offset that the group had before such an election."""
    unclean: int = 0
    latest_s: float = 0.0  # the longest time of a request in seconds, from its intent to its effect
    window: list[str] = []
    """Effects of requests whose grounds had changed between their read and their effect."""
    decisions: int = 0
    unseen: int = 0
    took_s: float = 0.0


def judged(play: Play) -> Verdicts:
    """Check what was played against all promises of ktui."""
    verdicts = Verdicts(play.schedule.number, play.happened, play.problems, play.fired)
    verdicts.states = Counter(track.state for track in play.run.tracks.values())
    kinds = Answered | Configured
    answers = [entry.event for entry in play.entries if isinstance(entry.event, kinds)]
    verdicts.unknown = sum(answer.verdict is Verdict.UNKNOWN for answer in answers)
    over = [entry.event for entry in play.entries if isinstance(entry.event, StepOver)]
    verdicts.moved = sum(step.reached for step in over)
    verdicts.took_s = play.took_s
    verdicts.problems += _states(play)
    logs = read_log(play.nodes.lab, [topic.name for topic in play.schedule.topics])
    _judge_log(play, logs, verdicts)
    _judge_messages(play, logs, verdicts)
    verdicts.problems += asyncio.run(_placed(play))
    verdicts.problems += _settings(play)
    _judge_journal(play, verdicts)
    return verdicts


def _states(play: Play) -> Iterator[str]:
    for track in play.run.tracks.values():
        if track.state not in _ENDS:
            yield f"{track.tp} is {track.state}: {track.reason}"


def _judge_log(play: Play, logs: dict[str, TopicLog], verdicts: Verdicts) -> None:
    meant = intents(play.entries)
    rates = _rates(play)
    for topic in play.schedule.topics:
        log = logs[topic.name]
        verdicts.problems += against_intents(log, meant)
        verdicts.problems += after_the_end(log, play.entries)
        verdicts.latest_s = max(verdicts.latest_s, *late_s(log, meant), 0.0)
        wrong, window = lost_in_sync(log, int(topic.settings.get("min.insync.replicas", 1)))
        verdicts.problems += wrong
        verdicts.window += window
        verdicts.problems += unthrottled(log, rates) if rates else ()
        verdicts.unclean += len(log.unclean)
    verdicts.fired[Fault.LAST_COPY_KILLED] += bool(verdicts.unclean)


def _rates(play: Play) -> set[str]:
    """Return the rates that were in force in a run; none if it ever had no throttle."""
    found = []
    for entry in play.entries:
        match entry.event:
            case Started() as started:
                found.append(started.options.throttle.every)
            case ThrottleChanged() as changed_to:
                found.append(changed_to.new.every)
    return set() if None in found else {str(rate) for rate in found}


def _judge_messages(play: Play, logs: dict[str, TopicLog], verdicts: Verdicts) -> None:
    """Allow lost acknowledged messages only where Kafka elected a replica out of sync."""
    for topic, messages in zip(play.schedule.topics, play.traffic, strict=True):
        there = _keys(play.connection, topic.name)
        unclean = {tp.partition for tp, _ in logs[topic.name].unclean}
        gone = messages.acknowledged - there
        verdicts.acknowledged += len(messages.acknowledged)
        without_reason = {key for key in gone if key % PARTITIONS not in unclean}
        verdicts.lost += len(gone - without_reason)
        if without_reason:
            verdicts.problems.append(
                f"{topic.name}: acknowledged and gone: {sorted(without_reason)}"
            )
        unread = (messages.acknowledged & there) - messages.read
        # a truncated log grows again below the offsets that the group had read up to
        verdicts.passed_over += len({key for key in unread if key % PARTITIONS in unclean})
        if unread := {key for key in unread if key % PARTITIONS not in unclean}:
            verdicts.problems.append(f"{topic.name}: its group has not read {sorted(unread)}")


def _keys(connection: Connection, topic: str) -> set[int]:
    """Read the keys of all committed messages."""
    settings = {**connection.for_confluent(), "group.id": "judge", "enable.auto.commit": False}
    consumer = Consumer(
        {**settings, "auto.offset.reset": "earliest", "enable.partition.eof": True},
        logger=redirect_client_log("librdkafka"),
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: set[int] = set()
    at_end: set[int] = set()
    until = time.monotonic() + _READ_S
    while len(at_end) < PARTITIONS and time.monotonic() < until:
        message = consumer.poll(0.5)
        if message is None:
            continue
        if message.error() is not None:
            at_end.add(message.partition() or 0)
        elif key := message.key():
            found.add(int(key))
    consumer.close()
    return found


async def _placed(play: Play) -> list[str]:
    """List what differs from the run's journal, or from the last command."""
    reader = KafkaReader(play.connection)
    try:
        listed = await reader.list_reassignments()
    finally:
        await reader.aclose()
    wrong = []
    for topic in play.schedule.topics:
        found = await described(play.connection, topic.name)
        tracks = {tp: track for tp, track in play.run.tracks.items() if tp in found}
        wrong += otherwise_than_expected(tracks, found, listed, leaders=False)
    return [*wrong, *steps_against_cancels(e.event for e in play.entries)]


def _settings(play: Play) -> Iterator[str]:
    if otherwise := changed(play.connection, play.settings):
        yield f"settings are not as before: {otherwise}"


def _judge_journal(play: Play, verdicts: Verdicts) -> None:
    recording = play.shell.run_dir(play.name).recording
    replayed = Replayed(play.entries, recorded_looks(recording), BROKERS, 1)
    verdicts.problems += replayed.problems()
    verdicts.decisions, verdicts.unseen = replayed.rules.decisions, replayed.unseen
