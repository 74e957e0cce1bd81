"""What others have throttled already, and what a run's throttle means for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ktui.cluster.broker import BrokerConfig, TopicConfig
from ktui.cluster.ports import ConfigSource
from ktui.cluster.throttle_settings import ALL, FOLLOWER_RATE, LEADER_RATE, entries
from ktui.planning.disks import warning
from ktui.planning.finding import Finding, Kind
from ktui.planning.names import among
from ktui.planning.throttled_run import ThrottledRun, brokers_named
from ktui.quantities import as_rate

_FROM = {
    ConfigSource.EVERY_BROKER: ", set for every broker",
    ConfigSource.FILE: ", set in a file",
}
_NO_BROKER = BrokerConfig()
_NO_TOPIC = TopicConfig()


def others_throttles(run: ThrottledRun) -> Iterator[Finding]:
    """Name rates that the run replaces, and replicas of others that its rates bind."""
    rated = [b for b in run.growing.gaining if run.throttle.of(b) is not None]
    yield from _replaced(run, FOLLOWER_RATE, rated)
    yield from _bound_too(run, FOLLOWER_RATE, rated)
    if run.leaders:
        rated = [b for b in run.growing.holding if run.throttle.of(b) is not None]
        yield from _replaced(run, LEADER_RATE, rated)
        yield from _bound_too(run, LEADER_RATE, rated)


def _replaced(run: ThrottledRun, key: str, brokers: Sequence[int]) -> Iterator[Finding]:
    """Name the rates that are there, and are put back when the run is over."""
    found: defaultdict[tuple[int, str, int], list[int]] = defaultdict(list)
    for broker in brokers:
        config = run.growing.snapshot.broker_configs.get(broker, _NO_BROKER)
        follower = key == FOLLOWER_RATE
        theirs = config.follower_throttle_rate if follower else config.leader_throttle_rate
        ours = run.throttle.of(broker)
        if theirs is not None and ours is not None and theirs != ours:
            setting = run.growing.snapshot.rates.get(broker, {}).get(key)
            source = "" if setting is None else _FROM.get(setting.source, "")
            found[theirs, source, ours].append(broker)
    for (theirs, source, ours), those in sorted(found.items()):
        told = (
            f"{brokers_named(those)} {'has' if len(those) == 1 else 'have'} a {key} of "
            f"{as_rate(theirs)} already{source}: {as_rate(ours)} takes its place while the run "
            "needs it, and it is put back after"
        )
        yield warning(Kind.THROTTLE_REPLACED, told)


def _bound_too(run: ThrottledRun, key: str, brokers: Sequence[int]) -> Iterator[Finding]:
    """Name the topics of which others have listed replicas on brokers that the run throttles."""
    if not brokers:
        return
    listed = {f":{broker}" for broker in brokers}
    side = "follower" if key == FOLLOWER_RATE else "leader"
    whole, some = [], []
    for topic in sorted({one.tp.topic for one in run.growing.wanted}):
        config = run.growing.snapshot.configs.get(topic, _NO_TOPIC)
        leaders = config.leader_throttled_replicas
        theirs = entries(config.follower_throttled_replicas if side == "follower" else leaders)
        if ALL in theirs:
            whole.append(topic)
        elif any(each[each.find(":") :] in listed for each in theirs):
            some.append(topic)
    for topics, what in ((whole, "all replicas"), (some, "replicas")):
        if topics:
            told = (
                f"someone else has {what} of {among(topics)} in {side}.replication.throttled."
                f"replicas: the run leaves that as it is, and its rates on "
                f"{brokers_named(brokers)} bind them, too, also those in sync"
            )
            yield warning(Kind.OTHERS_THROTTLED, told)
