"""`ktui start` and `ktui resume` own the cluster for their state directory, or refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ktui.cli.context.claim import ClusterHold, claim_request
from ktui.cli.watch.launcher import ProcessEngines
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ownership import ClaimStatus, OwnedByOthers, OwnedHere, Unowned
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.resources import broker_resource
from ktui.cluster.throttle_settings import FOLLOWER_RATE
from ktui.execution.cancel.foreign_outcome import listed_reassignments
from ktui.execution.errors import RunRefused
from ktui.execution.host.ownership import Ownership, own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.host.state_id import ensure_id
from ktui.execution.run.events import AnyRunEvent, Configure
from ktui.simulated import events
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.cancel_office import CancelOffice
from support.cli.named_cluster import NamedCluster
from support.cli.plan_desk import Desk
from support.cli.start_desk import Office
from support.cli.throttle_ward import Ward
from support.journals.journals import planned, started, written
from support.journals.owners import owner
from support.simulated.moving_clusters import a_cluster, tp


class Spawned(Exception):
    """An engine would have been started."""


class OwningOffice(Office):
    """An office whose engines are not started, but noted."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk) -> None:
        super().__init__(folder, monkeypatch, desk)
        self.its: SimulatedCluster
        self.engine: list[str] = []
        self.fails: Exception | None = None
        self.takes: Callable[[Ownership], object] = Ownership.release
        monkeypatch.setattr("ktui.cli.process.launch.start_engine", self._spawn)
        monkeypatch.setattr("ktui.cli.start.follow.follow", self._follow)
        self.cluster(a_cluster({"orders": [(1, 2, 3)]}))

    def _follow(self, start: Callable[[], object], *_: object, **_more: object) -> int:
        start()
        return 0

    def cluster(self, cluster: SimulatedCluster, **how: Any) -> None:
        self.its = cluster
        super().cluster(cluster, **how)

    def _spawn(self, run: RunDir, arguments: list[str]) -> None:
        self.engine = arguments
        self.takes(own_run(run))
        if self.fails is not None:
            raise self.fails
        self.run = run

    def claim_of(self, user: str) -> GroupClaim:
        return claim_on(self.its, user)

    def owned_by(self, user: str) -> None:
        assert isinstance(asyncio.run(self.claim_of(user).claim(take_over=True)), OwnedHere)

    @property
    def standing(self) -> ClaimStatus:
        """How things stand for a stranger."""
        return asyncio.run(self.claim_of("stranger").look())

    def started(self, *options: str) -> Result:
        return self.start(self.plan(orders_0=(4, 2, 3)), "--headless", *options)


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, desk: Desk) -> OwningOffice:
    return OwningOffice(tmp_path, monkeypatch, desk)


def test_who_starts_a_run_owns_the_cluster_by_user_host_and_run(office: OwningOffice) -> None:
    office.started("--name", "drain")

    found = office.standing
    assert isinstance(found, OwnedByOthers)
    assert found.owner is not None
    assert (found.owner.run, found.owner.state_dir) == ("drain", ensure_id(office.state))
    assert "--no-ownership" not in office.engine


def test_a_cluster_of_another_is_refused_before_anything_is_made(office: OwningOffice) -> None:
    office.owned_by("bob")

    words = office.refusal(office.plan(orders_0=(4, 2, 3)), "--headless")

    assert "nothing was sent: bob on ops1 (run orders, since " in words
    assert "--take-over" in words
    assert office.runs == []
    assert not office.engine


def test_who_has_two_state_directories_is_told_that_the_other_one_owns_the_cluster(
    office: OwningOffice, tmp_path: Path
) -> None:
    office.started()
    office.state = StateDir(tmp_path / "second")

    words = office.refusal(office.plan(orders_0=(4, 2, 3)), "--headless")

    assert "That is another state directory of yours here: use --state-dir" in words


def test_a_cluster_is_taken_over_on_purpose_only(office: OwningOffice) -> None:
    office.owned_by("bob")

    office.started("--take-over")

    assert office.engine
    assert isinstance(asyncio.run(office.claim_of("bob").look()), OwnedByOthers)


def test_a_run_of_the_same_state_directory_needs_no_take_over(office: OwningOffice) -> None:
    office.started("--name", "first")
    office.engine = []

    office.started("--name", "second")

    assert office.engine[1] == "second"
    assert office.runs == ["first", "second"]


