"""`ktui start` and `ktui resume` own the cluster for their state directory, or refuse."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from ktui.cli.context.claim import ClusterHold, claim_request
from ktui.cli.watch.command import ProcessEngines
from ktui.cluster.group_claim import GroupClaim
from ktui.cluster.observer import Interest, Observer
from ktui.cluster.ownership import ClaimStatus, OwnedByOthers, OwnedHere, Unowned, subscription
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import FOLLOWER_RATE, broker_resource
from ktui.execution import RunRefused
from ktui.execution.broker.cordon import BrokerAccess
from ktui.execution.foreign_cancels import listed_reassignments
from ktui.execution.host.ownership import Ownership, own_run
from ktui.execution.host.state_dir import RunDir, StateDir, ensure_id
from ktui.execution.run.events import AnyRunEvent, Configure
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from support.cli.call_ktui import NamedCluster, as_reader
from support.cli.cancel_sandbox import CancelSandbox
from support.cli.start_sandbox import PlanSandbox, StartSandbox
from support.cli.throttle_sandbox import ThrottleSandbox
from support.journals.journals import owner, planned, started, written
from support.simulated.moving_clusters import a_cluster, tp


class Spawned(Exception):
    """An engine would have been started."""


class OwningOffice(StartSandbox):
    """An sandbox that notes its engines instead of starting them."""

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
    ) -> None:
        super().__init__(folder, monkeypatch, plan_sandbox)
        self.its: SimulatedCluster
        self.engine: list[str] = []
        self.fails: Exception | None = None
        self.takes: Callable[[Ownership], object] = Ownership.release
        monkeypatch.setattr("ktui.cli.process.start_engine", self._spawn)
        monkeypatch.setattr("ktui.cli.follow.follow", self._follow)
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
        return asyncio.run(self.claim_of("stranger").read())

    def started(self, *options: str) -> Result:
        return self.start(self.plan(orders_0=(4, 2, 3)), "--headless", *options)


@pytest.fixture
def sandbox(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
) -> OwningOffice:
    return OwningOffice(tmp_path, monkeypatch, plan_sandbox)


def test_starting_a_run_claims_the_cluster_for_the_run_and_its_state_directory(
    sandbox: OwningOffice,
) -> None:
    sandbox.started("--name", "drain")

    found = sandbox.standing
    assert isinstance(found, OwnedByOthers)
    assert found.owner is not None
    assert (found.owner.run, found.owner.state_dir) == ("drain", ensure_id(sandbox.state))
    assert "--no-ownership" not in sandbox.engine


def test_a_refusal_points_to_a_users_other_state_directory_that_owns_the_cluster(
    sandbox: OwningOffice, tmp_path: Path
) -> None:
    sandbox.started()
    sandbox.state = StateDir(tmp_path / "second")

    words = sandbox.refusal(sandbox.plan(orders_0=(4, 2, 3)), "--headless")

    assert "That is another state directory of yours here: use --state-dir" in words


def test_a_run_of_the_same_state_directory_needs_no_take_over(sandbox: OwningOffice) -> None:
    sandbox.started("--name", "first")
    sandbox.engine = []

    sandbox.started("--name", "second")

    assert sandbox.engine[1] == "second"
    assert sandbox.runs == ["first", "second"]


@pytest.mark.parametrize("before", ["nobody's", "ours"])
def test_a_failed_start_leaves_the_ownership_as_it_was(sandbox: OwningOffice, before: str) -> None:
    if before == "ours":
        sandbox.started("--name", "first")
    sandbox.fails = Spawned()

    assert isinstance(sandbox.started("--name", "second").exception, Spawned)

    assert isinstance(sandbox.standing, Unowned) == (before == "nobody's")


def test_a_start_that_stops_waiting_leaves_the_cluster_to_its_engine(sandbox: OwningOffice) -> None:
    sandbox.fails = Spawned()
    with ExitStack() as live_engines:
        sandbox.takes = live_engines.enter_context

        assert isinstance(sandbox.started("--name", "first").exception, Spawned)

        assert isinstance(sandbox.standing, OwnedByOthers)


def test_a_name_that_is_taken_claims_nothing(sandbox: OwningOffice) -> None:
    sandbox.state.create_run("drain")

    sandbox.refusal(sandbox.plan(), "--headless", "--name", "drain")

    assert sandbox.standing == Unowned()


@pytest.mark.parametrize("live", [False, True])
def test_an_ended_run_releases_the_cluster_unless_a_run_of_its_directory_is_live(
    sandbox: OwningOffice, *, live: bool
) -> None:
    end_run(sandbox, "first", live=live)

    assert isinstance(sandbox.standing, OwnedByOthers if live else Unowned)


def test_an_ended_run_keeps_the_cluster_for_a_run_that_left_its_throttle_behind(
    sandbox: OwningOffice,
) -> None:
    rate = ConfigChange(broker_resource(4), FOLLOWER_RATE, ConfigOp.SET, "9000")
    other = sandbox.state.create_run("third")
    recorded: list[AnyRunEvent] = [
        started(1, sandbox.cluster_id),
        planned(1),
        Configure(changes=(rate,)),
    ]
    written(other.journal, recorded).close()

    end_run(sandbox, "first")

    assert isinstance(sandbox.standing, OwnedByOthers)


def test_an_unfinished_run_keeps_the_cluster(sandbox: OwningOffice) -> None:
    end_run(sandbox, "first", ended=False)

    assert isinstance(sandbox.standing, OwnedByOthers)


def test_a_cluster_that_cannot_be_released_is_logged(
    sandbox: OwningOffice, caplog: pytest.LogCaptureFixture
) -> None:
    end_run(sandbox, "first", denied=True)

    assert "the cluster stays owned: the owner of the cluster is unknown" in caplog.text


def end_run(
    sandbox: OwningOffice, run: str, *, live: bool = False, ended: bool = True, denied: bool = False
) -> None:
    """Let the engine of a run hold the cluster until it ends; a second run may be live."""
    named: Any = NamedCluster(reader=sandbox.its.reader, groups=sandbox.its.memberships)

    async def hold_until_the_end() -> None:
        holds: list[ClusterHold] = []
        for name in (run, "second"):
            how = claim_request(named, sandbox.state, sandbox.cluster_id, name)
            assert how is not None
            holds.append(ClusterHold(how, VirtualClock(leaping=True)))
            await holds[-1].guard.ask()
        if denied:
            sandbox.its.denied.update({"describe_group", "join_group"})
        await holds[0].end(ended=ended)
        await holds[1].end(ended=False)

    second = sandbox.state.create_run("second")
    written(second.journal, [started(1, sandbox.cluster_id), planned(1)]).close()
    with own_run(second) if live else nullcontext():
        asyncio.run(hold_until_the_end())


def test_cancelling_others_reassignments_is_refused_on_someone_elses_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancels = CancelSandbox(tmp_path, monkeypatch)
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


def test_a_cluster_cancel_is_refused_after_a_takeover_during_its_preview(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancels = CancelSandbox(tmp_path, monkeypatch)
    cancels.others_move("orders-0")
    groups, name = cancels.cluster.groups, f"ktui-{cancels.cluster.spec.name}"

    def bob_takes_over(_: object) -> str:
        note = subscription(msgspec.json.encode(owner("bob")))
        groups.join(name, note, 1_800.0, "", cancels.cluster.now_s)
        return ""

    monkeypatch.setattr("ktui.cli.cancel.found_parts", bob_takes_over)
    refused = cancels.cancel("--stop", "--all")

    assert isinstance(refused.exception, RunRefused)
    assert "bob on ops1" in str(refused.exception)
    assert cancels.moving == {"orders-0"}


async def test_the_live_view_cancels_no_reassignment_on_someone_elses_cluster(
    tmp_path: Path,
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    cluster.do(layout.Alter({tp("orders-0"): (4, 2, 3)}))
    named: Any = NamedCluster(
        reader=cluster.reader, writer=cluster.writer, groups=cluster.memberships
    )
    await claim_on(cluster, "bob").claim(take_over=True)
    engines = ProcessEngines(named, as_reader(cluster), {}, StateDir(tmp_path / "state"))
    listed = listed_reassignments(await Observer(cluster.reader(), cluster.clock).poll(Interest()))

    with pytest.raises(RunRefused, match="bob on ops1"):
        await engines.cancel_foreign([listed[tp("orders-0")]])

    cluster.catch_up()
    assert cluster.controller.reassigning


async def test_the_live_view_cordons_no_broker_of_someone_elses_cluster(tmp_path: Path) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    named: Any = NamedCluster(
        reader=cluster.reader, writer=cluster.writer, groups=cluster.memberships
    )
    engines = ProcessEngines(named, as_reader(cluster), {}, StateDir(tmp_path / "state"))
    access = BrokerAccess(cluster.reader(), VirtualClock(leaping=True), engines.ports)
    seen = await access.read_cordon(4)
    await claim_on(cluster, "bob").claim(take_over=True)  # while the operator is asked

    with pytest.raises(RunRefused, match="bob on ops1"):
        await access.cordon(seen)

    assert not cluster.controller.configs.cordoned(4)


@pytest.mark.parametrize("cancels", [True, False])
async def test_the_live_view_resumes_a_run_with_an_unknown_owner_only_to_cancel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, cancels: bool
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    named: Any = NamedCluster(reader=cluster.reader, groups=cluster.memberships)
    cluster.denied.update({"describe_group", "join_group"})
    state, recorded = StateDir(tmp_path / "state"), list[str]()
    run = state.create_run("drain")
    written(run.journal, [started(1, cluster.spec.name), planned(1)]).close()
    monkeypatch.setattr("ktui.cli.process.start_engine", lambda run, _: recorded.append(run.name))
    engines = ProcessEngines(named, as_reader(cluster), {}, state)

    if cancels:
        await engines.resume(run, lambda: recorded.append("asked"))
    else:
        with pytest.raises(RunRefused, match="the owner of the cluster is unknown"):
            await engines.resume(run)

    assert recorded == (["asked", "drain"] if cancels else [])


def test_throttles_stay_if_the_cluster_is_taken_over_during_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = ThrottleSandbox(tmp_path, monkeypatch)
    sandbox.left_behind()
    sandbox.moves("payments", 0, 5, 2, 3)
    before = dict(sandbox.settings)

    def take_over_and_confirm(_question: str) -> bool:
        bob = claim_on(sandbox.patient, "bob").claim(take_over=True)
        with ThreadPoolExecutor(1) as executor:
            executor.submit(asyncio.run, bob).result()
        return True

    monkeypatch.setattr("ktui.cli.doctor_throttles.can_ask", lambda: True)
    monkeypatch.setattr("click.confirm", take_over_and_confirm)

    refused = sandbox.clear()

    assert isinstance(refused.exception, RunRefused)
    assert "bob on ops1" in str(refused.exception)
    assert sandbox.settings == before


def claim_on(cluster: SimulatedCluster, user: str) -> GroupClaim:
    clock = VirtualClock(leaping=True)
    return GroupClaim(cluster.memberships(), cluster.spec.name, owner(user), clock)
