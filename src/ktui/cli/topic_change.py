"""What `ktui alter-topic` is asked for, the topic as it is, and the change that follows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from ktui.cli.context.terminal import BadInput
from ktui.cluster.asking import FreshMetadata, read_cluster_and_reassignments, with_reassignments
from ktui.cluster.broker import INTERNAL_TOPICS, Broker, online_brokers
from ktui.cluster.clock import SystemClock
from ktui.cluster.figures import topic_names
from ktui.cluster.partition import Brokers, PartitionState, TopicPartition
from ktui.cluster.ports import ClusterReader
from ktui.cluster.text import clean
from ktui.planning.check.rules import at_target
from ktui.planning.plan import (
    LARGEST,
    PartitionTarget,
    Plan,
    closest_names,
    join_all,
    join_named,
    join_some,
    shortened,
    topic_name_problem,
)
from ktui.planning.replication_factor import (
    BrokerPool,
    FactorProblem,
    PresentReplicas,
    change_replication_factor,
    present_replicas,
)
from ktui.quantities import as_count

PARTITIONS, FACTOR, ASSIGNMENT = "--partitions", "--replication-factor", "--replica-assignment"
_INTEGER = re.compile(r"[0-9]{1,10}")
_FIX = "Give the brokers of every partition, such as 0:1:2,1:2:3"


class AlterRequest(msgspec.Struct, frozen=True):
    """The topic, and what it is to have; None leaves as it is."""

    topic: str
    count: int | None
    factor: int | None
    assignment: tuple[Brokers, ...] | None


def read_request(
    topic: str, count: int | None, factor: int | None, assignment: str | None
) -> AlterRequest:
    """Check the options against each other."""
    if problem := topic_name_problem(topic):
        raise BadInput(problem)
    if count is None and factor is None and assignment is None:
        choice = join_all([f"{PARTITIONS} N", f"{FACTOR} N", f"{ASSIGNMENT} LIST"], "or")
        raise BadInput(f"there is nothing to alter. Give {choice}")
    if assignment is None:
        return AlterRequest(topic, count, factor, None)
    if factor is not None:
        raise BadInput(f"{ASSIGNMENT} names every replica already. Give it without {FACTOR}")
    parsed = parse_assignment(assignment)
    if count not in (None, len(parsed)):
        partitions = as_count(len(parsed), "partition")
        raise BadInput(
            f"{PARTITIONS} {count}: {ASSIGNMENT} has {partitions}. Leave {PARTITIONS} out, or let "
            "both agree"
        )
    return AlterRequest(topic, len(parsed), None, parsed)


def parse_assignment(text: str) -> tuple[Brokers, ...]:
    """Parse the replicas of partitions as kafka-topics does: `0:1:2,1:2:3`."""
    parsed = tuple(_parse_brokers(n, part) for n, part in enumerate(text.split(",")))
    for number, brokers in enumerate(parsed):
        if len(brokers) != len(parsed[0]):
            raise BadInput(
                f"{ASSIGNMENT}: partition {number} has {as_count(len(brokers), 'replica')}, and "
                f"partition 0 has {len(parsed[0])}. Give each the same number"
            )
    return parsed


def _parse_brokers(number: int, text: str) -> Brokers:
    ids = [each.strip() for each in text.split(":")]
    for each in ids:
        if not _INTEGER.fullmatch(each) or int(each) > LARGEST:
            raise BadInput(
                f"{ASSIGNMENT}: partition {number}: {clean(each)!r} is not a broker id. {_FIX}"
            )
    brokers = tuple(map(int, ids))
    if doubled := sorted({broker for broker in brokers if brokers.count(broker) > 1}):
        named = join_named("broker", doubled)
        raise BadInput(f"{ASSIGNMENT}: partition {number} has {named} twice. Name each once")
    return brokers


class TopicNow(msgspec.Struct, frozen=True):
    """A topic as it was read: its partitions by number, with their reassignments."""

    name: str
    cluster_id: str
    partitions: Mapping[TopicPartition, PartitionState]
    brokers: Mapping[int, Broker]

    @property
    def id(self) -> str | None:
        return next(iter(self.partitions.values())).topic_id

    @property
    def moving(self) -> list[TopicPartition]:
        return [tp for tp, state in self.partitions.items() if state.reassigning]

    @property
    def factors(self) -> Counter[int]:
        return Counter(len(state.replicas) for state in self.partitions.values())

    @property
    def replicas(self) -> Mapping[TopicPartition, object]:
        """The replicas of each partition, and which of them come and go."""
        return {tp: (s.replicas, s.adding, s.removing) for tp, s in self.partitions.items()}


async def read_topic(reader: ClusterReader, name: str) -> TopicNow:
    """Read a topic."""
    topic = await find_topic(reader, name)
    if topic is None:
        raise BadInput(f"the cluster has no topic {name}{await _suggestion(reader, name)}")
    return topic


async def find_topic(reader: ClusterReader, name: str) -> TopicNow | None:
    """Read a topic if it exists, from metadata no older than the call where that can be proven."""
    cluster, listed = await read_cluster_and_reassignments(reader)
    answer, _ = await FreshMetadata(reader, SystemClock()).describe([name])
    for failure in answer.failures:
        raise BadInput(f"topic {name} could not be read: {failure.answer}")
    if not answer.partitions:
        return None
    ours = {tp: moving for tp, moving in listed.items() if tp.topic == name}
    states = with_reassignments(answer.partitions, ours)
    return TopicNow(name, cluster.cluster_id, dict(sorted(states.items())), cluster.brokers)


async def _suggestion(reader: ClusterReader, name: str) -> str:
    near = map(shortened, closest_names(name, await topic_names(reader)))
    return f"; did you mean {words}?" if (words := join_all(near, "or")) else ""


MOST_ADDED = 10_000
"""Records that one request to a controller may produce: one for each new partition."""
Targets = Mapping[TopicPartition, Brokers]


class TopicChange(msgspec.Struct, frozen=True):
    """What happens to a topic: first partitions are added, then a run moves replicas."""

    topic: str
    before: int
    count: int
    placed: tuple[Brokers, ...] | None
    """The replicas that new partitions begin with; None lets Kafka place them."""
    plan: Plan  # the partitions whose replicas change, new ones among them

    @property
    def adds(self) -> int:
        return self.count - self.before

    @property
    def added(self) -> list[TopicPartition]:
        return [TopicPartition(self.topic, n) for n in range(self.before, self.count)]

    def lines(self) -> Iterator[str]:
        if self.adds:
            yield f"{self.topic}: {as_count(self.adds, 'partition')} to add, {self.count:,} in all"
        sizes = {len(target.replicas) for target in self.plan.partitions}
        if sizes:
            partitions = as_count(len(self.plan.partitions), "partition")
            yield f"{self.topic}: {partitions} to move, to {as_count(max(sizes), 'replica')} each"


def change_of(request: AlterRequest, topic: TopicNow, pool: BrokerPool | None) -> TopicChange:
    """Return the change that a request makes."""
    before = len(topic.partitions)
    count = before if request.count is None else request.count
    _check_count(request, topic, count)
    change = TopicChange(request.topic, before, count, None, Plan(()))
    if pool is None:
        return change
    targets = _targets(request, topic, change.added, pool)
    placed = _placed({tp: targets[tp] for tp in change.added}, topic, pool)
    goals = [PartitionTarget(tp.topic, tp.partition, targets[tp]) for tp in sorted(targets)]
    moved = [goal for goal in goals if _is_moved(request, topic, goal, placed)]
    return msgspec.structs.replace(
        change, placed=tuple(placed[tp] for tp in change.added), plan=Plan(tuple(moved))
    )


def _check_count(request: AlterRequest, topic: TopicNow, count: int) -> None:
    before = len(topic.partitions)
    have = f"{topic.name} has {as_count(before, 'partition')}"
    if count < before:
        option = f"{PARTITIONS} {count}" if request.assignment is None else ASSIGNMENT
        fix = f"Give {before} or more" if request.assignment is None else "List all of them"
        raise BadInput(f"{option}: {have}, and Kafka cannot take partitions away. {fix}")
    if count == before:
        return
    if count - before > MOST_ADDED:
        raise BadInput(
            f"{PARTITIONS} {count}: {have}, and Kafka adds at most {MOST_ADDED:,} at once. Give at "
            f"most {before + MOST_ADDED}, and repeat it"
        )
    if topic.name in INTERNAL_TOPICS:
        raise BadInput(
            f"{PARTITIONS} {count}: Kafka finds its groups and transactions in {topic.name} by the "
            "number of partitions, and would lose them. Leave the number as it is"
        )
    _check_factors(topic)


def _check_factors(topic: TopicNow) -> None:
    """Check that new partitions can only get the number of replicas that all others have.

    Kafka takes it from one partition, which its controller's hash table happens to begin with.
    """
    if topic.moving:
        are = "is" if len(topic.moving) == 1 else "are"
        raise BadInput(
            f"{join_some(topic.moving)} {are} being reassigned. Kafka could give new partitions "
            "the longer list of replicas that a partition has meanwhile, for good. Wait for the "
            "end of that: ktui list"
        )
    if len(topic.factors) > 1:
        counts = (
            f"{as_count(partitions, 'partition')} with {as_count(factor, 'replica')}"
            for factor, partitions in sorted(topic.factors.items())
        )
        raise BadInput(
            f"{topic.name} has {join_all(counts)}. Kafka gives new partitions as many replicas as "
            "one of these has, and does not say which one. Give all of them the same number first: "
            f"ktui alter-topic {topic.name} {FACTOR} N"
        )


def _targets(
    request: AlterRequest, topic: TopicNow, added: Sequence[TopicPartition], pool: BrokerPool
) -> Targets:
    if request.assignment is not None:
        _check_brokers(request.assignment, topic, pool)
        named = (TopicPartition(topic.name, n) for n in range(len(request.assignment)))
        return dict(zip(named, request.assignment, strict=True))
    present = {tp: present_replicas(state) for tp, state in topic.partitions.items()}
    present |= dict.fromkeys(added, PresentReplicas())
    try:
        return change_replication_factor(present, request.factor or 0, pool)
    except FactorProblem as problem:
        raise BadInput(f"{FACTOR} {request.factor}: {problem}") from None


def _check_brokers(assignment: Iterable[Brokers], topic: TopicNow, pool: BrokerPool) -> None:
    """Check that each broker exists, and that one which gets a replica is online.

    New partitions name no cordoned broker where Kafka refuses that. What others name is for the
    check of the run.
    """
    online = online_brokers(topic.brokers)
    states = topic.partitions
    absent: set[int] = set()
    refused: set[int] = set()
    for number, replicas in enumerate(assignment):
        state = states.get(TopicPartition(topic.name, number))
        refused |= pool.refused.intersection(() if state is not None else replicas)
        absent |= {*replicas} - online - {*(() if state is None else state.target)}
    unknown = sorted(absent - topic.brokers.keys())
    if unknown:
        known = join_named("broker", sorted(topic.brokers), most=20)
        raise BadInput(f"{ASSIGNMENT}: the cluster has {known}, no {join_named('broker', unknown)}")
    if absent:
        down = join_named("broker", sorted(absent))
        raise BadInput(
            f"{ASSIGNMENT}: {down} would get replicas, and is down. Start it, or name another"
        )
    if refused:
        broker = min(refused)
        raise BadInput(
            f"{ASSIGNMENT}: broker {broker} would get new partitions, and is cordoned, so Kafka "
            f"refuses them. Lift the cordon with ktui broker uncordon {broker}, or name another"
        )


def _placed(targets: Targets, topic: TopicNow, pool: BrokerPool) -> dict[TopicPartition, Brokers]:
    """Return what new partitions begin with: their target, with the number that Kafka demands."""
    (number,) = topic.factors if targets else (0,)
    short = {tp: PresentReplicas(t) for tp, t in targets.items() if len(t) < number}
    try:
        longer = change_replication_factor(short, number, pool)
    except FactorProblem as problem:
        raise BadInput(
            f"new partitions begin with {as_count(number, 'replica')}, as the others have: "
            f"{problem}. Change the replication factor first, and then the number of partitions"
        ) from None
    return {tp: longer.get(tp, target[:number]) for tp, target in targets.items()}


def _is_moved(
    request: AlterRequest, topic: TopicNow, goal: PartitionTarget, placed: Targets
) -> bool:
    """Whether a run has something to do. A new factor moves no leader where no replica changes."""
    state = topic.partitions.get(goal.tp)
    if state is None:
        return goal.replicas != placed[goal.tp]
    if request.assignment is None:
        return goal.replicas != state.target
    return not at_target(goal, state)