@pytest.mark.parametrize("options", [("--no-ownership",), ()])
def test_who_may_not_join_groups_is_told_how_to_go_on_without(
    office: OwningOffice, options: tuple[str, ...]
) -> None:
    office.its.denied.update({"describe_group", "join_group"})
    words = office.refusal(office.plan(orders_0=(4, 2, 3)), "--headless")
    assert "the owner of the cluster is unknown" in words
    assert "--no-ownership, or `ownership: off`" in words
    assert office.runs == []

    office.cluster(office.its, ownership=bool(options))
    office.started(*options)

    assert "--no-ownership" in office.engine


def test_a_cluster_that_is_not_owned_cannot_be_taken_over(office: OwningOffice) -> None:
    words = office.refusal(office.plan(), "--headless", "--take-over", "--no-ownership")

    assert "--take-over" in words


@pytest.mark.parametrize("before", ["nobody's", "ours"])
def test_a_start_that_fails_leaves_the_cluster_as_it_was(office: OwningOffice, before: str) -> None:
    if before == "ours":
        office.started("--name", "first")
    office.fails = Spawned()

    assert isinstance(office.started("--name", "second").exception, Spawned)

    assert isinstance(office.standing, Unowned) == (before == "nobody's")


def test_a_start_that_gives_up_waiting_leaves_the_cluster_to_its_engine(
    office: OwningOffice,
) -> None:
    office.fails = Spawned()
    with ExitStack() as lives:
        office.takes = lives.enter_context

        assert isinstance(office.started("--name", "first").exception, Spawned)

        assert isinstance(office.standing, OwnedByOthers)


def test_a_name_that_is_taken_claims_nothing(office: OwningOffice) -> None:
    office.state.create_run("drain")

    office.refusal(office.plan(), "--headless", "--name", "drain")

    assert office.standing == Unowned()


def test_what_brokers_create_for_it_is_said_the_first_time(office: OwningOffice) -> None:
    assert "makes brokers create __consumer_offsets" in office.started("--name", "first").stderr
    assert "__consumer_offsets" not in office.started("--name", "second").stderr


@pytest.mark.parametrize("live", [False, True])
def test_a_run_that_has_ended_releases_the_cluster_unless_another_of_its_directory_is_live(
    office: OwningOffice, *, live: bool
) -> None:
    end_of(office, "first", live=live)

    assert isinstance(office.standing, OwnedByOthers if live else Unowned)


def test_a_run_that_has_ended_keeps_the_cluster_for_one_that_has_left_its_throttle(
    office: OwningOffice,
) -> None:
    rate = ConfigChange(broker_resource(4), FOLLOWER_RATE, ConfigOp.SET, "9000")
    other = office.state.create_run("third")
    begun: list[AnyRunEvent] = [
        started(1, office.cluster_id),
        planned(1),
        Configure(changes=(rate,)),
    ]
    written(other.journal, begun).close()

    end_of(office, "first")

    assert isinstance(office.standing, OwnedByOthers)


def test_a_run_that_is_to_be_resumed_keeps_the_cluster(office: OwningOffice) -> None:
    end_of(office, "first", ended=False)

    assert isinstance(office.standing, OwnedByOthers)


def test_a_cluster_that_cannot_be_released_is_told_of(
    office: OwningOffice, caplog: pytest.LogCaptureFixture
) -> None:
    end_of(office, "first", denied=True)

    assert "the cluster stays owned: the owner of the cluster is unknown" in caplog.text


def end_of(
    office: OwningOffice, run: str, *, live: bool = False, ended: bool = True, denied: bool = False
) -> None:
    """Have an engine of a run hold the cluster until its end; another one's run may be live."""
    named: Any = NamedCluster(reader=office.its.reader, groups=office.its.memberships)

    async def to_its_end() -> None:
        holds: list[ClusterHold] = []
        for name in (run, "second"):
            how = claim_request(named, office.state, office.cluster_id, name)
            assert how is not None
            holds.append(ClusterHold(how, VirtualClock(leaping=True)))
            await holds[-1].guard.ask()
        if denied:
            office.its.denied.update({"describe_group", "join_group"})
        await holds[0].end(ended=ended)
        await holds[1].end(ended=False)

    second = office.state.create_run("second")
    written(second.journal, [started(1, office.cluster_id), planned(1)]).close()
    with own_run(second) if live else nullcontext():
        asyncio.run(to_its_end())


def test_cancels_of_what_others_began_are_refused_on_a_cluster_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancels = CancelOffice(tmp_path, monkeypatch)
    cancels.others_move("orders-0")
    bob = claim_on(cancels.cluster, "bob")
    asyncio.run(bob.claim(take_over=True))

    refused = cancels.cancel("--stop", "--all")
    assert isinstance(refused.exception, RunRefused)
    assert "bob on ops1" in str(refused.exception)
    assert cancels.gate.words() is None
    assert cancels.cancel("--stop", "--all", "--dry-run").exit_code == 0

    taken = cancels.cancel("--stop", "--all", "--take-over")

    assert taken.exit_code == 0, taken.output
    assert isinstance(asyncio.run(bob.check()), OwnedByOthers)


