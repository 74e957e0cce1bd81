"""Unregister a broker that is down for good, and read back that it is gone.

Kafka itself checks nothing but that the broker is registered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from ktui.cluster.asking import LEAVES_WITHIN_S
from ktui.cluster.clock import Clock, read_until
from ktui.cluster.errors import ClusterError, KafkaError
from ktui.cluster.ports import (
    ClusterDescription,
    ClusterPorts,
    ClusterReader,
    ClusterWriter,
    Verdict,
    WriteResult,
)
from ktui.cluster.settings import CORDONED, LOG_DIR_RATE, RATES
from ktui.cluster.text import clean
from ktui.execution import RunProblem, RunRefused
from ktui.execution.broker.cordon import READ_BACK_S
from ktui.execution.broker.status import BrokerFacts, read_metadata
from ktui.execution.run.run import Run
from ktui.execution.run.track import Track, find_goal
from ktui.planning.plan import join_all, join_named, join_some
from ktui.quantities import as_count

INHERITED = (*RATES, LOG_DIR_RATE, CORDONED)  # they would hurt the next broker of its id
NOTHING_SENT = "nothing was sent: "
NOT_REGISTERED = KafkaError.BROKER_ID_NOT_REGISTERED

RunsOf = Callable[[str], Iterable[Run]]  # unfinished ones of this state directory, by cluster id


class NotRegistered(RunRefused):
    """The broker is not registered, in Kafka's own words."""


async def check_unregister(
    reader: ClusterReader, broker: int, runs_of: RunsOf
) -> ClusterDescription:
    """Check that a broker is registered, is down, and is named by nothing; return all brokers.

    They are read last, to see one that comes up meanwhile. Raises RunRefused, which says why not,
    or ClusterError: no cluster, or no proof of the metadata's age.
    """
    facts = await read_metadata(reader, broker, fresh=True)
    cluster = await reader.describe_cluster()
    why = find_obstacle(facts, cluster, brought_by(broker, runs_of(facts.cluster_id)))
    if why is not None:
        raise RunRefused(f"{NOTHING_SENT}{why}")
    return cluster


async def unregister(ports: ClusterPorts, broker: int, clock: Clock, runs_of: RunsOf) -> None:
    """Check a broker, unregister it, and wait until the cluster no longer reports it.

    Raises NotRegistered; RunRefused: it stays registered; RunProblem: the request was sent, and the
    broker is still reported; ClusterError: nothing was sent.
    """
    before = await check_unregister(ports.reader, broker, runs_of)
    result = await ports.writer.unregister_broker(broker, leaves_within_s=LEAVES_WITHIN_S)
    if result.verdict is Verdict.REFUSED:
        refused = NotRegistered if result.code == NOT_REGISTERED else RunRefused
        raise refused(_refusal(broker, result))
    lost = result.verdict is Verdict.UNKNOWN
    if lost and not before.reports_fenced:
        raise RunProblem(
            f"the answer was lost, and Kafka before 4.0 does not report brokers that are down. To "
            f"see whether broker {broker} is unregistered, repeat the command: "
            "BROKER_ID_NOT_REGISTERED means that it is"
        )
    after = await read_until(
        ports.reader.describe_cluster,
        lambda now: broker not in now.brokers,
        clock,
        READ_BACK_S,
        lost=(ClusterError,),
    )
    if after is None or broker in after.brokers:
        raise RunProblem(_still_there(broker, after, lost=lost))


async def delete_unseen(writer: ClusterWriter, broker: int, names: Collection[str]) -> str | None:
    """Delete settings of a broker that is down; return why they may still be set, None if not."""
    try:
        result = await writer.delete_broker_settings(broker, names, leaves_within_s=LEAVES_WITHIN_S)
    except ClusterError as error:
        return (
            f"{error}. To name a controller: --bootstrap-controller HOST:PORT, with its connection "
            "settings in --controller-config FILE"
        )
    if result.verdict is Verdict.ACCEPTED:
        return None
    if result.verdict is Verdict.UNKNOWN:
        return "the controller's answer was lost"
    return ": ".join(filter(None, (result.code, result.message)))


