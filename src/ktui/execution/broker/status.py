"""What a broker holds, with the runs that take it away: as it was read, and in words. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from ktui.cluster.broker import LogDir, all_cordoned
from ktui.cluster.text import clean
from ktui.execution.broker.facts import BrokerFacts
from ktui.execution.broker.holdings import (
    HeldReplica,
    Holdings,
    Stay,
    TopicHoldings,
    claims_on,
    find_holdings,
)
from ktui.execution.broker.removal import Removal
from ktui.execution.run.run import Run
from ktui.planning.names import join_all, join_named, join_some
from ktui.quantities import as_bytes, as_count

NOTHING = "it holds no replica, and none is being moved to it"
EMPTY = f"empty: {NOTHING}"
_WHYS = {
    Stay.LEAVING: "being moved away by {by}",
    Stay.ARRIVING: "being moved here by {by}",
    Stay.PLANNED: "in the plan of {by}, to leave",
    Stay.KEPT: "in the plan of {by}, to stay",
    Stay.CANARY: "of the canary of {by}, which goes with it",
    Stay.LEFT_CANARY: "left by the canary of {by}",
    Stay.UNPLANNED: "in no plan",
    Stay.STRAY: "only on disk, unknown to the metadata",
}
_CANARIES = {
    Stay.CANARY: "{} of the canary of {}, which goes with it",
    Stay.LEFT_CANARY: "{} left by the canary of {}",
}


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A broker, its replicas, and the runs that have to do with them."""

    facts: BrokerFacts
    holdings: Holdings
    excluded: Holdings = Holdings(())
    """Its replicas of topics that are left out: they do not count in `holdings`."""
    without_engine: tuple[str, ...] = ()
    """The unfinished runs that have to do with its replicas, and that no engine carries on."""
    fresh: bool
    """Whether the metadata was proven to be no older than the call."""
    removal: Removal | None = None
    """Its removal, as the state directory remembers it; None for none, or where nobody looked."""

    @property
    def proven_empty(self) -> bool:
        """Whether the broker is known to hold nothing, by proven metadata and its own log dirs."""
        read = self.facts.on_disk is not None and not self.facts.unread
        return self.fresh and read and not self.holdings.replicas


def find_status(
    facts: BrokerFacts,
    runs: Collection[tuple[Run, bool]],
    *,
    fresh: bool,
    removal: Removal | None = None,
    exclude: Collection[str] = (),
) -> BrokerStatus:
    """Return what a broker holds, and why.

    Args:
        facts: what was read of the broker.
        runs: the unfinished runs on its cluster, each with whether an engine carries it on.
        fresh: whether the metadata was proven to be no older than the call.
        removal: its removal, as the state directory remembers it; None for none.
        exclude: the topics that are left out, as names or shell patterns.
    """
    claims = claims_on(facts.id, [run for run, _ in runs], facts.states)
    holdings, excluded = find_holdings(facts, claims, {run.name for run, _ in runs}).split(exclude)
    concerned = {each.run for each in holdings.replicas}
    idle = (run.name for run, owned in runs if not owned and run.name in concerned)
    return BrokerStatus(
        facts=facts,
        holdings=holdings,
        excluded=excluded,
        without_engine=tuple(sorted(idle)),
        fresh=fresh,
        removal=removal,
    )


def unknown_broker(broker: int, known: Collection[int]) -> str:
    """Return the sentence that the cluster has no such broker."""
    return (
        f"the cluster has {join_named('broker', sorted(known), most=20)}, no broker {broker}. "
        "Before 4.0, Kafka does not name a broker that is down"
    )


def state_words(facts: BrokerFacts) -> str:
    """Describe the state of a broker: alive, its rack, its cordon, and log dirs that fail."""
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


def held_words(holdings: Holdings) -> Iterator[str]:
    """Yield how much a broker holds and leads, and how much of that nothing takes away."""
    held = holdings.replicas
    if not held:
        yield "holds no replica"
        return
    leads = sum(each.leads for each in held)
    preferred = sum(each.preferred for each in held)
    yield (
        f"holds {as_count(len(held), 'replica')}, {as_bytes(holdings.bytes)}; leads {leads:,}, is "
        f"the preferred leader of {preferred:,}"
    )
    if stays := sum(not each.why.leaves for each in held):
        yield f"{stays:,} of them stay unless a plan takes them away"


