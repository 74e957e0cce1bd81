"""`ktui start` sends nothing and leaves no run behind when it is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ktui.execution.errors import JournalProblem
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.host.ownership import own_run
from ktui.execution.run.events import AnyRunEvent, StateEntered
from ktui.execution.run.states import State
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import a_start, ended, planned, started, written
from support.simulated.moving_clusters import a_cluster

CORPUS = Path(__file__).parents[2] / "planning" / "corpus"
BAD_PLANS = [
    entry.split("\n", 1)[0] for entry in (CORPUS / "problems.txt").read_text().strip().split("\n\n")
]


@pytest.mark.parametrize("name", sorted(BAD_PLANS))
def test_starting_a_bad_plan_lists_all_its_mistakes_and_creates_no_run(
    sandbox: StartSandbox, name: str
) -> None:
    result = sandbox.start(str(CORPUS / name))

    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{CORPUS / name}:" in result.stderr
    assert sandbox.runs == []


def test_starting_a_plan_that_the_cluster_cannot_take_shows_the_place(
    sandbox: StartSandbox,
) -> None:
    plan = sandbox.plan(orders_0=(4, 2, 77))

    result = sandbox.start(plan)

    assert result.exit_code == 2
    assert f"{plan}:2:" in result.stderr
    assert "the cluster has no broker 77" in result.stderr
    assert sandbox.runs == []


def test_starting_a_change_of_the_replication_factor_needs_its_option(
    sandbox: StartSandbox,
) -> None:
    plan = sandbox.plan(orders_0=(4, 2))

    refused = sandbox.start(plan)
    allowed = sandbox.start(plan, "--dry-run", "--allow-replication-factor-change")

    assert refused.exit_code == 2
    assert "--allow-replication-factor-change allows it" in refused.stderr
    assert allowed.exit_code == 0


def test_starting_a_plan_with_nothing_to_do_creates_no_run(sandbox: StartSandbox) -> None:
    result = sandbox.start(sandbox.plan(orders_0=(1, 2, 3)))

    assert result.exit_code == 0
    assert "nothing to do" in result.stderr
    assert sandbox.runs == []


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
def test_an_unusable_start_option_is_refused_with_the_fix(
    sandbox: StartSandbox, options: tuple[str, ...], words: str
) -> None:
    assert words in sandbox.refusal(sandbox.plan(), *options)
    assert sandbox.runs == []


def test_a_plan_with_a_file_name_that_is_not_utf8_can_be_started(sandbox: StartSandbox) -> None:
    plan = Path(sandbox.plan()).rename(sandbox.state.path.parent / "be\udcffore.json")

    result = sandbox.start(str(plan), "--name", "before")

    assert str(result.exception) == "no engine is to be started"
    (run,) = all_runs(sandbox.state)
    assert run.plan == "be\\udcffore.json"


def test_client_settings_with_a_file_name_that_is_not_utf8_are_refused(
    sandbox: StartSandbox, tmp_path: Path
) -> None:
    settings = tmp_path / "be\udcffore.properties"
    settings.touch()

    output = sandbox.refusal(sandbox.plan(), "--command-config", str(settings))

    assert output.startswith("--command-config ")
    assert output.endswith("is not UTF-8, so the run cannot store it. Rename it")
    assert sandbox.runs == []


def test_a_read_only_context_refuses_a_start(sandbox: StartSandbox) -> None:
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), read_only=True)

    assert "is read_only: nothing may be changed" in sandbox.refusal(sandbox.plan())
    assert sandbox.runs == []


def test_the_limits_of_a_context_apply_unless_an_option_overrides_them(
    sandbox: StartSandbox,
) -> None:
    limits = {"reassignment.parallel.replica.count": 2, "partitions": 7, "shape": "kip-435"}
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), limits=limits)

    output = json.loads(
        sandbox.start(sandbox.plan(), "--dry-run", "--json", "--partitions", "none").stdout
    )["limits"]

    assert (output["replicas"], output["partitions"], output["shape"]) == (2, None, "kip-435")


def test_starting_a_second_run_of_the_same_name_is_refused(sandbox: StartSandbox) -> None:
    written(sandbox.state.create_run("plan").journal, a_start()).close()

    assert "there is a run plan already" in sandbox.refusal(sandbox.plan())


def test_a_dry_run_needs_no_name_of_its_own(sandbox: StartSandbox) -> None:
    written(sandbox.state.create_run("plan").journal, a_start()).close()

    result = sandbox.start(sandbox.plan(), "--dry-run")

    assert result.exit_code == 0, result.stderr
    assert "there is a run" not in result.stderr


@pytest.mark.parametrize(
    ("cluster_id", "done", "expected"),
    [(None, (), True), (None, (0,), False), ("elsewhere", (), False)],
    ids=["its partition left", "its partition done", "another cluster"],
)
def test_a_start_warns_of_an_unfinished_run_over_the_same_partitions(
    sandbox: StartSandbox, cluster_id: str | None, done: tuple[int, ...], *, expected: bool
) -> None:
    over: list[AnyRunEvent] = [
        StateEntered(topic="orders", partition=n, state=State.DONE) for n in done
    ]
    first: list[AnyRunEvent] = [started(2, cluster_id or sandbox.cluster_id), planned(2)]
    written(sandbox.state.create_run("killed").journal, [*first, *over]).close()
    (sandbox.state.create_run("broken").journal).write_text("no journal")
    written(sandbox.state.create_run("ended").journal, [*first, ended(2)]).close()

    output = sandbox.start(sandbox.plan()).stderr

    line = "warning: run killed is waiting for resume, with 1 partition of this plan left to move"
    assert (line in output) is expected
    assert output.count("is waiting for resume") == expected


def test_a_second_run_on_a_cluster_is_refused_with_the_live_one_named(
    sandbox: StartSandbox,
) -> None:
    run = sandbox.state.create_run("other")
    written(run.journal, [started(1, sandbox.cluster_id), planned(1)]).close()

    with own_run(run) as owned:
        output = sandbox.refusal(sandbox.plan())
        concurrent = sandbox.start(sandbox.plan(), "--concurrent")

    assert f"run other, owned by process {owned.holder.pid}" in output
    assert "--concurrent" in output
    assert "The limits of both add up" in concurrent.stderr
    assert str(concurrent.exception) == "no engine is to be started"


def test_a_live_run_on_another_cluster_does_not_block_a_start(sandbox: StartSandbox) -> None:
    run = sandbox.state.create_run("other")
    written(run.journal, [started(1, "elsewhere"), planned(1)]).close()

    with own_run(run):
        result = sandbox.start(sandbox.plan())

    assert str(result.exception) == "no engine is to be started"


def test_a_start_whose_journal_cannot_be_written_creates_no_run(
    sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise JournalProblem("the disk is full")

    monkeypatch.setattr("ktui.execution.host.launch.Journal.append", full)

    assert str(sandbox.start(sandbox.plan()).exception) == "the disk is full"
    assert sandbox.runs == []


def test_ktui_start_warns_of_unverified_tls(sandbox: StartSandbox) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    sandbox.cluster(cluster, unverified=("config.yaml: ssl.this=none: whoever",))

    output = sandbox.start(sandbox.plan())

    assert output.stderr.splitlines()[0] == (
        "warning: TLS unverified: config.yaml: ssl.this=none: whoever"
    )
    assert str(output.exception) == "no engine is to be started"


def test_a_dry_run_of_a_start_lists_the_steps_by_batch(sandbox: StartSandbox) -> None:
    plan = sandbox.plan(orders_0=(4, 2, 3), orders_1=(4, 2, 3))

    output = sandbox.start(plan, "--dry-run", "--partitions", "1", "--shape", "kip-435")

    assert output.exit_code == 0
    lines = output.stdout.splitlines()
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
    assert sandbox.runs == []


def test_a_dry_run_of_a_plan_that_the_cluster_cannot_take_fails(sandbox: StartSandbox) -> None:
    output = sandbox.start(sandbox.plan(orders_0=(4, 2, 77)), "--dry-run")

    assert output.exit_code == 2
    assert "the cluster has no broker 77" in output.stdout
