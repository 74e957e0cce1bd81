"""Runs beside cordons, on clusters that refuse every target that names a cordoned broker."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.broker import Broker, LogDir
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ClusterDescription, Verdict
from ktui.execution.engine.working_state import Cordons
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.events import Answered
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Shape
from ktui.simulated import layout as acts
from ktui.simulated.clock import FIRST_MOMENT
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.simulated.moving_clusters import cordon, tp, uncordon

RF3 = (1, 2, 3)
ONE_BY_ONE = Limits(replicas=1, partitions=1)
OUT = "`ktui broker uncordon 4`"


class Told(enum.Enum):
    """What the cluster says of whether it refuses such targets; amid an upgrade it may say no."""

    YES = True
    UNKNOWN = None
    NO = False


TOLD = pytest.mark.parametrize("told", Told)


def a_story(
    folder: Path,
    ways: Mapping[str, tuple[Replicas, Replicas]],
    told: Told = Told.YES,
    limits: Limits | None = None,
    version: str = "4.4",
) -> Story:
    story = Story(folder, ways, limits, {"version": version})
    describe = story.reader.describe_cluster

    async def describes() -> ClusterDescription:
        return msgspec.structs.replace(await describe(), refuses_cordoned=told.value)

    story.reader.describe_cluster = describes  # type: ignore[method-assign]
    return story


def refusals(story: Story) -> list[str]:
    """Return the messages of the requests that the cluster has refused."""
    answers = (event for event in story.events if isinstance(event, Answered))
    return [each.message for each in answers if each.verdict is Verdict.REFUSED and each.code]


@TOLD
def test_a_target_on_a_cordoned_broker_waits_until_the_cordon_goes_and_others_do_not(
    tmp_path: Path, told: Told
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    story = a_story(tmp_path, ways, told)
    story.already(cordon(4))
    story.schedule(100.0, uncordon(4))

    story.played(until_s=90.0)

    assert story.state("orders-0") is State.BLOCKED
    assert story.reason("orders-0").startswith("broker 4 of its target is cordoned")
    assert story.reason("orders-0").endswith(OUT)
    assert story.state("orders-1") is State.DONE
    assert len(refusals(story)) == (0 if told is Told.YES else 1)

    assert story.resumed().ended
    assert story.at_target("orders-0", "orders-1")
    assert len(refusals(story)) == (0 if told is Told.YES else 2)


@TOLD
@pytest.mark.parametrize("shape", [Shape.GENTLE, Shape.KIP_435])
def test_a_drain_goes_straight_where_somebody_has_cordoned_the_broker_already(
    tmp_path: Path, told: Told, shape: Shape
) -> None:
    ways = {
        "orders-0": ((4, 1, 2), (1, 2, 3)),
        "orders-1": ((1, 4, 2), (1, 3, 2)),
        "orders-2": ((4,), (5,)),
    }
    limits = msgspec.structs.replace(ONE_BY_ONE, shape=shape)
    story = a_story(tmp_path, ways, told, limits)
    story.already(cordon(4))

    assert story.played().ended

    assert story.at_target(*ways)
    assert story.sent("orders-0")[-1] == (1, 2, 3)
    assert not any(4 in (target or ()) for name in ways for target in story.sent(name)[1:])
    assert len(refusals(story)) <= (0 if told is Told.YES else 1)


@TOLD
def test_a_drain_amid_which_somebody_cordons_the_broker_goes_on_to_its_end(
    tmp_path: Path, told: Told
) -> None:
    ways = {f"orders-{n}": ((4, 1, 2), (3, 1, 2)) for n in range(4)}
    story = a_story(tmp_path, ways, told)
    story.schedule(14.0, cordon(4))

    assert story.played().ended

    assert story.at_target(*ways)
    assert story.sent("orders-0") == [(4, 1, 2, 3), (3, 1, 2)]
    assert story.sent("orders-3") == [(3, 1, 2)]
    assert len(refusals(story)) <= 1


@TOLD
def test_a_rollback_to_a_cordoned_broker_waits_for_the_end_of_its_cordon_across_engines(
    tmp_path: Path, told: Told
) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (3, 1, 2))}, told)
    story.schedule(14.0, cordon(4))
    assert story.played().ended

    story.reopened(CancelMoves(CancelKind.ROLLBACK), until_s=60.0)

    assert story.state("orders-0") is State.REFUSED
    assert story.reason("orders-0").startswith("broker 4 of its original replicas is cordoned")
    assert story.reason("orders-0").endswith(OUT)
    refused = len(refusals(story))
    assert refused <= (0 if told is Told.YES else 2)

    story.schedule(120.0, uncordon(4))
    assert story.resumed().ended

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.replicas(tp("orders-0")) == (4, 1, 2)
    assert len(refusals(story)) <= refused + (0 if told is Told.YES else 1)


@TOLD
def test_a_demotion_of_a_cordoned_broker_waits(tmp_path: Path, told: Told) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (1, 2, 4))}, told)
    story.already(cordon(4))
    story.schedule(60.0, uncordon(4))

    story.played(until_s=30.0)
    assert story.reason("orders-0").endswith(OUT)

    assert story.resumed().ended
    assert story.at_target("orders-0")


def test_a_trim_drops_the_cordoned_replica_first(tmp_path: Path) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (3, 5, 6))})
    story.schedule(14.0, cordon(4))
    story.asked(14.0, CancelMoves(CancelKind.TRIM))

    assert story.played().ended

    assert 4 not in story.replicas(tp("orders-0"))
    assert len(refusals(story)) <= 1


def test_a_broker_that_died_cordoned_stays_closed(tmp_path: Path) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (3, 1, 4))})
    story.already(cordon(4))
    story.schedule(20.0, acts.Kill(4))

    story.played(until_s=120.0)

    assert story.state("orders-0") is State.BLOCKED
    assert story.reason("orders-0").endswith(OUT)
    assert story.sent("orders-0") == []


@pytest.mark.parametrize(("refused", "closed"), [(False, set()), (True, {4})])
def test_an_uncordoned_log_dir_counts_though_the_next_reading_is_late(
    *, refused: bool, closed: set[int]
) -> None:
    """It lifts a cordon that was read before it, but no refusal, which may be the newer one."""
    here = LogDir(4, "/data", cordoned=True)
    late = Failure(Operation.LOG_DIRS, "no answer for 5.1 s", 4)
    cordons = Cordons()
    cordons.update(a_poll(0.0, {4: (here,)}))
    if refused:
        cordons.refused(4, 1.0)

    cordons.update(a_poll(20.0, {4: (LogDir(4, "/data"),)}, late))

    assert cordons.closed == closed


def a_poll(at_s: float, log_dirs: Mapping[int, tuple[LogDir, ...]], *late: Failure) -> Observation:
    return Observation(
        cluster_id="c",
        controller=1,
        brokers={4: Broker(4)},
        partitions={},
        waits_for_kept=False,
        refuses_cordoned=True,
        log_dirs=log_dirs,
        failures=late,
        at=FIRST_MOMENT,
        monotonic_s=at_s,
        took_s=0.0,
    )


def test_before_4_4_a_cordon_changes_nothing(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": ((4, 2, 3), RF3)}
    story = a_story(tmp_path, ways, told=Told.NO, version="4.3")
    story.already(cordon(4))

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert story.sent("orders-1") == [(4, 2, 3, 1), (1, 2, 3)]


@TOLD
def test_ktui_reassign_asks_kafka_once_and_shows_its_answer(tmp_path: Path, told: Told) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    story = a_story(tmp_path, ways, told, Limits(shape=Shape.WHOLE))
    story.already(cordon(4))

    assert story.played().ended

    assert story.state("orders-0") is State.FAILED
    assert story.reason("orders-0").startswith("refused: The manual partition assignment includes")
    assert len(refusals(story)) == 1
    assert story.at_target("orders-1")
