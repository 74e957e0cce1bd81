"""Reassignments of others: each is cancelled as it was listed, and its outcome is reported."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.errors import KafkaError, Unreachable
from ktui.cluster.observation import Observation
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.partition import PartitionState
from ktui.cluster.ports import ClusterWriter, Verdict, WriteResult
from ktui.execution import foreign_cancels as foreign
from ktui.execution.engine.requests import READ_STALE_S
from ktui.execution.foreign_cancels import (
    CancelLog,
    ForeignCancel,
    ForeignOutcome,
    ListedReassignment,
    Settled,
    judge_cancel,
    listed_reassignments,
)
from ktui.execution.host.state_dir import StateDir
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.layout import TopicSpec
from support.simulated.moving_clusters import TARGET, a_cluster, cancel, move, tp

ACCEPTED, LOST = WriteResult(Verdict.ACCEPTED), WriteResult(Verdict.UNKNOWN)
NOTHING = WriteResult(Verdict.REFUSED, KafkaError.NO_REASSIGNMENT_IN_PROGRESS, "nothing moves")
DENIED = WriteResult(Verdict.REFUSED, "POLICY_VIOLATION", "not on a Sunday")
SHOWN = ListedReassignment(tp=tp("orders-0"), topic_id="t", original=(1, 2, 3), target=(4, 2, 3))


class Scene:
    """Two partitions that others move, with all it takes to cancel them."""

    def __init__(self, folder: Path, **more: Any) -> None:
        self.cluster = a_cluster(moving=("orders-0", "orders-1"), **more)
        assert isinstance(self.cluster.clock, VirtualClock)
        self.clock = self.cluster.clock
        self.clock._leaping = True
        self.clock.pass_time(1.0)
        self.observer = Observer(self.cluster.reader(), self.clock)
        self.writer: ClusterWriter = self.cluster.writer()
        self.log = CancelLog(StateDir(folder), "c", "ada@ops1 (1)", self.clock)
        self.partitions = frozenset(map(tp, ("orders-0", "orders-1")))

    async def observe(self) -> Observation:
        return await self.observer.poll(Interest(partitions=self.partitions, fresh=True))

    async def cancelled(
        self, *between: layout.OutsideEvent, then: float = 70.0
    ) -> dict[str, Settled]:
        """Cancel what is listed, after some events, and watch it for some seconds."""
        shown = listed_reassignments(await self.observe())
        for act in between:
            self.cluster.do(act)
        cancelling = ForeignCancel(self.writer, self.clock, self.log)
        await cancelling.cancel(list(shown.values()), await self.observe())
        until_s = self.clock.monotonic() + then
        while cancelling.pending and self.clock.monotonic() < until_s:
            await self.clock.sleep(0.5)
            await cancelling.follow(await self.observe())
        cancelling.give_up("not seen")
        self.log.write_outcomes()
        await self.observer.aclose()
        return {str(each): settled for each, settled in cancelling.settled.items()}

    def outcomes(self, *between: layout.OutsideEvent, then: float = 70.0) -> list[ForeignOutcome]:
        settled = asyncio.run(self.cancelled(*between, then=then))
        return [settled[name].outcome for name in ("orders-0", "orders-1")]

    @property
    def lines(self) -> list[tuple[int, str]]:
        entries = map(json.loads, self.log.path.read_text().splitlines())
        return [(line["partition"], line["outcome"]) for line in entries]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "state")


def test_cancelled_moves_stop_with_the_replicas_that_were_listed(scene: Scene) -> None:
    settled = asyncio.run(scene.cancelled())

    assert {s.outcome for s in settled.values()} == {ForeignOutcome.STOPPED}
    assert {s.replicas for s in settled.values()} == {(2, 3, 1)}
    assert not scene.cluster.controller.reassigning
    assert scene.lines == [(0, "asked"), (1, "asked"), (0, "stopped"), (1, "stopped")]


def test_one_request_cancels_all_moves_once_they_are_logged_to_disk(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[Any] = []
    synced: list[int] = []
    writer = scene.writer
    monkeypatch.setattr(os, "fsync", synced.append)

    class Counting:
        async def alter_reassignments(self, targets: Any, **how: Any) -> Any:
            assert len(synced) == 3, "the folder's name, the file, and its name in the folder"
            assert scene.lines == [(0, "asked"), (1, "asked")]
            requests.append(dict(targets))
            return await writer.alter_reassignments(targets, **how)

    scene.writer = Counting()  # type: ignore[assignment] # half a writer is enough

    scene.outcomes()

    assert requests == [dict.fromkeys(sorted(scene.partitions))]


def test_a_move_retargeted_meanwhile_is_left_alone(scene: Scene) -> None:
    assert scene.outcomes(move("orders-0", 5, 2, 3)) == [
        ForeignOutcome.CHANGED,
        ForeignOutcome.STOPPED,
    ]
    assert scene.cluster.controller.reassigning.keys() == {tp("orders-0")}
    assert scene.lines == [(1, "asked"), (1, "stopped")]


def test_a_move_cancelled_by_someone_else_meanwhile_counts_as_stopped(scene: Scene) -> None:
    settled = asyncio.run(scene.cancelled(cancel("orders-0")))

    assert settled["orders-0"].outcome is ForeignOutcome.STOPPED
    assert settled["orders-0"].detail == "someone else had cancelled it"
    assert scene.lines == [(1, "asked"), (1, "stopped")]


def test_a_topic_deleted_or_recreated_meanwhile_is_not_touched(tmp_path: Path) -> None:
    gone = Scene(tmp_path / "gone")
    assert gone.outcomes(layout.DeleteTopic("orders")) == [ForeignOutcome.GONE] * 2

    recreated = Scene(tmp_path / "anew")
    topic = TopicSpec(name="orders", replicas=((1, 2, 3),) * 2, bytes_each=10**9)
    again = (layout.DeleteTopic("orders"), layout.CreateTopic(topic), move("orders-0", *TARGET))
    assert recreated.outcomes(*again) == [ForeignOutcome.GONE] * 2
    assert recreated.cluster.controller.reassigning.keys() == {tp("orders-0")}


@pytest.mark.parametrize(
    "act",
    [
        layout.LoseAnswer(),
        layout.LoseRequest(),
        layout.DelayRequest(25.0),
        layout.DelayRequest(5.0),
    ],
)
def test_lost_requests_and_answers_are_settled_by_polling(
    scene: Scene, act: layout.OutsideEvent
) -> None:
    assert scene.outcomes(act) == [ForeignOutcome.STOPPED] * 2
    assert not scene.cluster.controller.reassigning


def test_metadata_of_unknown_age_has_to_last_before_a_cancel_is_settled(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "state", metadata_lag_s=0.8)
    scene.cluster.do(layout.Deny("describe_quorum"))

    assert scene.outcomes() == [ForeignOutcome.STOPPED] * 2


def test_a_move_begun_again_after_its_cancel_is_reported_and_left_alone(scene: Scene) -> None:
    writer = scene.writer

    class Stubborn:
        async def alter_reassignments(self, targets: Any, **how: Any) -> Any:
            answer = await writer.alter_reassignments(targets, **how)
            scene.cluster.do(move("orders-0", *TARGET))
            return answer

    scene.writer = Stubborn()  # type: ignore[assignment] # half a writer is enough

    assert scene.outcomes() == [ForeignOutcome.CHANGED, ForeignOutcome.STOPPED]
    assert scene.cluster.controller.reassigning.keys() == {tp("orders-0")}


def test_a_cancel_that_could_not_be_sent_is_refused_with_the_reason(scene: Scene) -> None:
    class Cut:
        async def alter_reassignments(self, *_: Any, **__: Any) -> Any:
            raise Unreachable("altering reassignments", answer="connection refused")

    scene.writer = Cut()  # type: ignore[assignment] # half a writer is enough

    settled = asyncio.run(scene.cancelled())

    assert settled["orders-0"].outcome is ForeignOutcome.REFUSED
    assert settled["orders-0"].detail == (
        "not sent: altering reassignments: no answer: connection refused"
    )


@pytest.mark.parametrize("sent_before", [True, False], ids=["sent", "not sent"])
def test_an_answer_that_cannot_be_read_is_settled_by_polling(
    scene: Scene, *, sent_before: bool
) -> None:
    writer = scene.writer

    class Garbled:
        async def alter_reassignments(self, targets: Any, **how: Any) -> Any:
            if sent_before:
                await writer.alter_reassignments(targets, **how)
            raise KeyError("error_code")

    scene.writer = Garbled()  # type: ignore[assignment] # half a writer is enough

    expected = ForeignOutcome.STOPPED if sent_before else ForeignOutcome.UNKNOWN
    assert scene.outcomes(then=5.0) == [expected] * 2


def test_a_poll_that_cannot_be_read_does_not_end_a_cancel_that_is_sent(scene: Scene) -> None:
    cancelling, polls = ForeignCancel(scene.writer, scene.clock, scene.log), list[bool]()

    async def look(sent: bool) -> Observation:  # noqa: FBT001 - as ForeignCancel asks
        polls.append(sent)
        if len(polls) == 2:
            raise KeyError("partitions")
        return await scene.observe()

    def moves(seen: Observation) -> list[ListedReassignment]:
        return [*listed_reassignments(seen).values()]

    asyncio.run(cancelling.carry_out(look, moves))

    assert {each.outcome for each in cancelling.settled.values()} == {ForeignOutcome.STOPPED}
    assert polls == [False, True, True]


class Slow:
    """Answers each request only after the read that it rests on has become too old for others."""

    def __init__(self, scene: Scene) -> None:
        self._writer, self._clock = scene.writer, scene.clock

    async def alter_reassignments(self, targets: Any, **how: Any) -> Any:
        answer = await self._writer.alter_reassignments(targets, **how)
        await self._clock.sleep(READ_STALE_S)
        return answer


def test_a_cancel_in_many_requests_is_sent_whole_by_newer_reads(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "AT_ONCE", 1)
    scene.writer = Slow(scene)  # type: ignore[assignment] # half a writer is enough

    assert scene.outcomes() == [ForeignOutcome.STOPPED] * 2
    assert scene.lines == [(0, "asked"), (0, "stopped"), (1, "asked"), (1, "stopped")]


def test_a_cancel_for_which_no_time_was_left_is_reported_as_not_sent(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "AT_ONCE", 1)
    scene.writer = Slow(scene)  # type: ignore[assignment] # half a writer is enough

    settled = asyncio.run(scene.cancelled(then=0.0))["orders-1"]

    assert settled.outcome is ForeignOutcome.REFUSED
    assert settled.detail.startswith("not sent: ")
    assert scene.cluster.controller.reassigning.keys() == {tp("orders-1")}


def test_a_cancel_that_nobody_answers_ends_as_unknown(scene: Scene) -> None:
    scene.cluster.do(layout.Deny("describe_quorum"))
    for _ in range(10):
        scene.cluster.do(layout.LoseRequest())

    assert scene.outcomes(then=5.0) == [ForeignOutcome.UNKNOWN] * 2
    assert scene.lines[-1] == (1, "unknown")


def at_rest(*replicas: int, topic_id: str = "t") -> PartitionState:
    return PartitionState(tp("orders-0"), topic_id, replicas, replicas, replicas[0])


def moving(*target: int) -> PartitionState:
    adding = tuple(b for b in target if b not in (1, 2, 3))
    removing = tuple(b for b in (1, 2, 3) if b not in target)
    return PartitionState(
        tp("orders-0"), "t", (*target, *removing), (1, 2, 3), 1, adding=adding, removing=removing
    )


@pytest.mark.parametrize(
    ("answer", "state", "outcome"),
    [
        (ACCEPTED, at_rest(2, 3, 1), ForeignOutcome.STOPPED),
        (ACCEPTED, at_rest(4, 2, 3), ForeignOutcome.CHANGED),
        (ACCEPTED, moving(4, 2, 3), ForeignOutcome.CHANGED),
        (NOTHING, at_rest(4, 2, 3), ForeignOutcome.COMPLETED),
        (NOTHING, at_rest(1, 2, 3), ForeignOutcome.STOPPED),
        (NOTHING, at_rest(7, 8), ForeignOutcome.CHANGED),
        (LOST, at_rest(2, 3, 1), ForeignOutcome.STOPPED),
        (LOST, at_rest(4, 2, 3), ForeignOutcome.COMPLETED),
        (LOST, moving(4, 2, 3), None),
        (LOST, moving(5, 2, 3), ForeignOutcome.CHANGED),
        (DENIED, moving(4, 2, 3), ForeignOutcome.REFUSED),
        (ACCEPTED, at_rest(1, 2, 3, topic_id="another"), ForeignOutcome.GONE),
    ],
)
def test_an_outcome_follows_from_the_answer_and_a_poll(
    answer: WriteResult, state: PartitionState, outcome: ForeignOutcome | None
) -> None:
    settled = judge_cancel(SHOWN, answer, state)

    assert (None if settled is None else settled.outcome) is outcome


def test_a_refusal_quotes_the_broker() -> None:
    settled = judge_cancel(SHOWN, DENIED, moving(4, 2, 3))

    assert settled is not None
    assert settled.detail == "not on a Sunday (POLICY_VIOLATION)"
