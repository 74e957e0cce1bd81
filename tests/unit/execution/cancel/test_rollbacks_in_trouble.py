"""Rollbacks of a changed replication factor or of the order alone, and with brokers away."""

from itertools import product, starmap
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.engine.requests import LAST_IN_SYNC
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.parts import MOST_TRIES
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Shape
from ktui.simulated.layout import DeleteTopic, Kill, Start
from support.runs.cancel_stories import CalledOffStory, altered, begun, done, nth, step_over
from support.runs.engine_runs import Replicas
from support.simulated.moving_clusters import tp

THREE = (1, 2, 3)
MOVED = {"orders-0": (THREE, (4, 5, 6))}
GENTLE = Limits(replicas=1, partitions=1)
KIP_435 = Limits(replicas=1, partitions=1, shape=Shape.KIP_435)
AT_ONCE = Limits(partitions=1)
ALL_LIMITS = [GENTLE, KIP_435, AT_ONCE]
VERSIONS = ["4.2", "4.3"]
BACK = CancelMoves(CancelKind.ROLLBACK)
ONE = tp("orders-0")

OTHER_WAYS = {
    "a higher factor": ((1, 2), (1, 2, 3, 4)),
    "a higher factor and another leader": ((1, 2), (4, 3, 2, 1)),
    "a lower factor": ((1, 2, 3, 4), (1, 2)),
    "a lower factor and another leader": ((1, 2, 3, 4), (3, 1)),
    "another order": (THREE, (3, 1, 2)),
    "another order with the same leader": (THREE, (1, 3, 2)),
    "one replica elsewhere": ((1,), (4,)),
    "one replica becomes three": ((1,), (4, 5, 6)),
    "three become one": (THREE, (4,)),
}


def a_story(
    folder: Path,
    way: tuple[Replicas, Replicas] = MOVED["orders-0"],
    limits: Limits = GENTLE,
    version: str = "4.3",
    min_isr: int = 1,
    messages: int = 5_000,
) -> CalledOffStory:
    configs = {"min.insync.replicas": str(min_isr), "unclean.leader.election.enable": "true"}
    cluster = {"version": version, "configs": configs, "messages": messages}
    return CalledOffStory(folder, {"orders-0": way}, limits, cluster)


def assert_as_before(story: CalledOffStory) -> None:
    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.now(ONE) == story.before[ONE]


class Case(NamedTuple):
    """What is cancelled, how, and at which event."""

    kind: CancelKind
    way: str
    limits: int
    event: str
    number: int


EVENTS = {"begun": begun, "altered": altered, "over": step_over}
CASES = [*starmap(Case, product(CancelKind, OTHER_WAYS, range(3), EVENTS, (1, 2, 3)))]
SOME_CASES = CASES[::13]  # few enough for each day; the soak has all


def _called_off(case: Case, folder: Path) -> None:
    story = a_story(folder, OTHER_WAYS[case.way], ALL_LIMITS[case.limits], messages=1_500)
    such = EVENTS[case.event]("orders-0")
    story.called_off(nth(case.number, such), CancelMoves(case.kind))

    assert story.played().ended

    story.assert_as_foreseen()


@pytest.mark.parametrize("case", SOME_CASES, ids=lambda case: "-".join(map(str, case)))
def test_any_kind_of_change_can_be_cancelled_at_each_of_its_steps(
    case: Case, tmp_path: Path
) -> None:
    _called_off(case, tmp_path)


def test_among_these_steps_are_all_kinds_of_cancels_plans_limits_and_events() -> None:
    for some, every in zip(zip(*SOME_CASES, strict=True), zip(*CASES, strict=True), strict=True):
        assert {*some} == {*every}


@pytest.mark.soak
@pytest.mark.parametrize("way", OTHER_WAYS)
def test_any_planned_change_can_be_cancelled_at_each_of_its_steps(way: str, tmp_path: Path) -> None:
    for number, case in enumerate(case for case in CASES if case.way == way):
        folder = tmp_path / str(number)
        folder.mkdir()
        try:
            _called_off(case, folder)
        except Exception as error:
            error.add_note(str(case))
            raise


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("limits", ALL_LIMITS)
def test_a_rollback_waits_for_an_original_broker_that_is_down_and_names_it(
    tmp_path: Path, limits: Limits, version: str
) -> None:
    story = a_story(tmp_path, limits=limits, version=version)
    story.played()
    story.cluster.do(Kill(2))
    story.clock.pass_time(20.0)

    story.reopened(BACK, until_s=120.0)
    assert story.state("orders-0") is State.REFUSED
    assert story.reason("orders-0") == "broker 2 of its original replicas is down"
    assert not story.run.ended

    story.cluster.do(Start(2))
    story.resumed()
    assert_as_before(story)


