"""The steps of pacing, taken one after another on a cluster that keeps KRaft's rules."""

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ktui.cluster.partition import TopicPartition
from ktui.pacing.limits import SHAPES, Limits, Shape
from ktui.pacing.situation import Blocked, Done, Next, Situation, Step
from ktui.pacing.steps import all_steps, next_step
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from support.runs.pacing import replica_lists

BROKERS = range(1, 8)
TP = TopicPartition("orders", 0)
LONG_S = 120.0  # enough for followers to catch up and every step to complete
STEPS = 40

Brokers = tuple[int, ...]

some_replicas = replica_lists(BROKERS, 4)
versions = st.sampled_from(("4.2", "4.3"))
some_at_a_time = st.builds(
    Limits,
    replicas=st.sampled_from((1, 1, 2)),
    extra_replicas=st.sampled_from((None, 1)),
    shape=st.sampled_from(SHAPES),
)
limits_of_steps = some_at_a_time | st.just(Limits())


class Moved:
    """A partition of a simulated cluster, moved to its target step by step.

    Args:
        replicas: those at the start.
        target: those wanted.
        limits: those that shape the steps.
        version: the Kafka version whose rules the controller follows.
        min_isr: the topic's min.insync.replicas.
    """

    def __init__(
        self, replicas: Brokers, target: Brokers, limits: Limits, version: str, min_isr: int
    ) -> None:
        self.original, self.target, self.limits = replicas, target, limits
        self.min_isr = min_isr
        self.clock = VirtualClock()
        configs = {
            "min.insync.replicas": str(min_isr),
            "unclean.leader.election.enable": "true",  # else one that loses all may stay offline
        }
        spec = ClusterSpec(
            version=version,
            brokers=tuple(BrokerSpec(id=b) for b in BROKERS),
            topics=(
                TopicSpec(
                    name=TP.topic,
                    replicas=(replicas,),
                    bytes_each=400 * MIB,
                    inbound=1_000.0,
                    configs=configs,
                ),
            ),
            rebalance_interval_s=7.0,
        )
        self.cluster = SimulatedCluster(spec, self.clock)
        self.in_flight: Step | None = None
        self.taken: list[Step] = []
        self.changes: list[tuple[Registration, Registration]] = []
        self._listen()

    def _listen(self) -> None:
        records = self.cluster.controller._records
        notify: Callable[[RecordChange], None] = records._notify

        def notified(change: RecordChange) -> None:
            assert change.before is not None
            assert change.after is not None
            self.check(change.before, change.after)
            self.changes.append((change.before, change.after))
            notify(change)

        records._notify = notified

    @property
    def record(self) -> Registration:
        known = self.cluster.controller.get(TP)
        assert known is not None
        return known

    def situation(self) -> Situation:
        known, controller = self.record, self.cluster.controller
        return Situation(
            replicas=known.replicas,
            isr=known.isr,
            leader=known.leader,
            target=self.target,
            online=frozenset(b for b in BROKERS if not controller.is_fenced(b)),
            min_insync_replicas=self.min_isr,
            waits_for_kept=not controller.rules.completes_without_kept,
            reassigning=known.reassigning,
        )

    def check(self, before: Registration, after: Registration) -> None:
        """Check what holds at every moment."""
        step = self.in_flight
        if step is None:
            assert before.replicas == after.replicas
            return
        assert {*after.adding} <= {*step.adds}
        assert {*before.replicas} - {*after.replicas} <= {*step.drops}
        at_once = self.limits.replicas is None
        if not step.urgent and self.limits.replicas is not None:
            assert len(after.adding) <= self.limits.replicas
        lost = {*before.isr} & ({*before.replicas} - {*after.replicas})
        whole = not self.cluster.controller.rules.completes_without_kept
        gentle = self.limits.shape is Shape.GENTLE and not at_once
        if lost and (whole or gentle):
            assert {*after.isr} == {*after.replicas}  # so it is never below min ISR by a drop

    def wait(self, seconds: float) -> None:
        self.clock.pass_time(seconds)
        self.cluster.catch_up()

    def turn(self) -> Next | None:
        """End a completed step; begin the next one if there is one."""
        if self.in_flight is not None and not self._is_over(self.in_flight):
            return None
        self.in_flight = None
        outcome = next_step(self.situation(), self.limits)
        if isinstance(outcome, Step):
            self._take(outcome)
        return outcome

    def _take(self, step: Step) -> None:
        before = self.record
        assert not before.reassigning
        self.in_flight = step
        self.taken.append(step)
        if step.alters:
            self.cluster.do(layout.Alter({TP: step.target}))
            after = self.record
            assert after != before
            assert after.replicas[: len(step.target)] == step.target
            assert {*after.replicas} <= {*step.target, *before.replicas}
        else:
            assert before.leader != step.elects

    def _is_over(self, step: Step) -> bool:
        """Elect once the replicas match; do not wait for one that cannot lead."""
        known = self.record
        if known.reassigning:
            return False
        assert known.replicas == step.target
        if step.elects is not None and known.leader is not None:
            self.cluster.do(layout.ElectLeaders((TP,)))
            known = self.record
            assert known.leader == step.elects or step.elects not in known.isr
        return True

    def run_to_end(self) -> Next | None:
        """Run until the partition is done or blocked."""
        outcome: Next | None = None
        for _ in range(STEPS):
            outcome = self.turn()
            if isinstance(outcome, Done | Blocked):
                return outcome
            self.wait(LONG_S)
        return outcome


@given(some_replicas, some_replicas, limits_of_steps, versions, st.integers(1, 3))
def test_on_a_calm_cluster_every_step_completes_and_only_our_elections_move_the_leader(
    replicas: Brokers, target: Brokers, limits: Limits, version: str, min_isr: int
) -> None:
    moved = Moved(replicas, target, limits, version, min_isr)
    predicted = all_steps(moved.situation(), limits)

    assert isinstance(moved.run_to_end(), Done)

    known = moved.record
    assert (known.replicas, known.leader) == (target, target[0])
    assert moved.taken == predicted
    least = min(min_isr, len(target), len(replicas))
    fewest = min(len(replicas), len(target))
    for before, after in moved.changes:
        assert len(after.isr) >= least
        assert len(after.replicas) >= fewest
        assert after.leader in {before.leader, target[0]}


@given(some_replicas, some_replicas, some_at_a_time, versions)
def test_leader_epochs_begin_exactly_as_predicted(
    replicas: Brokers, target: Brokers, limits: Limits, version: str
) -> None:
    moved = Moved(replicas, target, limits, version, 1)
    predicted = 0
    leader = replicas[0]
    for step in all_steps(moved.situation(), limits):
        takes_leader = leader in step.drops
        predicted += bool(step.drops) + (step.elects is not None and not takes_leader)
        leader = target[0] if step.moves_leader else leader

    moved.run_to_end()

    assert moved.record.leader_epoch == predicted
