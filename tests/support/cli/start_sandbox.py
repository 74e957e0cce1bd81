"""Plan files and simulated clusters, and `ktui plan` and `ktui start` on them."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.config import Context
from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cluster.broker import Broker, LogDir, TopicConfig
from ktui.cluster.partition import PartitionState, Replica, TopicPartition
from ktui.execution import RunRefused
from ktui.execution.host.state_dir import StateDir
from ktui.inputfile import FileProblem
from ktui.pacing.limits import Limits
from ktui.planning.check.findings import Allowances, ClusterSnapshot
from ktui.planning.plan import PartitionTarget, Plan, plan_as_json
from ktui.planning.read import read_plan
from ktui.planning.throttle_rates import NO_THROTTLE, ThrottleRates
from ktui.preview.facts import ClusterFacts, Terms
from ktui.preview.preview import PlanPreview, PreviewBase
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import BrokerSpec, ClusterSpec, TopicSpec
from ktui.speed.answer import Bound, HowLong
from ktui.speed.capacity import Capacity
from support.cli.call_ktui import NamedCluster
from support.simulated.moving_clusters import Replicas, a_cluster

CLUSTER = "prod-eu"


def check(*arguments: str, read: bytes | None = None) -> Result:
    """Run `ktui plan check`; `read` is the standard input."""
    return CliRunner().invoke(ktui, ["plan", "check", *arguments], input=read)


def answer(result: Result, exit_code: int = 0) -> Any:
    """Parse the JSON that was printed."""
    assert result.exit_code == exit_code, result.output
    assert result.stderr == ""
    return json.loads(result.stdout)


def found(preview: Any, severity: str) -> list[Any]:
    """Return the findings of one severity in the JSON of a preview."""
    return [each for each in preview["findings"] if each["severity"] == severity]


class PlanSandbox:
    """A folder for plans, and a cluster to check them on."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._monkeypatch = monkeypatch

    def cluster(
        self, cluster: SimulatedCluster, not_granted: Collection[tuple[str, str]] = ()
    ) -> None:
        """Use this cluster as the one that is named on the command line.

        A second passes first, in which changes to the cluster are applied. Then its clock leaps:
        nobody advances it while brokers have yet to learn something.
        """
        assert isinstance(cluster.clock, VirtualClock)
        cluster.clock.pass_time(1.0)
        cluster.clock._leaping = True
        named = NamedCluster(
            name=CLUSTER, reader=cluster.reader, not_granted=frozenset(not_granted)
        )
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)

    def plan(self, **targets: Replicas) -> str:
        """Write a plan: `orders_0=(1, 2, 3)` is one partition, each on a line of its own."""
        named = ((*name.rpartition("_"), replicas) for name, replicas in targets.items())
        partitions = (PartitionTarget(topic, int(n), replicas) for topic, _, n, replicas in named)
        path = self._folder / "plan.json"
        path.write_text(plan_as_json(Plan(tuple(partitions))), encoding="ascii")
        return str(path)


