"""A run sends only while its state directory owns the cluster, and otherwise reports why."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.ownership import OwnedByOthers, OwnedHere, SendGuard, Unowned, subscription
from ktui.cluster.partition import Reassignment, TopicPartition
from ktui.execution.journal.commands import CancelMoves, Pause
from ktui.execution.run.events import (
    AnyRunEvent,
    CancelAsked,
    Configure,
    EngineLeft,
    JournalEntry,
    Request,
    StepBegun,
    StepGate,
)
from ktui.execution.run.states import CancelKind, State
from ktui.planning.throttle_rates import NO_THROTTLE
from ktui.simulated import layout
from ktui.simulated.cluster import SimulatedCluster
from support.journals.journals import owner
from support.runs.stories import of_request
from support.runs.throttled import TWO, ThrottledStory, settings_in
from support.simulated.moving_clusters import tp

MOST_S = 400.0


class OwnedStory(ThrottledStory):
    """A story whose engines own the cluster for ada's state directory."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, TWO)
        self.requests_then = -1
        self.guarded = lambda: SendGuard(claim_on(self.cluster, "ada"), self.clock)

    def deny(self, at_s: float, until_s: float) -> None:
        """Deny everybody the coordinators for a while."""
        calls = {"describe_group", "join_group"}
        self.cluster.at(at_s, lambda: self.cluster.denied.update(calls))
        self.cluster.at(until_s, lambda: self.cluster.denied.difference_update(calls))

    def taken_over(self, at_s: float) -> None:
        """Have bob's state directory take the cluster over at a second of the story."""

        async def take_over() -> None:
            claim = claim_on(self.cluster, "bob")
            assert isinstance(await claim.claim(take_over=True), OwnedHere)
            self.requests_then = len(self.witness.alters)
            self.settings_then = settings_in(self.cluster)

        def begin() -> None:
            self._taking_over = asyncio.ensure_future(take_over())

        self.cluster.at(at_s, begin)

    def taken_by(self, user: str) -> None:
        """Have another state directory take the cluster over at once."""
        name, note = f"ktui-{self.cluster.spec.name}", msgspec.json.encode(owner(user))
        self.cluster.groups.join(name, subscription(note), 1_800.0, "", self.cluster.now_s)

    def when_written(self, kind: type[AnyRunEvent], then: Callable[[], object]) -> None:
        """Do something whenever an event of a kind is written into the journal."""

        def written(entries: Sequence[JournalEntry]) -> None:
            if any(isinstance(entry.event, kind) for entry in entries):
                then()

        self.checks.append(written)

    @property
    def why_left(self) -> str:
        return next(
            event.reason for event in reversed(self.events) if isinstance(event, EngineLeft)
        )


def claim_on(cluster: SimulatedCluster, user: str) -> GroupClaim:
    return GroupClaim(cluster.memberships(), cluster.spec.name, owner(user), cluster.clock)


def standing_for(story: ThrottledStory, user: str) -> object:
    async def look() -> object:
        return await claim_on(story.cluster, user).read()

    return asyncio.run(look())


def test_a_run_owns_the_cluster_and_completes(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)

    assert story.played().ended

    assert story.at_target("orders-0", "orders-1")
    story.assert_left_as_found()
    assert isinstance(standing_for(story, "bob"), OwnedByOthers)


@pytest.mark.parametrize("at_s", [3.0, 21.5])
def test_after_a_takeover_a_run_sends_nothing_more_and_reports_why(
    tmp_path: Path, at_s: float
) -> None:
    story = OwnedStory(tmp_path)
    story.taken_over(at_s)

    run = story.played(until_s=MOST_S)

    assert not run.ended
    assert story.requests_then == len(story.witness.alters) > 0
    assert settings_in(story.cluster) == story.settings_then
    assert story.rates, "its throttle was put back though the cluster is another's"
    assert story.why_left.startswith("bob on ops1 (run orders, since ")
    assert "sends nothing more; its throttles stay set" in story.why_left
    assert story.clock.monotonic() < at_s + 10.0


