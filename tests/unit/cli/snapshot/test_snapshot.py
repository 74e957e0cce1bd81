"""`ktui snapshot` saves the twin of a cluster as a scenario file, and changes nothing."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cluster.errors import NotAuthorized
from ktui.cluster.partition import TopicPartition
from ktui.insights import encode
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.file import RatesFrom, Scenario
from ktui.simulated.scenario.library import load_scenario
from ktui.speed.capacity import THROTTLED
from ktui.speed.copies import HALF_AT
from support.cli.call_ktui import NamedCluster
from support.cli.start_sandbox import PlanSandbox
from support.pipeline.report_facts import insights

INBOUND = 20_000.0


def a_spec(brokers: int = 7) -> ClusterSpec:
    """Topics whose brokers overlap: orders and payments share broker 3, and audit shares none."""
    return ClusterSpec(
        name="prod-id",
        brokers=tuple(BrokerSpec(id=b, rack="hall-4") for b in range(1, brokers + 1)),
        topics=(
            TopicSpec(name="audit", replicas=((6, 7),), bytes_each=MIB),
            TopicSpec(name="orders", replicas=((1, 2, 3),), bytes_each=100 * MIB, inbound=INBOUND),
            TopicSpec(name="payments", replicas=((3, 4),), bytes_each=MIB),
            TopicSpec(name="__consumer_offsets", replicas=((3, 5),), bytes_each=MIB),
        ),
    )


class Named:
    """The cluster that is named on the command line, and a folder for files."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("KTUI_STATE_DIR", str(folder / "state"))
        monkeypatch.chdir(folder)
        self.use(a_spec())

    def use(self, spec: ClusterSpec) -> None:
        clock = VirtualClock(leaping=True)
        self.cluster = SimulatedCluster(spec, clock)
        named = NamedCluster(reader=self.cluster.reader)
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
        self._monkeypatch.setattr("ktui.cli.snapshot.SystemClock", lambda: clock)

    def snapshot(self, *words: str) -> Result:
        result = CliRunner().invoke(ktui, ["snapshot", *words])
        assert result.exit_code == 0, (result.output, result.exception)
        return result

    def refusal(self, kind: type[Exception], *words: str) -> str:
        result = CliRunner().invoke(ktui, ["snapshot", "-o", "prod.yaml", *words])
        assert isinstance(result.exception, kind), (result.output, result.exception)
        assert not (self.folder / "prod.yaml").exists()
        return str(result.exception)

    def twin(self, *words: str) -> Scenario:
        self.snapshot("-o", "prod.yaml", *words)
        return load_scenario(self.folder / "prod.yaml")


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    return Named(tmp_path, monkeypatch)


def test_the_twin_of_a_cluster_is_written_with_what_is_measured(named: Named) -> None:
    result = named.snapshot("-o", "prod.yaml")

    twin = load_scenario(named.folder / "prod.yaml")
    orders = next(topic for topic in twin.spec.topics if topic.name == "orders")
    assert orders.inbound == pytest.approx(INBOUND, rel=0.01)
    assert (twin.title, len(twin.spec.topics), len(twin.spec.brokers)) == (
        "Snapshot of prod-eu",
        4,
        7,
    )
    assert twin.snapshot is not None
    assert twin.snapshot.cluster == "prod-id"
    assert twin.snapshot.rates.source is RatesFrom.ASSUMED
    assert "prod.yaml: 4 partitions of 4 topics on 7 brokers" in result.stderr
    assert "100 MB/s (40 MB/s to 200 MB/s): assumed" in result.stderr
    assert result.stdout == ""


def test_a_twin_is_printed_and_without_a_measurement_nothing_is_written_to_it(named: Named) -> None:
    result = named.snapshot("--measure", "0")

    assert result.stdout.startswith("# Taken by")
    assert "inbound: 0\n" in result.stdout
    assert "inbound rates are not measured" in result.stderr


def test_with_a_plan_the_twin_has_what_shares_its_brokers(
    named: Named, plan_sandbox: PlanSandbox
) -> None:
    twin = named.twin(plan_sandbox.plan(orders_0=(1, 2, 4)))

    names = [topic.name for topic in twin.spec.topics]
    assert names == ["__consumer_offsets", "orders", "payments"]
    assert [broker.id for broker in twin.spec.brokers] == [1, 2, 3, 4, 5]