class StartSandbox:
    """A plan_sandbox with plans, a state directory, and a cluster with its context."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
    ) -> None:
        self.state = StateDir(folder / "state")
        self.plan_sandbox = plan_sandbox
        self._monkeypatch = monkeypatch
        self.cluster(a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}))

    def cluster(
        self,
        cluster: SimulatedCluster,
        *,
        unverified: tuple[str, ...] = (),
        not_granted: Collection[tuple[str, str]] = (),
        canary_refusal: str = "",
        **context: Any,
    ) -> None:
        """Use this cluster as the one that is named; its clock leaps while the verb waits."""
        assert isinstance(cluster.clock, VirtualClock)
        cluster.clock._leaping = True
        module = "ktui.cli.output.plan_check"
        self._monkeypatch.setattr(f"{module}.SystemClock", lambda: cluster.clock)
        named = NamedCluster(
            reader=cluster.reader,
            writer=cluster.writer,
            groups=cluster.memberships,
            context=Context(**context),
            unverified=unverified,
            not_granted=frozenset(not_granted),
            canary_refusal=canary_refusal,
        )
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
        self.cluster_id = cluster.spec.name

    def start(self, *arguments: str) -> Result:
        """Call `ktui start` where no engine may be started."""
        words = ["start", *arguments, "--state-dir", str(self.state.path)]
        return CliRunner().invoke(ktui, words, catch_exceptions=True)

    def refusal(self, *arguments: str) -> str:
        error = self.start(*arguments).exception
        assert isinstance(error, BadInput | RunRefused), error
        return str(error)

    def plan(self, **targets: Replicas) -> str:
        return self.plan_sandbox.plan(**(targets or {"orders_0": (4, 2, 3)}))

    @property
    def runs(self) -> list[str]:
        return [run.name for run in self.state.run_dirs()]


GIB = 1024**3
DISK = 100 * GIB
RACKS = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c"}
ORDERS: tuple[Replicas, ...] = ((1, 2, 3), (2, 3, 4), (3, 4, 5), (4, 5, 3), (5, 3, 1), (3, 1, 2))
PAYMENTS: tuple[Replicas, ...] = ((3, 1, 2), (2, 3, 1))
INTERNAL: tuple[Replicas, ...] = ((2, 3, 4), (3, 4, 5))


def cluster(
    *, racks: dict[int, str] | None = None, internal: bool = False, **orders: str
) -> SimulatedCluster:
    """Return six brokers, of which the last is new: it has nothing.

    Args:
        racks: by broker; a broker without one has none.
        internal: whether the cluster has the topic of Kafka's consumer offsets, too.
        orders: settings of topic orders, with underscores for dots.
    """
    of_orders = {name.replace("_", "."): value for name, value in orders.items()}
    topics = [
        TopicSpec(name="orders", replicas=ORDERS, bytes_each=2 * GIB, configs=of_orders),
        TopicSpec(name="payments", replicas=PAYMENTS, bytes_each=GIB),
    ]
    if internal:
        topics.append(TopicSpec(name="__consumer_offsets", replicas=INTERNAL, bytes_each=GIB))
    spec = ClusterSpec(
        brokers=tuple(
            BrokerSpec(id=broker, rack=(RACKS if racks is None else racks).get(broker),
                       disk_bytes=DISK) for broker in RACKS
        ),
        topics=tuple(topics),
        auto_leader_rebalance=False,
        shutdown_s=0.0,
    )  # fmt: skip
    return SimulatedCluster(spec, VirtualClock())


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(ktui, ["plan", *arguments])


def made(*arguments: str, exit_code: int = 0) -> dict[str, Replicas]:
    """Make a plan, and return the replicas of each of its partitions."""
    result = plan(*arguments)
    assert result.exit_code == exit_code, (result.output, result.exception)
    return targets(read_plan(result.stdout.encode()))


def targets(of: Plan) -> dict[str, Replicas]:
    return {str(each.tp): each.replicas for each in of.partitions}


def made_json(*arguments: str, exit_code: int = 0) -> Any:
    """Make a plan with --json, and return the object."""
    result = plan(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (exit_code, ""), (result.output, result.exception)
    return json.loads(result.stdout)


def refused(*arguments: str) -> str:
    """Run a verb that makes no plan, and return why."""
    result = plan(*arguments)
    assert result.stdout == ""
    if result.exit_code == 2:
        return result.stderr
    expected = (BadInput, FileProblem)
    assert isinstance(result.exception, expected), (result.output, result.exception)
    return str(result.exception)


GB = 1_000_000_000
TOPIC = "orders"
Way = tuple[tuple[int, ...], tuple[int, ...]]
"""The replicas of a partition, of which the first leads, and its target replicas."""


def tp(number: int) -> TopicPartition:
    return TopicPartition(TOPIC, number)


def a_plan(*ways: Way) -> Plan:
    return Plan(
        tuple(PartitionTarget(TOPIC, number, target) for number, (_, target) in enumerate(ways))
    )


def a_snapshot(
    *ways: Way,
    sizes: Iterable[int | None] = (),
    rooms: Mapping[int, tuple[int, int]] | None = None,
    min_isr: int = 1,
    **more: Any,
) -> ClusterSnapshot:
    """Return a healthy cluster that holds the partitions of a plan.

    Args:
        ways: partitions 0, 1, ... of one topic.
        sizes: of each partition, in bytes; 1 GB where there is none, None for an unknown one.
        rooms: total and usable bytes of brokers' disks.
        min_isr: the topic's min.insync.replicas.
        more: further fields of the snapshot.
    """
    given = [*sizes, *[GB] * len(ways)]
    states = {
        tp(n): PartitionState(
            tp=tp(n), topic_id=None, replicas=replicas, isr=replicas, leader=replicas[0]
        )
        for n, (replicas, _) in enumerate(ways)
    }
    known = {
        Replica(tp(n), way[0][0]): size
        for n, (way, size) in enumerate(zip(ways, given, strict=False))
        if size is not None
    }
    brokers = {broker for way in ways for replicas in way for broker in replicas}
    fields: dict[str, Any] = {
        "partitions": states,
        "brokers": {broker: Broker(broker) for broker in sorted(brokers)},
        "configs": {TOPIC: TopicConfig(min_insync_replicas=min_isr)},
        "sizes": known,
        "log_dirs": {
            broker: (LogDir(broker, "/data", total_bytes=total, usable_bytes=usable),)
            for broker, (total, usable) in (rooms or {}).items()
        },
    }
    return ClusterSnapshot(**(fields | more))


def preflight(
    plan: Plan,
    snapshot: ClusterSnapshot,
    limits: Limits,
    known: Capacity | None = None,
    throttle: ThrottleRates = NO_THROTTLE,
    *,
    throttle_leaders: bool = False,
    slow: bool = False,
) -> PlanPreview:
    """Preview a plan of which nothing but its figures is asked."""
    terms = Terms(
        limits=limits,
        throttle=throttle,
        throttle_leaders=throttle_leaders,
        allowed=Allowances(slow=slow),
    )
    return base(plan, snapshot, known).under(terms)


def base(plan: Plan, snapshot: ClusterSnapshot, known: Capacity | None = None) -> PreviewBase:
    """Return what previews share of which nothing but figures is asked."""
    ground = PreviewBase(plan, ClusterFacts(seen=snapshot), check=lambda _: ())
    if known is not None:
        ground.known = known
    return ground


def how_long(preview: PlanPreview) -> HowLong:
    assert preview.how_long is not None
    return preview.how_long


def least(preview: PlanPreview) -> Bound:
    bound = how_long(preview).pacesetter
    assert bound is not None
    return bound


def throttled(preview: PlanPreview) -> dict[int, int]:
    """Return the throttles of a preview, by broker."""
    rates = ((each.broker, each.throttle_bytes_s) for each in preview.brokers)
    return {broker: rate for broker, rate in rates if rate is not None}
