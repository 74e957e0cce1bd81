"""A throttle that a live run may not set is refused before its engine is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import Unreachable
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.execution.journal.commands import Answer, SetThrottle
from ktui.execution.journal.journal import Journal
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import planned, started, written
from support.simulated.moving_clusters import a_cluster

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
def live(sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    found = Live(sandbox)
    answer = Answer(accepted=True, words="done as asked")
    monkeypatch.setattr(RunClient, "_answer", lambda *_: answer)
    with own_run(found.run):
        yield found


@pytest.mark.parametrize(
    ("missing", "permission"),
    [
        (("cluster", "AlterConfigs"), "AlterConfigs on the cluster is not granted"),
        (("cluster", "DescribeConfigs"), "DescribeConfigs on the cluster is not granted"),
        (("orders", "AlterConfigs"), "AlterConfigs on topic orders is not granted"),
    ],
)
def test_a_rate_without_permission_is_refused_with_the_permission_and_not_sent(
    live: Live, missing: tuple[str, str], permission: str
) -> None:
    live.lacks([missing])

    result = live.throttle("50MB")

    assert isinstance(result.exception, BadInput), result.output
    assert str(result.exception).startswith("run drain is unchanged: ")
    assert permission in str(result.exception)
    assert f"Grant it with kafka-acls --add --operation {missing[1]} --" in str(result.exception)
    assert not live.asked


def test_lifting_a_throttle_checks_no_permission(live: Live) -> None:
    live.lacks([("cluster", "AlterConfigs")])

    assert live.throttle("none").exit_code == 0
    assert len(live.asked) == 1


def test_a_rate_is_sent_to_the_engine_with_full_permissions(live: Live) -> None:
    result = live.throttle("50MB")

    assert (result.exit_code, result.stderr) == (0, "")
    assert len(live.asked) == 1


def test_an_objective_is_sent_only_if_the_run_s_canary_may_measure_it(live: Live) -> None:
    live.lacks([("ktui-canary-felt", "Write")])
    begun = started(2, live.sandbox.cluster_id)
    options = msgspec.structs.replace(begun.options, canary=True)
    begun = msgspec.structs.replace(begun, connection={"context": "prod-eu"}, options=options)
    live.run = live.sandbox.state.create_run("felt")
    written(live.run.journal, [begun, planned(2)]).close()

    with own_run(live.run):
        refused = live.throttle("--slo", "p99<150ms", run="felt")
        assert not live.asked
        live.throttle("50MB", run="felt")

    assert "Write on topic ktui-canary-felt is not granted" in str(refused.exception)
    assert [command.rates.typed for command in live.asked] == ["50MB"]


def test_an_unreachable_cluster_warns_and_still_sends_the_rate(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> None:
        raise Unreachable("asking what is permitted", where="broker 1")

    monkeypatch.setattr("support.cli.named_cluster.NamedCluster.permissions", unreachable)

    result = live.throttle("50MB")

    assert result.exit_code == 0
    assert "could not check whether this throttle is permitted: " in result.stderr
    assert "asking what is permitted (broker 1): no answer" in result.stderr
    assert len(live.asked) == 1


def test_permissions_on_another_cluster_are_ignored(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.lacks([("cluster", "AlterConfigs")])
    start_event = msgspec.structs.replace(started(2, "another"), connection={"context": "prod-eu"})
    run = live.sandbox.state.create_run("other")
    written(run.journal, [start_event, planned(2)]).close()
    monkeypatch.setattr(live, "run", run)

    with own_run(run):
        words = ["throttle", "other", "50MB", "--state-dir", str(live.sandbox.state.path)]
        result = CliRunner().invoke(ktui, words)

    assert result.exit_code == 0, result.output
    assert "could not check whether this throttle is permitted" in result.stderr
    assert len(live.asked) == 1