@pytest.mark.parametrize("intent", [StepBegun, Configure])
def test_an_intent_written_just_before_a_takeover_is_not_sent(
    tmp_path: Path, intent: type[AnyRunEvent]
) -> None:
    story = OwnedStory(tmp_path)

    story.when_written(intent, lambda: story.taken_by("bob"))

    story.played(until_s=MOST_S)

    assert not story.witness.alters
    configured = [event for event in story.events if isinstance(event, Configure)]
    assert len(configured) == (1 if intent is Configure else 0)  # that request was in flight
    assert story.why_left.startswith("bob on ops1")


def test_no_cancel_is_sent_after_a_takeover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = OwnedStory(tmp_path)
    listing = story.reader.list_reassignments

    async def slowly() -> Mapping[TopicPartition, Reassignment]:
        await story.clock.sleep(3.0)
        return await listing()

    monkeypatch.setattr(story.reader, "list_reassignments", slowly)
    story.asked(10.0, CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),)))
    story.when_written(CancelAsked, lambda: story.taken_by("bob"))

    story.played(until_s=MOST_S)

    assert None not in story.sent("orders-0")
    assert story.why_left.startswith("bob on ops1")


def test_a_journaled_step_is_not_sent_once_the_owner_cannot_be_asked(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)
    story.options = msgspec.structs.replace(story.options, throttle=NO_THROTTLE)
    calls = {"describe_group", "join_group"}
    story.when_written(StepBegun, lambda: story.cluster.denied.update(calls))

    story.played(until_s=60.0)

    assert story.begun_at("orders-0")
    assert not story.witness.alters


def test_a_claim_removed_by_hand_is_lost_too(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)
    story.cluster.at(5.0, story.cluster.groups._groups.clear)

    assert not story.played(until_s=MOST_S).ended

    assert "lapsed, or was removed" in story.why_left
    assert isinstance(standing_for(story, "bob"), Unowned)


def test_while_the_owner_cannot_be_asked_steps_in_flight_finish_and_none_begins(
    tmp_path: Path,
) -> None:
    story = OwnedStory(tmp_path)
    story.deny(3.0, 100.0)

    assert story.played().ended

    begun = [*story.begun_at("orders-0"), *story.begun_at("orders-1")]
    assert min(begun) < 3.0
    assert not [at_s for at_s in begun if 3.0 < at_s < 100.0]
    put_back = [at_s for at_s in story.seconds(_puts_back) if at_s < 100.0]
    assert put_back, "no throttle was put back while the owner could not be asked"
    shut, opened = [event for event in story.events if isinstance(event, StepGate)]
    assert shut.shut
    assert "no new step begins: the owner of the cluster is unknown" in shut.reason
    assert "What moves goes on, and cancels, rollbacks and restored throttles" in shut.reason
    assert not opened.shut
    story.assert_left_as_found()


@pytest.mark.parametrize("kind", [CancelKind.STOP, CancelKind.ROLLBACK])
def test_a_cancel_is_sent_even_while_the_owner_cannot_be_asked(
    tmp_path: Path, kind: CancelKind
) -> None:
    story = OwnedStory(tmp_path)
    story.deny(3.0, 300.0)
    story.asked(6.0, CancelMoves(kind, partitions=(tp("orders-0"),)))

    story.played(until_s=200.0)

    assert story.sent("orders-0")[-1] is None
    assert story.state("orders-0") in (State.STOPPED, State.ROLLED_BACK)
    assert story.replicas(tp("orders-0")) == (1, 2, 3)
    assert not story.sent("orders-1")