def dir_words(log_dir: LogDir) -> str:
    """Describe the state of a log dir."""
    if log_dir.error:
        return f"offline: {log_dir.error}"
    return "cordoned" if log_dir.cordoned else "open"


def why_words(topic: TopicHoldings) -> str:
    """Describe why the replicas of a topic are on the broker, and what depends on them."""
    whys = ", ".join(f"{count:,} {_why(why, run)}" for why, run, count in topic.reasons())
    return "; ".join((whys, *_remarks(topic.replicas)))


def _why(why: Stay, run: str) -> str:
    return _WHYS[why].format(by=f"run {run}" if run else "somebody else")


def _remarks(held: Sequence[HeldReplica]) -> Iterator[str]:
    if alone := sum(each.only_in_sync for each in held):
        yield f"{alone:,} the only in sync"
    if offline := sum(each.offline for each in held):
        yield f"{offline:,} without a leader"
    if moving := sum(each.moves_dirs for each in held):
        yield f"{moving:,} moving between log dirs"


def advice_lines(status: BrokerStatus, topics: Iterable[TopicHoldings]) -> Iterator[str]:
    """Yield what to do about runs without an engine and left canaries, and what was not read."""
    for run in status.without_engine:
        yield f"run {run} has no engine. Go on with it: ktui resume {run}"
    left = (topic.topic for topic in topics if topic.replicas[0].why is Stay.LEFT_CANARY)
    for name in left:
        yield (
            f"topic {name}: no unfinished run of this state directory has it. If none of another "
            f"one does, delete it: kafka-topics.sh --delete --topic {name}"
        )
    for sentence in status.facts.unread:
        yield f"could not read: {sentence}"


def why_unknown(view: BrokerStatus) -> str:
    """Return why a broker without known replicas is not known to be empty."""
    unread = view.facts.unread
    return f"the metadata names no replica on it, but {join_some(unread)}"


def but_for(view: BrokerStatus) -> str:
    """Return that a broker is empty but for what is left out; empty where nothing is left out."""
    if not view.excluded.replicas:
        return ""
    topics = (
        f"{as_count(len(each.replicas), 'replica')} of {each.topic}"
        for each in view.excluded.topics()
    )
    return f"empty but for these: {join_some(topics, most=8)}"


def held_line(view: BrokerStatus) -> str:
    """Describe in one line how much a broker holds, and which of that is on its way."""
    holdings = view.holdings
    replicas, topics = as_count(len(holdings.replicas), "replica"), holdings.topics()
    size = f", {as_bytes(holdings.bytes)}" if holdings.bytes is not None else ""
    line = f"broker {view.facts.id} holds {replicas} of {as_count(len(topics), 'topic')}{size}"
    parts = [*_on_their_way(view)]
    for why, text in _CANARIES.items():
        if runs := sorted({each.run for each in holdings.replicas if each.why is why}):
            parts.append(text.format(f"{holdings.count(why):,}", join_named("run", runs)))
    if view.facts.unread:
        parts.append(f"not all could be read: {join_some(view.facts.unread)}")
    return clean(f"{line}: {'; '.join(parts)}" if parts else line)


def _on_their_way(view: BrokerStatus) -> list[str]:
    templates = {
        Stay.LEAVING: "{} leaving",
        Stay.ARRIVING: "{} arriving",
        Stay.STRAY: "{} only on its disk, unknown to the metadata",
    }
    counted = ((text, view.holdings.count(why)) for why, text in templates.items())
    parts = [text.format(f"{count:,}") for text, count in counted if count]
    moving = sum(each.moves_dirs for each in view.holdings.replicas)
    if moving:
        parts.append(f"{moving:,} moving to another of its log dirs")
    return [join_all(parts)] if parts else []
