"""A broker's status for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ktui.cli.output.table import table
from ktui.cluster.broker import LogDir
from ktui.cluster.text import clean
from ktui.execution.broker.holdings import TopicHoldings, total
from ktui.execution.broker.status import (
    BrokerStatus,
    advice_lines,
    dir_words,
    held_words,
    state_words,
    why_words,
)
from ktui.quantities import as_bytes, as_count

_HEADER = ("TOPIC", "REPLICAS", "SIZE", "LEADS", "PREFERRED", "WHY THEY ARE THERE")


def status_text(status: BrokerStatus, *, most: int | None) -> str:
    """Describe a broker, its log dirs, and its topics.

    Args:
        status: the broker.
        most: how many topics to show; None for all.
    """
    return "\n".join(map(clean_line, _lines(status, most)))


def clean_line(text: str) -> str:
    """Escape control characters in each line of a text."""
    return "\n".join(map(clean, text.split("\n")))


def _lines(status: BrokerStatus, most: int | None) -> Iterator[str]:
    facts = status.facts
    yield f"broker {facts.id}: {state_words(facts)}"
    yield from held_words(status.holdings)
    if status.removal is not None and status.removal.unregistered_at is None:
        undo = " --undo" if status.removal.undoing else ""
        yield f"it is being removed. Go on: ktui broker remove {facts.id}{undo}"
    if facts.log_dirs:
        yield ""
        yield table(("LOG DIR", "STATE", "FREE", "OF"), _dir_rows(facts.log_dirs), right=(2, 3))
    topics = status.holdings.topics()
    if topics:
        yield ""
        yield table(_HEADER, [_row(topic) for topic in topics[:most]], right=(1, 2, 3, 4))
    if most is not None and (others := topics[most:]):
        replicas = as_count(sum(len(topic.replicas) for topic in others), "replica")
        size = as_bytes(total(topic.bytes for topic in others))
        yield f"and {as_count(len(others), 'topic')} more: {replicas}, {size}. All of them: --all"
    yield from advice_lines(status, topics)


def _dir_rows(log_dirs: Iterable[LogDir]) -> list[tuple[str, ...]]:
    return [
        (each.path, dir_words(each), as_bytes(each.usable_bytes), as_bytes(each.total_bytes))
        for each in sorted(log_dirs, key=lambda log_dir: log_dir.path)
    ]


def _row(topic: TopicHoldings) -> tuple[str, ...]:
    return (
        topic.topic,
        f"{len(topic.replicas):,}",
        as_bytes(topic.bytes),
        f"{sum(each.leads for each in topic.replicas):,}",
        f"{sum(each.preferred for each in topic.replicas):,}",
        why_words(topic),
    )
