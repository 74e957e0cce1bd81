"""`ktui throttle`: its rates, what it may do, and whose throttle it is."""

from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cli.process import Launch, launch_left_run
from ktui.cli.run import throttle
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import Unreachable
from ktui.execution import RunRefused
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.commands import Answer, SetThrottle
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, ThrottleChanged
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.clock import VirtualClock
from support.cli.call_ktui import NamedCluster
from support.cli.shell import owned_run
from support.cli.start_sandbox import StartSandbox
from support.cli.throttle_sandbox import a_run, call, json_of, run_of, throttled
from support.journals.journals import planned, started, written
from support.simulated.moving_clusters import a_cluster


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDir]:
    """A run with an engine: one for all tests."""
    with owned_run(StateDir(tmp_path_factory.mktemp("state"))) as run:
        yield run


def refusal(result: Result) -> str:
    assert isinstance(result.exception, BadInput | RunRefused), result.output
    return str(result.exception)


def asked(run: RunDir) -> int:
    with Journal.open(run.journal, VirtualClock(), read_only=True) as journal:
        return len(journal.asked(unanswered=False))


def test_a_new_rate_takes_effect_at_once_and_none_lifts_it(live: RunDir) -> None:
    answer = json_of(call(live, "50MB,4=20MiB", "--json"))

    assert answer["accepted"] is True
    assert run_of(live).throttled.rates == parse_throttle_rates("50MB,4=20MiB")
    assert call(live, "none").stdout == ("run drain-b3: lifted: what was set is being put back\n")
    assert run_of(live).throttled.rates == NO_THROTTLE


def test_an_undo_puts_the_last_rate_back(live: RunDir) -> None:
    call(live, "50MB,4=20MiB")
    call(live, "none")

    assert json_of(call(live, "--undo", "--json"))["accepted"] is True
    assert run_of(live).throttled.rates == parse_throttle_rates("50MB,4=20MiB")
    call(live, "--undo")
    assert run_of(live).throttled.rates == NO_THROTTLE
    assert "--undo and RATE exclude each other" in refusal(call(live, "5MB", "--undo"))


@pytest.mark.parametrize(("rate", "waits"), [("60MB", False), ("none", False), ("40MB", True)])
def test_only_a_lower_rate_waits_for_a_look_at_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: str, *, waits: bool
) -> None:
    result = given_to_a_slow_cluster(tmp_path, monkeypatch, rate)

    assert ("did not answer within 5 s" in result.stderr) is waits
    assert "in force" in result.stdout


def test_a_cluster_that_is_slow_to_answer_does_not_hold_back_a_lower_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = given_to_a_slow_cluster(tmp_path, monkeypatch, "40MB")

    assert "warning: ktui could not check whether a copy ends under this rate" in result.stderr
    assert "in force" in result.stdout


def given_to_a_slow_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rate: str) -> Result:
    """Give a rate to a live run under 50 MB/s whose cluster does not answer in time."""

    async def late(*_: object) -> None:
        raise TimeoutError

    cluster = a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]})
    begun, *more = throttled()
    where = {"bootstrap_server": "a:9092"}
    begun = msgspec.structs.replace(begun, connection=where, cluster_id=cluster.spec.name)
    run = a_run(tmp_path, begun, *more)
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setattr(throttle, "check_throttle_permitted", lambda *_: None)
    monkeypatch.setattr(throttle, "take_snapshot", late)
    answer = Answer(accepted=True, words="in force")
    monkeypatch.setattr(RunClient, "send", lambda *_: (1, answer))
    with own_run(run):
        return call(run, rate)


@pytest.mark.parametrize(
    ("rate", "lifted"),
    [
        (("20MB",), "; no longer in force: 400 MB/s in all\n"),
        (("20MB", "--budget", "300MB"), "in flight\n"),
        (("--budget", "none"), "; no longer in force: 400 MB/s in all\n"),
    ],
)
def test_a_rate_that_also_lifts_the_budget_says_so(
    live: RunDir, rate: tuple[str, ...], lifted: str
) -> None:
    call(live, "50MB,total=400MB")

    assert call(live, *rate).stdout.endswith(lifted)


REPLICAS = [(1, 2, 3), (1, 2, 3)]


class Live:
    """A live run, and `ktui throttle` on it."""

    def __init__(self, sandbox: StartSandbox) -> None:
        self.sandbox = sandbox
        self.run = sandbox.state.create_run("drain")
        start_event = started(2, sandbox.cluster_id)
        start_event = msgspec.structs.replace(start_event, connection={"context": "prod-eu"})
        written(self.run.journal, [start_event, planned(2)]).close()

    def lacks(self, not_granted: Collection[tuple[str, str]]) -> None:
        self.sandbox.cluster(a_cluster({"orders": REPLICAS}), not_granted=not_granted)

    def throttle(self, *words: str, run: str = "drain") -> Result:
        words = ("throttle", run, *words, "--state-dir", str(self.sandbox.state.path))
        return CliRunner().invoke(ktui, words)

    @property
    def asked(self) -> list[SetThrottle]:
        with Journal.open(self.run.journal, SystemClock(), read_only=True) as journal:
            commands = [each.command for each in journal.asked(unanswered=False)]
        return [each for each in commands if isinstance(each, SetThrottle)]


@pytest.fixture
def throttle_permissions_live(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Live]:
    found = Live(sandbox)
    answer = Answer(accepted=True, words="done as asked")
    monkeypatch.setattr(RunClient, "_answer", lambda *_: answer)
    with own_run(found.run):
        yield found