def test_a_redacted_twin_names_no_topic_rack_or_cluster(named: Named) -> None:
    twin = named.twin("--redact")

    text = (named.folder / "prod.yaml").read_text(encoding="utf-8")
    assert not any(name in text for name in ("orders", "audit", "payments", "hall-4", "prod-"))
    assert "__consumer_offsets" in text
    names = [topic.name for topic in twin.spec.topics]
    assert names == [topic.name for topic in named.twin("--redact").spec.topics]


def test_the_rates_of_recorded_runs_are_those_of_the_twin(named: Named) -> None:
    seen = insights("prod-id", "test")
    (named.folder / "seen.json").write_bytes(encode(seen))

    twin = named.twin("--insights", "seen.json")

    assert twin.snapshot is not None
    rates = twin.snapshot.rates
    assert rates.source is RatesFrom.RECORDED
    assert {broker.copy_in for broker in twin.spec.brokers} == {rates.usual}
    assert {broker.copy_half_at for broker in twin.spec.brokers} == {HALF_AT}
    assert {broker.throttle_share for broker in twin.spec.brokers} == {THROTTLED.middle}  # not seen


@pytest.mark.parametrize(
    ("runs", "slow", "fast"), [(1, 0.571, 1.75), (2, 0.727, 1.375), (20, 0.8, 1.15)]
)
def test_the_fewer_runs_showed_the_rate_the_wider_its_range(
    named: Named, runs: int, slow: float, fast: float
) -> None:
    seen = insights("prod-id")
    (of_cluster,) = seen.clusters
    assert of_cluster.prior is not None
    curve = replace(of_cluster.prior.curve, unthrottled_runs=runs)
    prior = replace(of_cluster.prior, curve=curve)
    seen = replace(seen, clusters=(replace(of_cluster, prior=prior),))
    (named.folder / "seen.json").write_bytes(encode(seen))

    snapshot = named.twin("--insights", "seen.json").snapshot

    assert snapshot is not None
    rates = snapshot.rates
    assert (rates.slow / rates.usual, rates.fast / rates.usual) == pytest.approx(
        (slow, fast), rel=0.01
    )


def test_a_reassignment_under_way_goes_on_in_the_twin(named: Named) -> None:
    named.cluster.do(layout.Alter({TopicPartition("orders", 0): (1, 2, 4)}))

    twin = named.twin("--measure", "0")

    orders = next(topic for topic in twin.spec.topics if topic.name == "orders")
    assert orders.start.reassigning == {0: (1, 2, 4)}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("-o", "nowhere/prod.yaml"), "there is no folder"),
        (("--measure", "long"), "--measure: expected a time"),
        (("--insights", "other.json"), "no insights into cluster prod-id. Known clusters: other"),
    ],
)
def test_a_wrong_option_is_named_with_the_fix(
    named: Named, words: tuple[str, ...], reason: str
) -> None:
    (named.folder / "other.json").write_bytes(encode(insights("other", "test")))

    assert reason in named.refusal(BadInput, *words)


def test_a_plan_with_an_unknown_topic_has_no_twin(named: Named, plan_sandbox: PlanSandbox) -> None:
    plan = plan_sandbox.plan(nothing_0=(1, 2))

    refusal = named.refusal(BadInput, plan)

    assert "the cluster does not show topics of the plan: nothing" in refusal


def test_a_cluster_with_too_many_brokers_has_no_twin(named: Named) -> None:
    named.use(a_spec(brokers=201))

    refusal = named.refusal(BadInput, "--measure", "0")

    assert "201 brokers, and a snapshot may have 200. Name a plan" in refusal


def test_without_the_right_to_read_sizes_there_is_no_twin(named: Named) -> None:
    named.cluster.do(layout.Deny("log_dirs"))

    refusal = named.refusal(NotAuthorized, "--measure", "0")

    assert "A twin needs the sizes. Grant Describe on the cluster" in refusal