def test_nor_are_they_once_another_took_the_cluster_over_just_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancels = CancelOffice(tmp_path, monkeypatch)
    cancels.others_move("orders-0")
    groups, name = cancels.cluster.groups, f"ktui-{cancels.cluster.spec.name}"

    def meanwhile(_: object) -> str:
        note = msgspec.json.encode(owner("bob"))
        groups.join(name, note, 1_800.0, "", cancels.cluster.now_s)
        return ""

    monkeypatch.setattr("ktui.cli.cancel.cluster.found_text", meanwhile)
    refused = cancels.cancel("--stop", "--all")

    assert isinstance(refused.exception, RunRefused)
    assert "bob on ops1" in str(refused.exception)
    assert cancels.moving == {"orders-0"}


async def test_nor_are_they_cancelled_from_the_view(tmp_path: Path) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(events.Alter({tp("orders-0"): (4, 2, 3)}))
    named: Any = NamedCluster(
        reader=cluster.reader, writer=cluster.writer, groups=cluster.memberships
    )
    await claim_on(cluster, "bob").claim(take_over=True)
    engines = ProcessEngines(named, cluster.reader(), {}, StateDir(tmp_path / "state"))
    listed = listed_reassignments(await Observer(cluster.reader(), cluster.clock).poll(Interest()))

    with pytest.raises(RunRefused, match="bob on ops1"):
        await engines.cancel_foreign(listed[tp("orders-0")])

    cluster.catch_up()
    assert cluster.controller.reassigning


@pytest.mark.parametrize("cancels", [True, False])
async def test_what_the_view_calls_off_goes_on_while_the_owner_cannot_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cancels: bool
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    named: Any = NamedCluster(reader=cluster.reader, groups=cluster.memberships)
    cluster.denied.update({"describe_group", "join_group"})
    state, begun = StateDir(tmp_path / "state"), list[str]()
    run = state.create_run("drain")
    written(run.journal, [started(1, cluster.spec.name), planned(1)]).close()
    monkeypatch.setattr(
        "ktui.cli.process.launch.start_engine", lambda run, _: begun.append(run.name)
    )
    engines = ProcessEngines(named, cluster.reader(), {}, state)

    if cancels:
        await engines.resume(run, lambda: begun.append("asked"))
    else:
        with pytest.raises(RunRefused, match="the owner of the cluster is unknown"):
            await engines.resume(run)

    assert begun == (["asked", "drain"] if cancels else [])


def test_throttles_are_not_taken_off_a_cluster_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = Ward(tmp_path, monkeypatch)
    ward.left_behind()
    bob = claim_on(ward.patient, "bob")
    asyncio.run(bob.claim(take_over=True))
    before = dict(ward.settings)

    refused = ward.clear()
    assert isinstance(refused.exception, RunRefused)
    assert "--take-over" in str(refused.exception)
    assert ward.settings == before

    assert ward.clear("--take-over").exit_code == 0
    assert not ward.settings


def test_nor_if_that_becomes_anothers_while_the_operator_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = Ward(tmp_path, monkeypatch)
    ward.left_behind()
    ward.moves("payments", 0, 5, 2, 3)
    before = dict(ward.settings)

    def hours_later(_question: str) -> bool:
        bob = claim_on(ward.patient, "bob").claim(take_over=True)
        with ThreadPoolExecutor(1) as beside:
            beside.submit(asyncio.run, bob).result()
        return True

    tty = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(
        "ktui.cli.doctor.clear_throttles.sys", SimpleNamespace(stdin=tty, stdout=tty)
    )
    monkeypatch.setattr("click.confirm", hours_later)

    refused = ward.clear()

    assert isinstance(refused.exception, RunRefused)
    assert "bob on ops1" in str(refused.exception)
    assert ward.settings == before


def test_while_the_owner_cannot_be_asked_throttles_are_taken_off_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = Ward(tmp_path, monkeypatch)
    ward.left_behind()
    ward.patient.denied.update({"describe_group", "join_group"})

    assert ward.clear().exit_code == 0
    assert not ward.settings


def claim_on(cluster: SimulatedCluster, user: str) -> GroupClaim:
    clock = VirtualClock(leaping=True)
    return GroupClaim(cluster.memberships(), cluster.spec.name, owner(user), clock)
