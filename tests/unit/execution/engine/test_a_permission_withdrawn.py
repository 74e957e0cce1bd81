"""The permission to alter is withdrawn during a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktui.cluster.errors import NotAuthorized
from ktui.cluster.ports import Verdict, WriteResult
from ktui.execution.run.events import Paused, PauseOrigin
from ktui.execution.run.states import State
from ktui.pacing.limits import Limits
from ktui.simulated import layout
from support.runs.stories import Story
from support.simulated.moving_clusters import tp

RF3 = (1, 2, 3)
TWO = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
MISSING = (
    "the permission Alter on the cluster is missing (CLUSTER_AUTHORIZATION_FAILED): "
    "grant it, then resume"
)


def test_a_run_that_loses_permission_is_paused_and_left_and_no_partition_fails(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=2))
    story.schedule(0.0, layout.Deny("alter_reassignments"))

    run = story.played()

    assert not run.ended
    assert run.left == MISSING
    assert [e.reason for e in story.events if isinstance(e, Paused)] == [MISSING]
    assert story.state("orders-0") is story.state("orders-1") is State.QUEUED
    assert len(story.begun_at("orders-0")) == 1


def test_steps_in_flight_finish_before_the_run_is_left(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=1))
    story.schedule(3.0, layout.Deny("alter_reassignments"))

    run = story.played()

    assert run.left == MISSING
    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    assert story.replicas(tp("orders-0")) == (1, 2, 3, 4)


def test_a_run_can_be_resumed_however_often_it_was_denied(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(0.0, layout.Deny("alter_reassignments"))
    story.played()
    for _ in range(6):
        assert set(story.resumed().pauses.whole) == {PauseOrigin.FAILURE}
    assert story.folded.tracks[tp("orders-0")].refusals == 0

    story.cluster.do(layout.Allow("alter_reassignments"))

    assert story.resumed().ended
    assert story.at_target(*TWO)


def test_a_denied_election_pauses_the_run_too(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (2, 1, 3)), "orders-1": (RF3, (4, 2, 3))})
    story.schedule(0.0, layout.Deny("elect_preferred_leaders"))

    run = story.played()

    assert run.left == MISSING
    assert story.state("orders-0") is not State.FAILED
    assert story.begun_at("orders-1") == []
    story.cluster.do(layout.Allow("elect_preferred_leaders"))
    assert story.resumed().ended
    assert story.at_target("orders-0", "orders-1")


def test_an_unauthorized_call_pauses_the_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO)

    async def denied(*_: Any, **__: Any) -> Any:
        raise NotAuthorized("altering reassignments", needs="Alter on the cluster")

    monkeypatch.setattr(story.sending, "alter_reassignments", denied)

    assert story.played().left == MISSING


def test_no_partition_fails_when_every_topic_of_a_request_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO)
    needs = "Alter on topic orders"
    no = WriteResult(Verdict.REFUSED, "TOPIC_AUTHORIZATION_FAILED", "no", needs=needs)

    async def denied(targets: Any, **_: Any) -> Any:
        return dict.fromkeys(targets, no)

    monkeypatch.setattr(story.sending, "alter_reassignments", denied)
    assert story.played().left == (
        "the permission Alter on topic orders is missing (TOPIC_AUTHORIZATION_FAILED): "
        "grant it, then resume"
    )
    for _ in range(6):
        assert set(story.resumed().pauses.whole) == {PauseOrigin.FAILURE}

    assert story.state("orders-0") is State.QUEUED


def test_a_denial_of_one_topic_among_others_does_not_pause_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=2))
    sending, no = story.sending.alter_reassignments, "TOPIC_AUTHORIZATION_FAILED"

    async def choosy(targets: Any, **how: Any) -> Any:
        mine = {each: to for each, to in targets.items() if each == tp("orders-0")}
        others = {each: to for each, to in targets.items() if each not in mine}
        results = dict(await sending(others, **how)) if others else {}
        return results | dict.fromkeys(mine, WriteResult(Verdict.REFUSED, no, "no"))

    monkeypatch.setattr(story.sending, "alter_reassignments", choosy)

    story.played(until_s=0.5)

    assert story.folded.pauses.whole == {}
    assert story.folded.tracks[tp("orders-0")].refusals == 1
