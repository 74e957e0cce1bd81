"""`ktui add`: an extra plan is held against the cluster and the run before anything is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.errors import BadInput
from ktui.cli.main import ktui
from ktui.cli.process import send_command
from ktui.cli.run import add
from ktui.cluster.clock import SystemClock
from ktui.execution.cancel.gate import CancelGateFile
from ktui.execution.errors import RunProblem, RunRefused
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir
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
from support.cli.start_desk import Office
from support.journals.journals import ended, owned, started, step, written
from support.simulated.moving_clusters import Replicas, a_cluster

THREE = (1, 2, 3)


class AddDesk:
    """A run of orders-0 and orders-1, the first of them in flight, and `ktui add` on it."""

    def __init__(self, office: Office) -> None:
        self.office = office
        office.cluster(a_cluster({"orders": [THREE, THREE], "audit": [THREE, THREE]}))
        self.run = office.state.create_run("drain")
        planned = tuple(Planned("orders", n, "id", (1, 2, 4), THREE, 1) for n in range(2))
        self.write(started(2, office.cluster_id), PlannedPart(partitions=planned), owned(), step(0))

    def write(self, *events: AnyRunEvent) -> None:
        if self.run.journal.exists():
            with Journal.open(self.run.journal, SystemClock()) as journal:
                journal.append(events)
        else:
            written(self.run.journal, events).close()

    def throttled(self) -> None:
        self.write(ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("50MB")))

    def lacks(self, *not_granted: tuple[str, str]) -> None:
        """Let the principal lack operations on the same cluster."""
        cluster = a_cluster({"orders": [THREE, THREE], "audit": [THREE, THREE]})
        self.office.cluster(cluster, not_granted=not_granted)

    def add(self, *options: str, **targets: Replicas) -> Result:
        plan = self.office.plan(**targets)
        words = ["add", "drain", plan, "--state-dir", str(self.office.state.path), *options]
        return CliRunner().invoke(ktui, words)

    def told(self, *options: str, exit_code: int = 0, **targets: Replicas) -> Any:
        result = self.add(*options, "--json", **targets)
        assert result.exit_code == exit_code, result.output
        return json.loads(result.stdout)

    @property
    def asked(self) -> list[Add]:
        with Journal.open(self.run.journal, SystemClock(), read_only=True) as journal:
            commands = [each.command for each in journal.asked(unanswered=False)]
        return [each for each in commands if isinstance(each, Add)]


@pytest.fixture
def left(office: Office) -> AddDesk:
    """Give a run that nobody carries on."""
    return AddDesk(office)


@pytest.fixture
def live(left: AddDesk, monkeypatch: pytest.MonkeyPatch) -> Iterator[AddDesk]:
    """Give a run that a process owns which takes everything that is asked of it."""

    def answer(_run: RunDir, _number: int) -> Answer:
        return Answer(accepted=True, words="done as asked")

    monkeypatch.setattr(add, "wait_for_answer", answer)
    with own_run(left.run):
        yield left


def test_the_whole_plan_is_asked_for_as_the_cluster_has_it(live: AddDesk) -> None:
    result = live.add(audit_0=(4, 2, 3), orders_1=(5, 2, 3))

    assert result.exit_code == 0, result.output
    assert "run drain: done as asked" in result.stdout
    (asked,) = live.asked
    assert (asked.plan, asked.on_conflict) == ("plan.json", OnConflict.ROLLBACK)
    assert [(each.topic, each.target, each.original) for each in asked.partitions] == [
        ("audit", (4, 2, 3), THREE),
        ("orders", (5, 2, 3), THREE),
    ]
    assert all(each.topic_id and each.size for each in asked.partitions)


def test_what_is_to_become_of_a_conflict_is_asked_for_with_it(live: AddDesk) -> None:
    live.add("--on-conflict", "retarget", orders_0=(5, 2, 3))

    assert live.asked[0].on_conflict is OnConflict.RETARGET


def test_a_plan_with_a_problem_is_told_with_its_place_and_nothing_is_asked(live: AddDesk) -> None:
    refused = live.add(audit_0=(4, 2, 3), ordrs_0=(4, 2, 3))

    assert refused.exit_code == 2
    assert "plan.json:3:12: problem: the cluster has no topic ordrs" in refused.stderr
    assert "the plan was not added" in refused.stderr
    assert not live.asked


def test_a_change_of_the_replication_factor_has_to_be_allowed_by_name(live: AddDesk) -> None:
    refused = live.add(audit_0=(4, 2, 3, 5))

    assert refused.exit_code == 2
    assert "--allow-replication-factor-change" in refused.stderr
    assert live.add("--allow-replication-factor-change", audit_0=(4, 2, 3, 5)).exit_code == 0
    assert len(live.asked) == 1


def test_what_the_run_moves_is_nobody_elses_and_has_as_many_replicas_as_before(
    live: AddDesk,
) -> None:
    cluster = a_cluster({"orders": [THREE], "audit": [THREE]}, moving=["orders-0"])
    live.office.cluster(cluster)

    added = live.add(orders_0=(5, 2, 3))

    assert added.exit_code == 0, added.output
    assert "someone else" not in added.stderr
    assert "replication factor" not in added.stderr


def test_what_someone_else_moves_is_warned_of(live: AddDesk) -> None:
    live.office.cluster(a_cluster({"orders": [THREE], "audit": [THREE]}, moving=["audit-0"]))

    added = live.add(audit_0=(5, 2, 3))

    assert "warning: someone else is reassigning audit-0" in added.stderr


def test_there_is_nothing_to_do_where_the_run_goes_there_already(live: AddDesk) -> None:
    idle = live.add(orders_0=(1, 2, 4), orders_1=(1, 2, 4))

    assert idle.exit_code == 0
    assert "nothing to do: 2 are at that target or on the way there already" in idle.stderr
    assert not live.asked


def test_there_is_nothing_to_do_where_all_conflicts_keep_their_target(live: AddDesk) -> None:
    idle = live.told("--on-conflict", "keep", orders_0=(5, 2, 3))

    assert idle["answer"] is None
    assert idle["counts"]["keep"] == 1
    assert not live.asked


def test_a_dry_run_names_what_becomes_of_each_and_asks_for_nothing(live: AddDesk) -> None:
    told = live.add("--dry-run", audit_0=(4, 2, 3), orders_0=(5, 2, 3), orders_1=(1, 2, 4))

    assert told.exit_code == 0, told.output
    assert (
        "in run drain: 1 joins the queue, 1 is rolled back first, then queued, 1 is at that target "
        "or on the way there already\n"
        "  orders-0  roll back: 1,2,4 in the run, 5,2,3 in the plan\n"
    ) in told.stdout
    assert told.stdout.endswith("Nothing was changed.\n")
    assert not live.asked


def test_a_dry_run_tells_a_script_the_same(live: AddDesk) -> None:
    told = live.told(
        "--dry-run", "--on-conflict", "retarget", audit_0=(4, 2, 3), orders_0=(5, 2, 3)
    )

    assert told["schema_version"] == 1
    assert (told["run"], told["on_conflict"]) == ("drain", "retarget")
    assert told["counts"] == {
        "new": 1, "again": 0, "instead": 0, "roll back": 0, "retarget": 1, "keep": 0, "same": 0,
    }  # fmt: skip
    assert told["joinings"][1] == {
        "topic": "orders", "partition": 0, "joining": "retarget", "state": "adding",
        "target": [5, 2, 3], "run_target": [1, 2, 4],
    }  # fmt: skip
    assert told["preflight"]["batches"] > 0
    assert not live.asked


def test_the_answer_is_told_to_a_script(live: AddDesk) -> None:
    told = live.told(audit_0=(4, 2, 3))

    assert told["answer"]["accepted"] is True
    assert told["answer"]["words"] == "done as asked"
    assert told["problems"] == []


def test_an_ended_run_takes_no_plan_and_start_is_named(left: AddDesk) -> None:
    left.write(ended(2))

    refused = left.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, BadInput)
    assert "run drain has ended. Start the plan as a run of its own: ktui start " in str(refused)


def test_a_run_that_nobody_carries_on_is_to_be_resumed_first(left: AddDesk) -> None:
    refused = left.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, BadInput)
    assert "run drain has no engine" in str(refused)
    assert str(refused).endswith("ktui resume drain")
    assert not left.asked


def test_while_the_cancel_gate_is_shut_nothing_is_added(live: AddDesk) -> None:
    gate = CancelGateFile(live.office.state, live.office.cluster_id)
    gate.shut(SystemClock().now(), "ada@ops1 (7)", "stop all of run drain")

    refused = live.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, RunRefused)
    assert "ada@ops1 (7)" in str(refused)
    assert "ktui cancel drain --remove-cancel" in str(refused)
    assert not live.asked


def test_another_cluster_is_refused(live: AddDesk) -> None:
    live.office.cluster(a_cluster({"audit": [THREE]}, name="other"))

    refused = live.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, RunRefused)
    assert "is cluster other, but the run belongs to cluster" in str(refused)


def test_a_run_that_ends_before_it_answers_is_told_as_ended(
    left: AddDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_command, "PATIENCE_S", 0.0)
    ask = Journal.ask

    def ask_and_end(journal: Journal, *arguments: Any) -> int:
        number = ask(journal, *arguments)
        journal.append([ended(2)])
        return number

    monkeypatch.setattr(Journal, "ask", ask_and_end)
    with own_run(left.run):
        refused = left.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, BadInput)
    assert "ktui start" in str(refused)


def test_of_a_run_whose_process_dies_before_it_answers_it_is_said_that_the_plan_is_written_down(
    left: AddDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = own_run(left.run)
    ask = Journal.ask

    def ask_and_die(journal: Journal, *arguments: Any) -> int:
        number = ask(journal, *arguments)
        owner.release()
        return number

    monkeypatch.setattr(Journal, "ask", ask_and_die)
    refused = left.add(audit_0=(4, 2, 3)).exception

    assert isinstance(refused, RunProblem)
    assert "takes effect when you resume the run: ktui resume drain" in str(refused)
    assert len(left.asked) == 1


def test_an_owner_that_does_not_answer_is_told_with_what_becomes_of_it(
    left: AddDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(send_command, "PATIENCE_S", 0.0)
    with own_run(left.run):
        silent = left.add(audit_0=(4, 2, 3)).exception

    assert isinstance(silent, RunProblem)
    assert "no answer within 0 s" in str(silent)
    assert len(left.asked) == 1


def test_the_way_back_that_is_kept_beside_the_journal_has_what_was_added(
    live: AddDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_run: RunDir, _number: int) -> Answer:
        (asked,) = live.asked
        more = Added(plan="", plan_sha256="", partitions=1, on_conflict=asked.on_conflict)
        live.write(more, PlannedPart(partitions=asked.partitions))
        return Answer(accepted=True, words="")

    monkeypatch.setattr(add, "wait_for_answer", answer)

    live.add(audit_0=(4, 2, 3))

    kept = json.loads(live.run.rollback.read_text())["partitions"]
    assert [(each["topic"], each["partition"]) for each in kept] == [
        ("orders", 0),
        ("orders", 1),
        ("audit", 0),
    ]
    assert kept[2]["replicas"] == [1, 2, 3]


def test_the_status_of_a_run_names_what_was_added_and_where_it_goes_in_the_end(
    left: AddDesk,
) -> None:
    found = Planned("audit", 0, "id", (4, 2, 3), THREE, 1)
    elsewhere = Planned("orders", 0, "id", (5, 2, 3), THREE, 1)
    plan = Added(
        plan="more.json",
        plan_sha256="abc",
        partitions=2,
        on_conflict=OnConflict.ROLLBACK,
        who="ada@ops1 (7)",
    )
    left.write(plan, PlannedPart(partitions=(found, elsewhere)))

    def status(*options: str) -> str:
        words = ["status", "drain", "--state-dir", str(left.office.state.path), *options]
        return CliRunner().invoke(ktui, words).stdout

    told = json.loads(status("--json"))
    (added,) = told["added"]
    assert {**added, "at": ""} == {
        "at": "", "plan": "more.json", "plan_sha256": "abc", "partitions": 2,
        "on_conflict": "rollback", "who": "ada@ops1 (7)",
    }  # fmt: skip
    assert told["partitions"] == 3
    assert told["in_flight"][0]["target"] == [5, 2, 3]
    assert "more.json, 2 partitions" in status()


@pytest.mark.parametrize("operation", ["Alter", "AlterConfigs", "DescribeConfigs"])
def test_a_permission_that_the_run_lacks_for_the_plan_is_named_and_nothing_is_asked(
    live: AddDesk, operation: str
) -> None:
    live.throttled()
    live.lacks(("cluster", operation))

    refused = live.add(audit_0=(4, 2, 3))

    assert refused.exit_code == 2
    assert f"problem: {operation} on the cluster is not granted" in refused.stderr
    assert f"Grant it with kafka-acls --add --operation {operation} --cluster" in refused.stderr
    assert not live.asked


def test_what_sets_a_throttle_is_not_needed_for_a_run_that_has_none(live: AddDesk) -> None:
    live.lacks(("cluster", "AlterConfigs"))

    assert live.add(audit_0=(4, 2, 3)).exit_code == 0


def test_what_another_principal_lacks_than_that_of_the_run_is_only_warned_of(
    live: AddDesk,
) -> None:
    live.lacks(("cluster", "Alter"))

    told = live.add("--bootstrap-server", "elsewhere:9092", audit_0=(4, 2, 3))

    assert told.exit_code == 0
    assert "warning: Alter on the cluster is not granted" in told.stderr
