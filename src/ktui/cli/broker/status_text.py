"""A broker's status for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ktui.cli.broker.read import BrokerView
from ktui.cli.output.table import table
from ktui.cluster.broker import LogDir, all_cordoned
from ktui.cluster.text import clean
from ktui.execution.broker.facts import BrokerFacts
from ktui.execution.broker.holdings import HeldReplica, Stay, TopicHoldings, total
from ktui.quantities import as_bytes, as_count

_HEADER = ("TOPIC", "REPLICAS", "SIZE", "LEADS", "PREFERRED", "WHY THEY ARE THERE")
_WORDS = {
    Stay.LEAVING: "being moved away by {by}",
    Stay.ARRIVING: "being moved here by {by}",
    Stay.PLANNED: "in the plan of {by}, to leave",
    Stay.KEPT: "in the plan of {by}, to stay",
    Stay.CANARY: "of the canary of {by}, which goes with it",
    Stay.LEFT_CANARY: "left by the canary of {by}",
    Stay.UNPLANNED: "in no plan",
    Stay.STRAY: "only on disk, unknown to the metadata",
}


def status_text(view: BrokerView, *, most: int | None) -> str:
    """Describe a broker, its log dirs, and its topics.

    Args:
        view: the broker.
        most: how many topics to show; None for all.
    """
    return "\n".join(map(clean_line, _lines(view, most)))


def clean_line(text: str) -> str:
    """Escape control characters in each line of a text."""
    return "\n".join(map(clean, text.split("\n")))


def _lines(view: BrokerView, most: int | None) -> Iterator[str]:
    facts, held = view.facts, view.holdings
    yield f"broker {facts.id}: {_state(facts)}"
    yield _sum(held.replicas, held.bytes)
    if view.removal is not None and view.removal.unregistered_at is None:
        undo = " --undo" if view.removal.undoing else ""
        yield f"it is being removed. Go on: ktui broker remove {facts.id}{undo}"
    if stays := sum(not each.why.leaves for each in held.replicas):
        yield f"{stays:,} of them stay unless a plan takes them away"
    if facts.log_dirs:
        yield ""
        yield table(("LOG DIR", "STATE", "FREE", "OF"), _dir_rows(facts.log_dirs), right=(2, 3))
    topics = held.topics()
    if topics:
        yield ""
        yield table(_HEADER, [_row(topic) for topic in topics[:most]], right=(1, 2, 3, 4))
    if most is not None and (others := topics[most:]):
        replicas = as_count(sum(len(topic.replicas) for topic in others), "replica")
        size = as_bytes(total(topic.bytes for topic in others))
        yield f"and {as_count(len(others), 'topic')} more: {replicas}, {size}. All of them: --all"
    for run in view.without_engine:
        yield f"run {run} has no engine. Go on with it: ktui resume {run}"
    left = (topic.topic for topic in topics if topic.replicas[0].why is Stay.LEFT_CANARY)
    for name in left:
        yield (
            f"topic {name}: no unfinished run of this state directory has it. If none of another "
            f"one does, delete it: kafka-topics.sh --delete --topic {name}"
        )
    for sentence in facts.unread:
        yield f"could not read: {sentence}"


def _state(facts: BrokerFacts) -> str:
    broker = facts.broker
    if broker is None:
        return "not registered, or down"
    words = ["alive" if broker.alive else "fenced"]
    if broker.rack is not None:
        words.append(f"rack {broker.rack}")
    if facts.on_disk is None:
        words.append("its log dirs cannot be read")
    elif all_cordoned(facts.log_dirs):
        words.append("cordoned")
    elif cordoned := sum(each.cordoned for each in facts.log_dirs):
        words.append(f"{cordoned} of {as_count(len(facts.log_dirs), 'log dir')} cordoned")
    if failed := sum(each.error is not None for each in facts.log_dirs):
        words.append(f"{as_count(failed, 'log dir')} offline")
    return ", ".join(words)


def _sum(held: Sequence[HeldReplica], size: int | None) -> str:
    if not held:
        return "holds no replica"
    leads = sum(each.leads for each in held)
    preferred = sum(each.preferred for each in held)
    return (
        f"holds {as_count(len(held), 'replica')}, {as_bytes(size)}; leads {leads:,}, is the "
        f"preferred leader of {preferred:,}"
    )


def _dir_rows(log_dirs: Iterable[LogDir]) -> list[tuple[str, ...]]:
    return [
        (
            each.path,
            f"offline: {each.error}" if each.error else "cordoned" if each.cordoned else "open",
            as_bytes(each.usable_bytes),
            as_bytes(each.total_bytes),
        )
        for each in sorted(log_dirs, key=lambda log_dir: log_dir.path)
    ]


def _row(topic: TopicHoldings) -> tuple[str, ...]:
    return (
        topic.topic,
        f"{len(topic.replicas):,}",
        as_bytes(topic.bytes),
        f"{sum(each.leads for each in topic.replicas):,}",
        f"{sum(each.preferred for each in topic.replicas):,}",
        "; ".join((_whys(topic), *_remarks(topic.replicas))),
    )


def _whys(topic: TopicHoldings) -> str:
    return ", ".join(f"{count:,} {_words(why, run)}" for why, run, count in topic.reasons())


def _words(why: Stay, run: str) -> str:
    by = f"run {run}" if run else "somebody else"
    return _WORDS[why].format(by=by)


def _remarks(held: Sequence[HeldReplica]) -> Iterator[str]:
    if alone := sum(each.only_in_sync for each in held):
        yield f"{alone:,} the only in sync"
    if offline := sum(each.offline for each in held):
        yield f"{offline:,} without a leader"
    if moving := sum(each.moves_dirs for each in held):
        yield f"{moving:,} moving between log dirs"