async def unregister_for_good(
    ports: ClusterPorts, broker: int, clock: Clock, runs_of: RunsOf, note: Callable[[str], None]
) -> str | None:
    """Delete what the next broker of this id must not inherit, then unregister this one.

    The order is the controller's: no settings without a registration. Returns why they may have
    stayed, if so. Raises RunRefused or ClusterError: nothing was changed; RunProblem: they are
    deleted, and the broker is or may be registered.
    """
    await check_unregister(ports.reader, broker, runs_of)
    kept = await delete_unseen(ports.writer, broker, INHERITED)
    if kept is None:
        note(f"a controller has deleted the throttles and the cordon of broker {broker}")
    try:
        await unregister(ports, broker, clock, runs_of)
    except NotRegistered:
        raise
    except (RunRefused, ClusterError) as problem:
        if kept is not None:
            raise
        why = str(problem).removeprefix(NOTHING_SENT)
        raise RunProblem(
            f"broker {broker} stays registered, without the throttles and the cordon that were "
            f"deleted just now: {why}. If it should get no new partitions: ktui broker cordon "
            f"{broker}"
        ) from problem
    return kept


def kept_text(broker: int, why: str) -> str:
    """Say which settings of a broker's id may have stayed, what they do, and how they go."""
    return (
        f"what was set for id {broker} stays with it: {', '.join(INHERITED)} could not be deleted "
        f"({clean(why)}). If they are set, the next broker with id {broker} copies slowly and gets "
        f"no new partitions. Once it is up: ktui broker uncordon {broker}, and ktui doctor "
        "--clear-throttles"
    )


def brought_by(broker: int, runs: Iterable[Run]) -> dict[str, int]:
    """Count, by run, the partitions that runs bring to a broker that none names."""
    counts = {
        run.name: sum(_brings(track, broker) for track in run.tracks.values())
        for run in runs
        if run.exported is None
    }
    return {name: count for name, count in sorted(counts.items()) if count}


def _brings(track: Track, broker: int) -> bool:
    if track.state.ended:
        return False
    if track.then is not None and broker in track.then.target:
        return True
    return broker in find_goal(track, (), (), None).replicas


def find_obstacle(
    facts: BrokerFacts, cluster: ClusterDescription, brought: Mapping[str, int]
) -> str | None:
    """Return why a broker must not be unregistered, as sentences; None if it may be."""
    broker = facts.id
    if broker in cluster.online:
        return (
            f"broker {broker} is up. Stop it first: one that is unregistered while it is up leaves "
            "every ISR at once, and stays outside the cluster until it is killed and started again"
        )
    if broker not in cluster.brokers and cluster.reports_fenced:
        known = join_named("broker", sorted(cluster.brokers), most=20)
        return f"the cluster has {known}, no broker {broker}"
    if facts.states:
        topics = sorted({tp.topic for tp in facts.states})
        return (
            f"broker {broker} is still among the replicas of "
            f"{as_count(len(facts.states), 'partition')} of {join_named('topic', topics, most=8)}. "
            f"Move them away first: ktui plan drain {broker}. To see them: "
            f"ktui broker status {broker}"
        )
    if facts.unread:
        return f"broker {broker} is not known to be empty: {join_some(facts.unread)}"
    if brought:
        runs = [f"{name} ({as_count(count, 'partition')})" for name, count in brought.items()]
        return (
            f"broker {broker} gets replicas by {join_all(runs)}. Let that end, or call it off: "
            f"ktui cancel RUN --stop --broker {broker}"
        )
    return None


def _refusal(broker: int, result: WriteResult) -> str:
    code, message = result.code or "", result.message
    words = message if code in message else f"{code}: {message}"
    return f"Kafka does not unregister broker {broker}: {words}"


def _still_there(broker: int, now: ClusterDescription | None, *, lost: bool) -> str:
    sent = "the answer was lost" if lost else "Kafka accepted the request"
    if now is None:
        seen = "the cluster cannot be read since"
    elif broker in now.online:
        seen = f"broker {broker} is up: it was started, and has registered again"
    else:
        seen = f"broker {broker} is still registered after {READ_BACK_S:.0f} s"
    return f"{sent}, and {seen}. See: ktui broker status {broker}"
