"""Recordings full of made-up private names: each name contains MARK."""

from datetime import UTC, datetime
from typing import Any, cast, get_args

from hypothesis import strategies as st
from msgspec import inspect

from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Census, Observation
from ktui.cluster.partition import PartitionState, TopicPartition
from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.execution.run.events import AnyRunEvent
from support.simulated.observations import START

MARK = "zqx"

TOPICS = ("zqx", "orders.zqx", "payments_zqx-7", "ZQX-eu", "zqx-3", "the.zqx.")
HOSTS = ("kafka-1.zqx.example", "zqx", "zqx-broker-3")
USERS = ("ada.zqx", "zqx", "svc_zqx")
PATHS = ("/srv/zqx data/kafka", "/zqx", "/home/zqx/client.properties")
NAMES = (*TOPICS, *HOSTS, *USERS, *PATHS, "prod zqx at zqx:9092", "drain zqx.json")
TEXTS = (
    "listing reassignments ({host}:9092): no answer: connection refused. Check {host}, {host}:9093",
    "topic {topic}: {topic}-3 has no leader; '{topic}' and [{topic}, {topic}-11] neither",
    "{user}@{host} (4711) at 2026-01-01T12:00:00Z, to stop all of run {topic}",
    "{path}/{topic}-0 is full: {path}: disk error",
    "User:{user} may not Alter <{topic}>={path}; see https://{host}/{topic}?who={user}",
    "no answer for 2.1 s",
    "{host}{topic}/{user}\\x1b[31m{path}",
)

topics, hosts, users, paths = map(st.sampled_from, (TOPICS, HOSTS, USERS, PATHS))
names = st.sampled_from(NAMES)
texts = st.builds(
    lambda text, **fields: str(text.format(**fields)),
    st.sampled_from(TEXTS), topic=topics, host=hosts, user=users, path=paths,
)  # fmt: skip

_BY_FIELD: dict[str, st.SearchStrategy[Any]] = {
    "version": st.just("0.1.0"),
    "window": st.sampled_from(["", "22:00-05:00", "22:00-05:00,Sat,Sun"]),
    "key": st.just("follower.replication.throttled.rate"),
    "value": st.sampled_from(["1:101,2:102", "*", "5000000", ""]),
    "code": st.sampled_from(["INVALID_REPLICA_ASSIGNMENT", "ELIGIBLE_LEADERS_NOT_AVAILABLE"]),
    "topic": topics,
    "topics": topics,
    "user": users,
    "host": hosts,
    "who": st.builds("{}@{} (4711)".format, users, hosts),
    "reason": texts,
    "message": texts,
    "lost": texts,
}


def events() -> st.SearchStrategy[AnyRunEvent]:
    return st.one_of(*(_of(inspect.type_info(kind), "") for kind in get_args(AnyRunEvent)))


def _of(kind: inspect.Type, field: str) -> st.SearchStrategy[Any]:
    """Generate the value of a field by its type, and of a text field by its name."""
    match kind:
        case inspect.StructType():
            return _record(kind)
        case inspect.UnionType():
            return st.one_of(*(_of(each, field) for each in kind.types))
        case inspect.VarTupleType():
            return st.lists(_of(kind.item_type, field), max_size=3).map(tuple)
        case inspect.DictType():
            keys = st.sampled_from(["bootstrap_server", "command_config", "context"])
            enums = isinstance(kind.key_type, inspect.EnumType)
            return st.dictionaries(
                _of(kind.key_type, field) if enums else keys, _of(kind.value_type, ""), max_size=3
            )
        case inspect.EnumType() | inspect.LiteralType() as chosen:
            words = chosen.cls if isinstance(chosen, inspect.EnumType) else chosen.values
            return st.sampled_from(list(words))
    plain: dict[type[inspect.Type], st.SearchStrategy[Any]] = {
        inspect.StrType: _BY_FIELD.get(field, names),
        inspect.IntType: st.integers(0, 2**40),
        inspect.FloatType: st.sampled_from([0.5, 1.0, 300.0]),
        inspect.BoolType: st.booleans(),
        inspect.NoneType: st.none(),
        inspect.DateTimeType: st.just(datetime(2026, 1, 1, tzinfo=UTC)),
    }
    return plain[type(kind)]


def _record(kind: inspect.StructType) -> st.SearchStrategy[Any]:
    fields = {each.name: _of(each.type, each.name) for each in kind.fields}
    made = st.builds(kind.cls, **fields)
    if "scope" not in fields:
        return made
    return made.map(lambda one: _resource(cast("ConfigResource", one)))


def _resource(made: ConfigResource) -> ConfigResource:
    """Name a broker resource by the broker's number."""
    return made if made.scope is ConfigScope.TOPIC else ConfigResource(made.scope, "4")


@st.composite
def named_observations(draw: st.DrawFn, at_s: float) -> Observation:
    """Generate an observation of a cluster, in which each text is a name or contains some."""
    partitions = {
        TopicPartition(topic, number): PartitionState(
            TopicPartition(topic, number), f"id-{MARK}-{topic}", (1, 2, 3), (1, 2), 1
        )
        for topic in draw(st.sets(topics, max_size=3))
        for number in draw(st.sets(st.integers(0, 3), max_size=2))
    }
    listed = draw(st.sampled_from(["", "*", "0:1,0:2,1:3", f"none, {MARK}"]))
    return Observation(
        cluster_id=f"cluster {MARK}",
        controller=1,
        brokers={n: Broker(n, draw(hosts), 9092, f"rack {MARK}") for n in range(1, 4)},
        partitions=partitions,
        absent=frozenset(TopicPartition(topic, 9) for topic in draw(st.sets(topics, max_size=2))),
        log_dirs={1: (LogDir(1, draw(paths), draw(st.none() | texts)),)},
        topic_configs={topic: TopicConfig(follower_throttled_replicas=listed) for topic in TOPICS},
        census=Census(START, 1.0, 0.5, 7, 9, {1: 2}, {1: 3}, tuple(sorted(partitions))),
        at=START,
        monotonic_s=at_s,
        took_s=0.01,
        failures=tuple(
            Failure(Operation.LOG_ENDS, draw(texts), 2, draw(st.none() | topics))
            for _ in range(draw(st.integers(0, 2)))
        ),
    )
