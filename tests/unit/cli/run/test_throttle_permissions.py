"""A throttle that a live run is not permitted to set is refused before its process is asked."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import Unreachable
from ktui.execution.host.ownership import own_run
from ktui.execution.journal.commands import Answer, SetThrottle
from ktui.execution.journal.journal import Journal
from support.cli.start_desk import Office
from support.journals.journals import planned, started, written
from support.simulated.moving_clusters import a_cluster

REPLICAS = [(1, 2, 3), (1, 2, 3)]


class Live:
    """A run that a process owns, and `ktui throttle` on it."""

    def __init__(self, office: Office) -> None:
        self.office = office
        self.run = office.state.create_run("drain")
        begun = started(2, office.cluster_id)
        begun = msgspec.structs.replace(begun, connection={"context": "prod-eu"})
        written(self.run.journal, [begun, planned(2)]).close()

    def lacks(self, not_granted: Collection[tuple[str, str]]) -> None:
        self.office.cluster(a_cluster({"orders": REPLICAS}), not_granted=not_granted)

    def throttle(self, rate: str) -> Result:
        words = ["throttle", "drain", rate, "--state-dir", str(self.office.state.path)]
        return CliRunner().invoke(ktui, words)

    @property
    def asked(self) -> list[SetThrottle]:
        with Journal.open(self.run.journal, SystemClock(), read_only=True) as journal:
            commands = [each.command for each in journal.asked(unanswered=False)]
        return [each for each in commands if isinstance(each, SetThrottle)]


@pytest.fixture
def live(office: Office, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    found = Live(office)
    answer = Answer(accepted=True, words="done as asked")
    monkeypatch.setattr("ktui.cli.process.send_command.wait_for_answer", lambda *_: answer)
    with own_run(found.run):
        yield found


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        (("cluster", "AlterConfigs"), "AlterConfigs on the cluster is not granted"),
        (("cluster", "DescribeConfigs"), "DescribeConfigs on the cluster is not granted"),
        (("orders", "AlterConfigs"), "AlterConfigs on topic orders is not granted"),
    ],
)
def test_a_rate_that_may_not_be_set_is_refused_by_the_permission_and_nothing_is_asked(
    live: Live, missing: tuple[str, str], named: str
) -> None:
    live.lacks([missing])

    told = live.throttle("50MB")

    assert isinstance(told.exception, BadInput), told.output
    assert str(told.exception).startswith("run drain is unchanged: ")
    assert named in str(told.exception)
    assert f"Grant it with kafka-acls --add --operation {missing[1]} --" in str(told.exception)
    assert not live.asked


def test_a_throttle_is_lifted_without_a_look_at_permissions(live: Live) -> None:
    live.lacks([("cluster", "AlterConfigs")])

    assert live.throttle("none").exit_code == 0
    assert len(live.asked) == 1


def test_the_rate_is_asked_for_where_all_is_granted(live: Live) -> None:
    told = live.throttle("50MB")

    assert (told.exit_code, told.stderr) == (0, "")
    assert len(live.asked) == 1


def test_a_cluster_that_does_not_answer_here_does_not_keep_the_rate_from_the_run(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def silent(*_: object) -> None:
        raise Unreachable("asking what is permitted", where="broker 1")

    monkeypatch.setattr("support.cli.named_cluster.NamedCluster.permissions", silent)

    told = live.throttle("50MB")

    assert told.exit_code == 0
    assert "could not check whether this throttle is permitted: " in told.stderr
    assert "asking what is permitted (broker 1): no answer" in told.stderr
    assert len(live.asked) == 1


def test_permissions_on_another_cluster_than_the_run_is_of_mean_nothing(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    live.lacks([("cluster", "AlterConfigs")])
    begun = msgspec.structs.replace(started(2, "another"), connection={"context": "prod-eu"})
    run = live.office.state.create_run("other")
    written(run.journal, [begun, planned(2)]).close()
    monkeypatch.setattr(live, "run", run)

    with own_run(run):
        words = ["throttle", "other", "50MB", "--state-dir", str(live.office.state.path)]
        told = CliRunner().invoke(ktui, words)

    assert told.exit_code == 0, told.output
    assert "could not check whether this throttle is permitted" in told.stderr
    assert len(live.asked) == 1
