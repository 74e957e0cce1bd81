"""`ktui start` sends nothing, and leaves no run behind, when something is wrong beforehand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktui.execution.errors import JournalProblem
from ktui.execution.host.catalog import all_runs
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import AnyRunEvent, StateEntered
from ktui.execution.run.states import State
from support.cli.start_desk import Office
from support.journals.journals import a_start, ended, planned, started, written
from support.simulated.moving_clusters import a_cluster

CORPUS = Path(__file__).parents[2] / "planning" / "corpus"
BAD_PLANS = [
    entry.split("\n", 1)[0] for entry in (CORPUS / "told.txt").read_text().strip().split("\n\n")
]


@pytest.mark.parametrize("name", sorted(BAD_PLANS))
def test_a_bad_plan_is_told_with_all_its_mistakes_and_makes_no_run(
    office: Office, name: str
) -> None:
    result = office.start(str(CORPUS / name))

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{CORPUS / name}:" in result.stderr
    assert office.runs == []


def test_a_plan_that_the_cluster_cannot_take_is_told_with_its_place(office: Office) -> None:
    plan = office.plan(orders_0=(4, 2, 77))

    result = office.start(plan)

    assert result.exit_code == 2
    assert f"{plan}:2:" in result.stderr
    assert "the cluster has no broker 77" in result.stderr
    assert office.runs == []


def test_a_changed_replication_factor_has_to_be_allowed(office: Office) -> None:
    plan = office.plan(orders_0=(4, 2))

    refused = office.start(plan)
    allowed = office.start(plan, "--dry-run", "--allow-replication-factor-change")

    assert refused.exit_code == 2
    assert "--allow-replication-factor-change allows it" in refused.stderr
    assert allowed.exit_code == 0


def test_a_plan_with_nothing_to_do_is_said_to_be_so(office: Office) -> None:
    result = office.start(office.plan(orders_0=(1, 2, 3)))

    assert result.exit_code == 0
    assert "nothing to do" in result.stderr
    assert office.runs == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--replicas", "0"), "--replicas: 0 is too small"),
        (("--shape", "kip-435", "--cut-together", "4"), "it has no effect in shape kip-435"),
        (("--stall-timeout", "soon"), "--stall-timeout: expected a time"),
        (("--stall-timeout", "29s"), "give 30 s or more. A stall shows only after 30 s"),
        (("--poll", "1h"), "--poll: give a time from 0.1s to 60s"),
        (("--until", "25:00"), "--until '25:00': is not a time"),
        (("--name", "../up"), 'no run can be named "../up"'),
    ],
)
def test_an_option_that_cannot_be_used_is_named_with_the_fix(
    office: Office, options: tuple[str, ...], words: str
) -> None:
    assert words in office.refusal(office.plan(), *options)
    assert office.runs == []


def test_a_plan_whose_files_name_is_no_text_is_started_all_the_same(office: Office) -> None:
    plan = Path(office.plan()).rename(office.state.path.parent / "be\udcffore.json")

    result = office.start(str(plan), "--name", "before")

    assert str(result.exception) == "no engine is to be started"
    (run,) = all_runs(office.state)
    assert run.plan == "be\\udcffore.json"


def test_settings_whose_files_name_is_no_text_are_refused(office: Office, tmp_path: Path) -> None:
    settings = tmp_path / "be\udcffore.properties"
    settings.touch()

    told = office.refusal(office.plan(), "--command-config", str(settings))

    assert told.startswith("--command-config ")
    assert told.endswith("is not UTF-8, so the run cannot store it. Rename it")
    assert office.runs == []


def test_in_a_read_only_context_nothing_is_started(office: Office) -> None:
    office.cluster(a_cluster({"orders": [(1, 2, 3)]}), read_only=True)

    assert "is read_only: nothing may be changed" in office.refusal(office.plan())
    assert office.runs == []


def test_the_limits_of_a_context_hold_where_no_option_says_otherwise(office: Office) -> None:
    limits = {"reassignment.parallel.replica.count": 2, "partitions": 7, "shape": "kip-435"}
    office.cluster(a_cluster({"orders": [(1, 2, 3)]}), limits=limits)

    told = json.loads(
        office.start(office.plan(), "--dry-run", "--json", "--partitions", "none").stdout
    )["limits"]

    assert (told["replicas"], told["partitions"], told["shape"]) == (2, None, "kip-435")


def test_a_second_run_of_the_same_name_is_pointed_to_resume(office: Office) -> None:
    written(office.state.create_run("plan").journal, a_start()).close()

    assert "there is a run plan already" in office.refusal(office.plan())


def test_a_dry_run_needs_no_name_of_its_own(office: Office) -> None:
    written(office.state.create_run("plan").journal, a_start()).close()

    result = office.start(office.plan(), "--dry-run")

    assert result.exit_code == 0, result.stderr
    assert "there is a run" not in result.stderr


@pytest.mark.parametrize(
    ("cluster_id", "done", "warned"),
    [(None, (), True), (None, (0,), False), ("elsewhere", (), False)],
    ids=["its partition left", "its partition done", "another cluster"],
)
def test_a_run_that_waits_for_resume_over_the_same_partitions_is_warned_of(
    office: Office, cluster_id: str | None, done: tuple[int, ...], *, warned: bool
) -> None:
    over: list[AnyRunEvent] = [
        StateEntered(topic="orders", partition=n, state=State.DONE) for n in done
    ]
    first: list[AnyRunEvent] = [started(2, cluster_id or office.cluster_id), planned(2)]
    written(office.state.create_run("killed").journal, [*first, *over]).close()
    (office.state.create_run("broken").journal).write_text("no journal")
    written(office.state.create_run("ended").journal, [*first, ended(2)]).close()

    told = office.start(office.plan()).stderr

    line = "warning: run killed is waiting for resume, with 1 partition of this plan left to move"
    assert (line in told) is warned
    assert told.count("is waiting for resume") == warned


def test_a_second_run_on_a_cluster_is_refused_and_names_the_live_one(office: Office) -> None:
    run = office.state.create_run("other")
    written(run.journal, [started(1, office.cluster_id), planned(1)]).close()

    with own_run(run) as owned:
        told = office.refusal(office.plan())
        beside = office.start(office.plan(), "--concurrent")

    assert f"run other, owned by process {owned.holder.pid}" in told
    assert "--concurrent" in told
    assert "The limits of both add up" in beside.stderr
    assert str(beside.exception) == "no engine is to be started"


def test_a_run_on_another_cluster_is_in_nobodys_way(office: Office) -> None:
    run = office.state.create_run("other")
    written(run.journal, [started(1, "elsewhere"), planned(1)]).close()

    with own_run(run):
        result = office.start(office.plan())

    assert str(result.exception) == "no engine is to be started"


def test_without_a_journal_there_is_no_run(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise JournalProblem("the disk is full")

    monkeypatch.setattr("ktui.execution.host.launch.Journal.append", full)

    assert str(office.start(office.plan()).exception) == "the disk is full"
    assert office.runs == []


def test_whoever_starts_is_told_what_tls_does_not_verify(office: Office) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    office.cluster(cluster, unverified=("config.yaml: ssl.this=none: whoever",))

    told = office.start(office.plan())

    assert told.stderr.splitlines()[0] == (
        "warning: TLS unverified: config.yaml: ssl.this=none: whoever"
    )
    assert str(told.exception) == "no engine is to be started"


def test_a_dry_run_tells_the_steps_batch_for_batch(office: Office) -> None:
    plan = office.plan(orders_0=(4, 2, 3), orders_1=(4, 2, 3))

    told = office.start(plan, "--dry-run", "--partitions", "1", "--shape", "kip-435")

    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    batches = [line for line in lines if line.startswith("batch ")]
    assert [line.partition(", after")[0] for line in batches] == [
        "batch 1", "batch 2", "batch 3", "batch 4"
    ]  # fmt: skip
    steps = [line.split() for line in lines if line.startswith("  orders-")]
    assert steps == [
        ["orders-0", "4,2,3,1", "+4", "elect", "4"],
        ["orders-0", "4,2,3", "-1"],
        ["orders-1", "4,2,3,1", "+4", "elect", "4"],
        ["orders-1", "4,2,3", "-1"],
    ]
    assert lines[-1] == "Nothing was sent."
    assert office.runs == []


def test_a_dry_run_of_a_plan_that_the_cluster_cannot_take_says_so(office: Office) -> None:
    told = office.start(office.plan(orders_0=(4, 2, 77)), "--dry-run")

    assert told.exit_code == 2
    assert "the cluster has no broker 77" in told.stdout
