"""Whatever is asked of a simulated controller, its records keep KRaft's rules."""

from collections.abc import Callable
from itertools import pairwise

from hypothesis import assume, given
from hypothesis import strategies as st

from ktui.cluster.ports import Verdict
from ktui.simulated.controller.records import RecordChange, Registration
from ktui.simulated.layout import VERSIONS
from support.simulated.witness import TP, Kept

BROKERS = range(1, 7)
UNCLEAN = "unclean.leader.election.enable"
MINIMUM = "min.insync.replicas"

replica_lists = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True).map(tuple)
kept_by = st.builds(
    lambda replicas, version, unclean, minimum: Kept(
        replicas, version=version, brokers=BROKERS, configs={UNCLEAN: unclean, MINIMUM: minimum}
    ),
    replica_lists,
    st.sampled_from(VERSIONS),
    st.sampled_from(["false", "false", "true"]),
    st.sampled_from(["1", "2", "3"]),
)

Action = Callable[[Kept], object]


def _ask_isr(kept: Kept, brokers: frozenset[int]) -> None:
    """Have the leader ask for an ISR of itself and those `brokers` that are replicas."""
    known = kept.record()
    if known.leader is not None:
        isr = tuple(b for b in known.replicas if b in brokers or b == known.leader)
        kept.controller.alter_isr(TP, isr, known.leader)


def _restart(kept: Kept, broker: int) -> None:
    kept.controller.unclean_start(broker)
    kept.controller.unfence(broker)


one_broker = st.sampled_from(BROKERS)
some_brokers = st.frozensets(one_broker)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(lambda target: lambda kept: kept.alter(*target), replica_lists),
    st.just(lambda kept: kept.cancel()),
    st.just(lambda kept: kept.elect()),
    st.just(lambda kept: kept.controller.rebalance_leaders()),
    st.builds(lambda brokers: lambda kept: _ask_isr(kept, brokers), some_brokers),
    st.builds(lambda broker: lambda kept: kept.fence(broker), one_broker),
    st.builds(lambda broker: lambda kept: kept.controller.unfence(broker), one_broker),
    st.builds(lambda broker: lambda kept: kept.controller.controlled_shutdown(broker), one_broker),
    st.builds(lambda broker: lambda kept: _restart(kept, broker), one_broker),
)


def _changes(kept: Kept, actions: list[Action]) -> list[tuple[Registration, Registration]]:
    """Apply the actions and return each change of a record."""
    for action in actions:
        action(kept)
    return [(c.before, c.after) for c in kept.changes if c.before and c.after]


@given(kept_by, st.lists(actions, max_size=30))
def test_every_record_is_one_kafka_could_have(kept: Kept, actions: list[Action]) -> None:
    for _, known in _changes(kept, actions):
        assert known.replicas
        assert len(set(known.replicas)) == len(known.replicas)
        assert len(set(known.isr)) == len(known.isr)
        assert {*known.isr} <= {*known.replicas}
        assert {*known.adding} <= {*known.replicas}
        assert {*known.removing} <= {*known.replicas}
        assert not {*known.elr} & {*known.isr}
        assert known.leader is None or known.leader in known.isr


@given(kept_by, st.lists(actions, max_size=30))
def test_a_leader_epoch_begins_with_each_new_leader_and_each_removed_replica(
    kept: Kept, actions: list[Action]
) -> None:
    for before, after in _changes(kept, actions):
        removed = {*before.replicas} - {*after.replicas}
        begins = before.leader != after.leader or bool(removed)
        assert after.leader_epoch == before.leader_epoch + begins
        assert after.partition_epoch == before.partition_epoch + 1


@given(kept_by, st.lists(actions, max_size=30))
def test_notified_changes_are_the_history_of_the_record(kept: Kept, actions: list[Action]) -> None:
    _changes(kept, actions)
    changes: list[RecordChange] = kept.changes

    assert changes[0].before is None
    for earlier, later in pairwise(changes):
        assert later.before is earlier.after
        assert later.before != later.after
    assert changes[-1].after is kept.record()
    assert (TP in kept.controller.reassigning) is kept.record().reassigning


@given(kept_by, replica_lists)
def test_a_cancel_after_an_alter_restores_the_replicas(kept: Kept, target: tuple[int, ...]) -> None:
    before = kept.record()
    kept.alter(*target)
    assume(kept.record().reassigning)

    assert kept.cancel().verdict is Verdict.ACCEPTED

    after = kept.record()
    assert {*after.replicas} == {*before.replicas}
    assert (after.leader, after.isr) == (before.leader, before.isr)


@given(kept_by, st.lists(actions, max_size=10), replica_lists)
def test_repeating_an_alter_changes_no_replica_and_no_leader(
    kept: Kept, actions: list[Action], target: tuple[int, ...]
) -> None:
    for action in actions:
        action(kept)
    kept.alter(*target)
    once = kept.record()

    assert kept.alter(*target).verdict is Verdict.ACCEPTED

    twice = kept.record()
    assert (twice.replicas, twice.adding, twice.removing) == (
        once.replicas,
        once.adding,
        once.removing,
    )
    assert (twice.isr, twice.leader, twice.leader_epoch) == (
        once.isr,
        once.leader,
        once.leader_epoch,
    )
