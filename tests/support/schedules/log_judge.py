"""What the controllers took in of a run, by their own log, held against what was meant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import Verdict
from ktui.execution.events import Answered, Cancel, Ended, Entry, Request, StepBegun
from ktui.lab.layout import Lab
from support.metadata_log import PartitionRecord, dumped_with_times, partitions_among

WINDOW_MS = 15_000
"""As long as a request may be on its way: 5 s after its read, and until its answer is given up."""
_CLOCKS_MS = 20

Replicas = tuple[int, ...]


class Standing(msgspec.Struct, frozen=True):
    """One partition at a moment, as the controllers have it."""

    replicas: Replicas = ()
    adding: Replicas = ()
    removing: Replicas = ()
    isr: Replicas = ()
    leader: int = -1

    @property
    def moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> Replicas:
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def assigned(self) -> tuple[Replicas, Replicas, Replicas]:
        return self.replicas, self.adding, self.removing

    def after(self, record: PartitionRecord) -> Standing:
        return Standing(
            self.replicas if record.replicas is None else record.replicas,
            self.adding if record.adding is None else record.adding,
            self.removing if record.removing is None else record.removing,
            self.isr if record.isr is None else record.isr,
            self.leader if record.leader is None else record.leader,
        )


class Effect(msgspec.Struct, frozen=True):
    """A request that took effect: an alter, or a cancel, which has no target."""

    tp: TopicPartition
    at_ms: int
    target: Replicas | None
    before: Standing
    after: Standing


class Intent(msgspec.Struct):
    """A request as the journal has it, and its answer."""

    tp: TopicPartition
    at_ms: int
    target: Replicas | None
    answer: Answered | None = None


class TopicLog(msgspec.Struct):
    """What befell the partitions of a topic.

    Attributes:
        effects: the requests that took effect, in order.
        unclean: each election by Kafka of a replica that was not in sync: the partition, when.
        shrunk: when each partition's ISR last lost a member before a moment.
    """

    effects: list[Effect] = []
    unclean: list[tuple[TopicPartition, int]] = []
    shrunk: defaultdict[TopicPartition, list[int]] = msgspec.field(
        default_factory=lambda: defaultdict(list)
    )
    problems: list[str] = []


def read_log(lab: Lab, topics: Iterable[str]) -> dict[str, TopicLog]:
    """Read what befell topics."""
    records = list(dumped_with_times(lab))
    times = {offset: at_ms for offset, at_ms, _ in records}
    untimed = [(offset, record) for offset, _, record in records]
    return {topic: _followed(partitions_among(untimed, topic), times) for topic in topics}


def _followed(records: Iterable[PartitionRecord], times: Mapping[int, int]) -> TopicLog:
    log = TopicLog()
    standing: dict[TopicPartition, Standing] = {}
    for record in records:
        before = standing.get(record.tp, Standing())
        now = standing[record.tp] = before.after(record)
        if not record.created:
            _take(log, record, times[record.offset], before, now)
    return log


def _take(
    log: TopicLog, record: PartitionRecord, at_ms: int, before: Standing, now: Standing
) -> None:
    tp = record.tp
    if {*before.isr} - {*now.isr}:
        log.shrunk[tp].append(at_ms)
    effect = _effect(tp, at_ms, before, now)
    if effect is not None:
        log.effects.append(effect)
    if record.unclean and effect is None:
        log.unclean.append((tp, at_ms))
    elif record.unclean:
        log.problems.append(f"{tp}: a request gave the lead to a replica out of sync: {effect}")


def _effect(tp: TopicPartition, at_ms: int, before: Standing, now: Standing) -> Effect | None:
    """Recognise a request; None for what Kafka does by itself."""
    if now.assigned == before.assigned:
        return None
    if not before.moving:
        return Effect(tp, at_ms, now.target, before, now)
    if now.moving:
        return Effect(tp, at_ms, now.target, before, now)
    if now.replicas == before.target:
        return None  # it is complete
    return Effect(tp, at_ms, None, before, now)


def intents(entries: Iterable[Entry]) -> dict[TopicPartition, list[Intent]]:
    """Give the alters and cancels of a journal, each with its answer."""
    found: defaultdict[TopicPartition, list[Intent]] = defaultdict(list)
    for entry in entries:
        match entry.event:
            case StepBegun(alters=True) as step:
                found[step.tp].append(Intent(step.tp, _ms(entry.at), step.replicas))
            case Cancel() as cancel:
                found[cancel.tp].append(Intent(cancel.tp, _ms(entry.at), None))
            case Answered(request=Request.ALTER | Request.CANCEL) as answer:
                cancels = answer.request is Request.CANCEL
                mine = [i for i in found[answer.tp] if (i.target is None) is cancels]
                if mine:
                    mine[-1].answer = answer
    return found


def against_intents(log: TopicLog, meant: Mapping[TopicPartition, Sequence[Intent]]) -> list[str]:
    """Name what took effect and was not the last thing that was sent for its partition."""
    wrong = list(log.problems)
    for effect in log.effects:
        sent = [i for i in meant.get(effect.tp, ()) if i.at_ms <= effect.at_ms + _CLOCKS_MS]
        mine = [i for i in sent if i.target == effect.target]
        if not mine:
            wrong.append(f"{effect.tp}: nobody meant to send this: {effect}")
            continue
        later = [i for i in sent[sent.index(mine[-1]) + 1 :] if not _without_effect(i)]
        if later:
            wrong.append(f"{effect.tp}: {mine[-1]} took effect after {later}: {effect}")
        if effect.target is not None and effect.before.moving:
            wrong.append(f"{effect.tp}: altered while it moved: {effect}")
    return wrong


def _without_effect(intent: Intent) -> bool:
    return intent.answer is not None and intent.answer.verdict is Verdict.REFUSED


def lost_in_sync(log: TopicLog, least: int) -> tuple[list[str], list[str]]:
    """Name the effects that left too few in sync: those against the rules, and those in the window.

    Args:
        log: of a topic.
        least: its min.insync.replicas.

    Returns:
        What is against the rules; what changed between a request's read and its effect.
    """
    wrong: list[str] = []
    window: list[str] = []
    for effect in log.effects:
        before, after = effect.before, effect.after
        if effect.target is None:
            left, needed = {*before.isr} - {*before.adding}, 1
        else:
            dropped = {*before.replicas} - {*effect.target}
            if not dropped & {*before.isr}:
                continue
            added = {*effect.target} - {*before.replicas}
            left, needed = {*before.isr} - dropped | added, min(least, len(effect.target))
        if len(left) >= needed:
            continue
        told = f"{effect.tp}: {sorted(left)} in sync after {effect.target} of {before} at {after}"
        shrunk = [at for at in log.shrunk[effect.tp] if 0 <= effect.at_ms - at <= WINDOW_MS]
        (window if shrunk else wrong).append(told)
    return wrong, window


def after_the_end(log: TopicLog, entries: Sequence[Entry]) -> list[str]:
    """Name what took effect after a run had ended, and was not named as open."""
    if not entries or not isinstance((last := entries[-1]).event, Ended):
        return []
    open_still = {TopicPartition(each.topic, each.partition) for each in last.event.open}
    late = (effect for effect in log.effects if effect.at_ms > _ms(last.at) + _CLOCKS_MS)
    return [f"{e.tp}: it came after the end: {e}" for e in late if e.tp not in open_still]


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