@pytest.mark.parametrize("limits", ALL_LIMITS)
def test_a_rollback_waits_for_a_former_leader_that_is_down(tmp_path: Path, limits: Limits) -> None:
    story = a_story(tmp_path, limits=limits, messages=20_000)
    story.schedule(3.0, Kill(1))
    story.asked(20.0, BACK)

    story.played(until_s=100.0)
    assert story.state("orders-0") is State.REFUSED
    assert "broker 1" in story.reason("orders-0")

    story.cluster.do(Start(1))
    story.resumed()
    assert_as_before(story)


@pytest.mark.parametrize(
    ("limits", "version"),
    [
        (GENTLE, "4.3"),
        (KIP_435, "4.2"),
        (AT_ONCE, "4.3"),
        pytest.param(GENTLE, "4.2", marks=pytest.mark.soak),
        pytest.param(KIP_435, "4.3", marks=pytest.mark.soak),
        pytest.param(AT_ONCE, "4.2", marks=pytest.mark.soak),
    ],
)
@pytest.mark.parametrize("broker", [1, 2, 3, 4, 6])
def test_a_rollback_waits_for_a_broker_that_is_killed_during_it(
    tmp_path: Path, limits: Limits, version: str, broker: int
) -> None:
    story = a_story(tmp_path, limits=limits, version=version, min_isr=2)
    story.played()
    began_s = story.clock.monotonic()
    story.cluster.at(began_s + 3.0, lambda: story.cluster.do(Kill(broker)))
    story.cluster.at(began_s + 40.0, lambda: story.cluster.do(Start(broker)))

    assert story.reopened(BACK).ended

    assert_as_before(story)


@pytest.mark.parametrize("limits", ALL_LIMITS)
def test_a_topic_that_is_deleted_during_the_rollback_ends_it(
    tmp_path: Path, limits: Limits
) -> None:
    story = a_story(tmp_path, limits=limits)
    story.played()
    began_s = story.clock.monotonic()
    story.cluster.at(began_s + 3.0, lambda: story.cluster.do(DeleteTopic("orders")))

    assert story.reopened(BACK).ended

    assert story.state("orders-0") is State.TOPIC_GONE


def test_a_rollback_that_would_lose_data_is_refused_until_it_would_not(tmp_path: Path) -> None:
    """Only the replica being added is in sync: a cancel would succeed, and lose data."""
    story = a_story(tmp_path, ((1, 2), (4, 2)), version="4.2", messages=20_000)
    story.schedule(2.0, Kill(2))
    story.schedule(40.0, Kill(1))
    story.asked(60.0, BACK)
    story.schedule(100.0, Start(1))
    story.schedule(200.0, Start(2))

    story.played(until_s=90.0)
    assert story.state("orders-0") is State.REFUSED
    assert story.reason("orders-0") == LAST_IN_SYNC
    assert None not in story.sent("orders-0")

    assert story.resumed().ended
    assert_as_before(story)


@pytest.mark.parametrize("limits", ALL_LIMITS)
@pytest.mark.parametrize("kind", [CancelKind.ROLLBACK, CancelKind.TRIM])
def test_no_replica_is_dropped_below_min_isr_on_the_way_back(
    tmp_path: Path, limits: Limits, kind: CancelKind
) -> None:
    story = a_story(tmp_path, limits=limits, min_isr=2)
    story.called_off(nth(2, step_over("orders-0")), CancelMoves(kind))
    story.called_off(done("orders-0"), CancelMoves(kind))
    story.schedule(3.0, Kill(3))
    story.schedule(60.0, Start(3))

    assert story.played().ended

    for each in story.witness.alters:
        assert each.before is not None
        assert each.after is not None
        fewer = len(each.after.isr) < len(each.before.isr)
        assert not fewer or len(each.after.isr) >= 2, each


def test_a_failed_partition_is_rolled_back_even_if_kafka_refuses_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = a_story(tmp_path, limits=KIP_435)
    sending, refused = story.sending.alter_reassignments, [0]
    no = WriteResult(Verdict.REFUSED, "POLICY_VIOLATION", "not today")

    async def refusing(partitions: Any, **how: Any) -> Any:
        if len(story.witness.alters) == 2 and refused[0] < MOST_TRIES + 1:
            refused[0] += 1
            return dict.fromkeys(partitions, no)
        return await sending(partitions, **how)

    monkeypatch.setattr(story.sending, "alter_reassignments", refusing)
    story.played()
    assert story.state("orders-0") is State.FAILED

    assert story.reopened(BACK).ended

    assert refused[0] == MOST_TRIES + 1
    assert_as_before(story)