def test_an_objective_is_sent_only_if_the_run_s_canary_may_measure_it(
    throttle_permissions_live: Live,
) -> None:
    throttle_permissions_live.lacks([("ktui-canary-felt", "Write")])
    begun = started(2, throttle_permissions_live.sandbox.cluster_id)
    options = msgspec.structs.replace(begun.options, canary=True)
    begun = msgspec.structs.replace(begun, connection={"context": "prod-eu"}, options=options)
    throttle_permissions_live.run = throttle_permissions_live.sandbox.state.create_run("felt")
    written(throttle_permissions_live.run.journal, [begun, planned(2)]).close()

    with own_run(throttle_permissions_live.run):
        refused = throttle_permissions_live.throttle("--slo", "p99<150ms", run="felt")
        assert not throttle_permissions_live.asked
        throttle_permissions_live.throttle("50MB", run="felt")

    assert "Write on topic ktui-canary-felt is not granted" in str(refused.exception)
    assert [command.rates.typed for command in throttle_permissions_live.asked] == ["50MB"]


def test_an_unreachable_cluster_warns_and_still_sends_the_rate(
    throttle_permissions_live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> None:
        raise Unreachable("asking what is permitted", where="broker 1")

    monkeypatch.setattr("support.cli.call_ktui.NamedCluster.permissions", unreachable)

    result = throttle_permissions_live.throttle("50MB")

    assert result.exit_code == 0
    assert "could not check whether this throttle is permitted: " in result.stderr
    assert "asking what is permitted (broker 1): no answer" in result.stderr
    assert len(throttle_permissions_live.asked) == 1


RATED = ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("50MB"))
LIFTED = ThrottleChanged(old=parse_throttle_rates("50MB"), new=NO_THROTTLE)


def two_throttles_a_run(state: StateDir, name: str, *events: AnyRunEvent) -> RunDir:
    run = state.create_run(name)
    written(run.journal, events or throttled()).close()
    return run


def left_standing(cluster_id: str) -> list[AnyRunEvent]:
    """Return the events of a run that has set a rate on broker 4 of a cluster."""
    return [started(2, cluster_id), *throttled()[1:]]


def a_launch(state: StateDir, name: str) -> Launch:
    return Launch(
        state=state,
        name=name,
        cluster_id=started(1).cluster_id,
        names={},
        until=None,
        concurrent=True,
    )


@pytest.mark.parametrize("live", [False, True], ids=["waits for resume", "has lifted its throttle"])
def test_a_run_without_a_throttle_in_force_blocks_no_other_throttle(
    sandbox: StartSandbox, *, live: bool
) -> None:
    first_events: list[AnyRunEvent] = [started(1, sandbox.cluster_id), planned(1), RATED]
    first_events += [LIFTED] if live else []
    other = two_throttles_a_run(sandbox.state, "other", *first_events)
    owned = own_run(other) if live else None

    result = sandbox.start(sandbox.plan(), "--concurrent", "--throttle", "20MB")

    if owned is not None:
        owned.release()
    assert str(result.exception) == "no engine is to be started"


def test_a_lifted_throttle_still_on_a_broker_blocks_another(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    other = two_throttles_a_run(state, "other", *throttled(), LIFTED)

    with own_run(other), pytest.raises(RunRefused, match="run other has a throttle"):
        check_one_throttle(state, started(1).cluster_id, "mine")


def test_a_live_run_is_refused_a_throttle_beside_another(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    other = two_throttles_a_run(state, "other", *left_standing("simulated"))

    with owned_run(state, "mine") as mine, own_run(other):
        refused = call(mine, "20MB")

    assert refused.exit_code == 2
    assert "refused: run other has a throttle" in refused.stderr
    assert "ktui throttle other none" in refused.stderr


def test_a_live_run_is_refused_a_throttle_while_a_dead_run_has_left_its_own(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    two_throttles_a_run(state, "other", *left_standing("simulated"))

    with owned_run(state, "mine") as mine:
        refused = call(mine, "20MB")
        lifted = call(mine, "none")

    assert refused.exit_code == 2
    assert "run other has left its rate on broker 4, and has no engine" in refused.stderr
    assert lifted.exit_code == 0


def test_two_dead_runs_with_throttles_can_both_be_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    monkeypatch.setattr("ktui.cli.process.start_engine", lambda run, _: spawned.append(run.name))
    state = StateDir(tmp_path / "state")
    for name in ("one", "other"):
        two_throttles_a_run(state, name)
        launch_left_run(a_launch(state, name))

    assert spawned == ["one", "other"]


def test_a_run_with_a_throttle_is_not_resumed_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    monkeypatch.setattr("ktui.cli.process.start_engine", lambda run, _: spawned.append(run.name))
    state = StateDir(tmp_path / "state")
    two_throttles_a_run(state, "mine")
    launch = a_launch(state, "mine")
    first_events = msgspec.structs.replace(started(2), plan_sha256="1" * 64)
    other = two_throttles_a_run(state, "other", first_events, *throttled()[1:])

    with own_run(other), pytest.raises(RunRefused, match="run other has a throttle"):
        launch_left_run(launch)
    launch_left_run(launch)

    assert spawned == ["mine"]


@pytest.mark.parametrize(
    ("rates", "words"),
    [
        ("none", "none"),
        ("50MB", "50 MB/s into each broker, leaders too"),
        ("50MB,3=20MB", "50 MB/s into each broker, 20 MB/s into broker 3, leaders too"),
        ("50MB,3=none", "50 MB/s into each broker, none into broker 3, leaders too"),
        ("3=2MB,4=2MB,5=none", "2.0 MB/s into brokers 3 and 4, leaders too"),
    ],
)
def test_rates_are_worded_with_the_brokers_that_they_bind(rates: str, words: str) -> None:
    assert parse_throttle_rates(rates).with_leaders(throttled=True) == words
