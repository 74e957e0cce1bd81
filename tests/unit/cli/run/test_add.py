"""`ktui add`: an extra plan is checked against the cluster and the run before it is added."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cluster.clock import SystemClock
from ktui.execution import RunProblem
from ktui.execution.host import client
from ktui.execution.host.ownership import own_run
from ktui.execution.journal.commands import Add, Answer
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import (
    Added,
    AnyRunEvent,
    OnConflict,
    Planned,
    PlannedPart,
    ThrottleChanged,
)
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.cli.start_sandbox import StartSandbox
from support.golden import ESTIMATED, Golden
from support.journals.journals import ended, owned, started, step, written
from support.simulated.moving_clusters import Replicas, a_cluster

THREE = (1, 2, 3)


class AddSandbox:
    """A run of orders-0 and orders-1, the first of them in flight, and `ktui add` on it."""

    def __init__(self, sandbox: StartSandbox) -> None:
        self.sandbox = sandbox
        sandbox.cluster(a_cluster({"orders": [THREE, THREE], "audit": [THREE, THREE]}))
        self.run = sandbox.state.create_run("drain")
        planned = tuple(Planned("orders", n, "id", (1, 2, 4), THREE, 1) for n in range(2))
        self.write(
            started(2, sandbox.cluster_id), PlannedPart(partitions=planned), owned(), step(0)
        )

    def write(self, *events: AnyRunEvent) -> None:
        if self.run.journal.exists():
            with Journal.open(self.run.journal, SystemClock()) as journal:
                journal.append(events)
        else:
            written(self.run.journal, events).close()

    def throttled(self) -> None:
        self.write(ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("50MB")))

    def lacks(self, *not_granted: tuple[str, str]) -> None:
        """Deny the principal these operations on the same cluster."""
        cluster = a_cluster({"orders": [THREE, THREE], "audit": [THREE, THREE]})
        self.sandbox.cluster(cluster, not_granted=not_granted)

    def add(self, *options: str, **targets: Replicas) -> Result:
        plan = self.sandbox.plan(**targets)
        words = ["add", "drain", plan, "--state-dir", str(self.sandbox.state.path), *options]
        return CliRunner().invoke(ktui, words)

    @property
    def asked(self) -> list[Add]:
        with Journal.open(self.run.journal, SystemClock(), read_only=True) as journal:
            commands = [each.command for each in journal.asked(unanswered=False)]
        return [each for each in commands if isinstance(each, Add)]


@pytest.fixture
def abandoned(sandbox: StartSandbox) -> AddSandbox:
    """A run without an engine."""
    return AddSandbox(sandbox)


@pytest.fixture
def live(abandoned: AddSandbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddSandbox]:
    """A run whose engine accepts every command."""

    def answer(_client: object, _journal: object, _number: int) -> Answer:
        return Answer(accepted=True, words="done as asked")

    monkeypatch.setattr(client.RunClient, "_answer", answer)
    with own_run(abandoned.run):
        yield abandoned


def test_on_conflict_is_sent_with_the_added_plan(live: AddSandbox) -> None:
    live.add("--on-conflict", "retarget", orders_0=(5, 2, 3))

    assert live.asked[0].on_conflict is OnConflict.RETARGET


def test_a_partition_the_run_moves_is_not_reported_as_moved_by_someone_else(
    live: AddSandbox,
) -> None:
    cluster = a_cluster({"orders": [THREE], "audit": [THREE]}, moving=["orders-0"])
    live.sandbox.cluster(cluster)

    added = live.add(orders_0=(5, 2, 3))

    assert added.exit_code == 0, added.output
    assert "someone else" not in added.stderr
    assert "replication factor" not in added.stderr


def test_a_dry_run_of_add_prints_the_preview_of_a_check_and_what_becomes_of_each_partition(
    live: AddSandbox, golden: Golden
) -> None:
    result = live.add("--dry-run", "--json", audit_0=(4, 2, 3), orders_0=(5, 2, 3))

    path = json.loads(result.stdout)["plan"]
    golden.check_json("add", result.stdout.replace(path, "plan.json"), **ESTIMATED)


def test_adding_to_a_run_that_ends_before_it_answers_is_refused_as_ended(
    abandoned: AddSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.0)
    ask = Journal.ask

    def ask_and_end(journal: Journal, *arguments: Any) -> int:
        number = ask(journal, *arguments)
        journal.append([ended(2)])
        return number

    monkeypatch.setattr(Journal, "ask", ask_and_end)
    with own_run(abandoned.run):
        refused = abandoned.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, BadInput)
    assert "ktui start" in str(refused)


def test_a_plan_added_to_an_engine_that_dies_takes_effect_on_resume(
    abandoned: AddSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = own_run(abandoned.run)
    ask = Journal.ask

    def ask_and_die(journal: Journal, *arguments: Any) -> int:
        number = ask(journal, *arguments)
        owner.release()
        return number

    monkeypatch.setattr(Journal, "ask", ask_and_die)
    refused = abandoned.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, RunProblem)
    assert "takes effect when you resume the run: ktui resume drain" in str(refused)
    assert len(abandoned.asked) == 1


def test_an_engine_that_does_not_answer_is_reported_and_the_plan_stays_in_the_journal(
    abandoned: AddSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PATIENCE_S", 0.0)
    with own_run(abandoned.run):
        failed = abandoned.add(audit_0=(4, 2, 3)).exception

    assert isinstance(failed, RunProblem)
    assert "no answer within 0 s" in str(failed)
    assert len(abandoned.asked) == 1


def test_the_rollback_plan_includes_added_partitions(
    live: AddSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_client: object, _journal: object, _number: int) -> Answer:
        (asked,) = live.asked
        more = Added(plan="", plan_sha256="", partitions=1, on_conflict=asked.on_conflict)
        live.write(more, PlannedPart(partitions=asked.partitions))
        return Answer(accepted=True, words="")

    monkeypatch.setattr(client.RunClient, "_answer", answer)

    live.add(audit_0=(4, 2, 3))

    kept = json.loads(live.run.rollback.read_text())["partitions"]
    assert [(each["topic"], each["partition"]) for each in kept] == [
        ("orders", 0),
        ("orders", 1),
        ("audit", 0),
    ]
    assert kept[2]["replicas"] == [1, 2, 3]


def test_status_lists_added_plans_and_the_final_targets(abandoned: AddSandbox) -> None:
    found = Planned("audit", 0, "id", (4, 2, 3), THREE, 1)
    elsewhere = Planned("orders", 0, "id", (5, 2, 3), THREE, 1)
    plan = Added(
        plan="more.json",
        plan_sha256="abc",
        partitions=2,
        on_conflict=OnConflict.ROLLBACK,
        who="ada@ops1 (7)",
    )
    abandoned.write(plan, PlannedPart(partitions=(found, elsewhere)))

    def status(*options: str) -> str:
        words = ["status", "drain", "--state-dir", str(abandoned.sandbox.state.path), *options]
        return CliRunner().invoke(ktui, words).stdout

    result = json.loads(status("--json"))
    (added,) = result["added"]
    assert {**added, "at": ""} == {
        "at": "", "plan": "more.json", "plan_sha256": "abc", "partitions": 2,
        "on_conflict": "rollback", "who": "ada@ops1 (7)",
    }  # fmt: skip
    assert result["partitions"] == 3
    assert result["in_flight"][0]["target"] == [5, 2, 3]
    assert "more.json, 2 partitions" in status()


@pytest.mark.parametrize("operation", ["Alter", "AlterConfigs", "DescribeConfigs"])
def test_a_permission_missing_for_the_added_plan_is_named_and_nothing_is_added(
    live: AddSandbox, operation: str
) -> None:
    live.throttled()
    live.lacks(("cluster", operation))

    refused = live.add(audit_0=(4, 2, 3))

    assert refused.exit_code == 2
    assert f"problem: {operation} on the cluster is not granted" in refused.stderr
    assert f"Grant it with kafka-acls --add --operation {operation} --cluster" in refused.stderr
    assert not live.asked


def test_adding_to_a_run_without_a_throttle_needs_no_permission_to_set_one(
    live: AddSandbox,
) -> None:
    live.lacks(("cluster", "AlterConfigs"))

    assert live.add(audit_0=(4, 2, 3)).exit_code == 0