def test_a_cancel_does_not_wait_for_a_coordinator_that_hangs(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)
    coordinator = story.cluster.groups.coordinator(f"ktui-{story.cluster.spec.name}")
    assert coordinator is not None
    story.schedule(3.0, layout.Hang(coordinator))
    story.asked(4.0, CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),)))
    story.deny(12.0, 300.0)  # nor does anybody else answer

    story.played(until_s=60.0)

    (cancelled,) = story.seconds(of_request(Request.CANCEL, "orders-0"))
    assert cancelled < 11.0
    assert story.sent("orders-0")[-1] is None
    assert any("no answer within 3 s" in e.reason for e in story.events if isinstance(e, StepGate))


def test_a_done_partition_is_rolled_back_even_while_the_owner_cannot_be_asked(
    tmp_path: Path,
) -> None:
    story = OwnedStory(tmp_path)
    story.deny(30.0, 300.0)
    story.asked(40.0, CancelMoves(CancelKind.ROLLBACK, partitions=(tp("orders-0"),)))

    story.played(until_s=200.0)

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.replicas(tp("orders-0")) == (1, 2, 3)


def test_a_killed_run_resumes_in_its_state_directory_without_a_takeover(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)
    story.killed("StepBegun|step")

    assert story.to_the_end().ended

    assert story.engines > 1
    assert story.at_target("orders-0", "orders-1")


def test_a_paused_run_keeps_showing_that_its_engine_lives(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)
    story.options = msgspec.structs.replace(story.options, poll_s=60.0)
    story.asked(1.0, Pause())

    story.played(until_s=200.0)

    found = standing_for(story, "bob")
    assert isinstance(found, OwnedByOthers)
    assert found.lives


def test_engines_of_one_state_directory_share_the_cluster(tmp_path: Path) -> None:
    cluster = OwnedStory(tmp_path).cluster

    async def both() -> list[str | None]:
        why: list[str | None] = []
        guards = [SendGuard(claim_on(cluster, "ada"), cluster.clock) for _ in range(2)]
        for _ in range(20):
            for guard in guards:
                await guard.ask()
            why += [guard.why_not(begins_step=True) for guard in guards]
            await cluster.clock.sleep(5.0)
        return why

    assert asyncio.run(both()) == [None] * 40


def _puts_back(event: object) -> bool:
    return bool(getattr(event, "puts_back", False))


def test_no_setting_is_changed_if_a_takeover_happens_while_its_intent_is_written(
    tmp_path: Path,
) -> None:
    story = OwnedStory(tmp_path)

    def locked() -> None:
        story.clock.pass_time(30.0)
        story.taken_by("bob")

    story.when_written(Configure, locked)

    story.played(until_s=MOST_S)

    assert not story.rates
    assert story.why_left.startswith("bob on ops1")


def test_no_rollback_step_is_sent_after_a_takeover(tmp_path: Path) -> None:
    story = OwnedStory(tmp_path)
    story.options = msgspec.structs.replace(story.options, throttle=NO_THROTTLE)
    story.asked(12.0, CancelMoves(CancelKind.ROLLBACK, partitions=(tp("orders-0"),)))

    def asked_for() -> None:
        story.when_written(StepBegun, lambda: story.taken_by("bob"))
        story.requests_then = len(story.witness.alters)

    story.when_written(CancelAsked, asked_for)

    story.played(until_s=MOST_S)

    assert len(story.witness.alters) == story.requests_then
    assert story.why_left.startswith("bob on ops1")


def test_a_cancel_is_sent_even_while_a_poll_takes_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = OwnedStory(tmp_path)
    listing, slow = story.reader.list_reassignments, [True]

    async def slowly() -> Mapping[TopicPartition, Reassignment]:
        if story.clock.monotonic() > 10.0 and slow:
            slow.clear()
            await story.clock.sleep(60.0)
        return await listing()

    monkeypatch.setattr(story.reader, "list_reassignments", slowly)
    story.asked(16.0, CancelMoves(CancelKind.STOP, partitions=(tp("orders-0"),)))

    story.played(until_s=MOST_S)

    (cancelled,) = story.seconds(of_request(Request.CANCEL, "orders-0"))
    assert cancelled < 20.0
