"""`ktui start` sends nothing and leaves no run behind when it is refused."""

from pathlib import Path

import pytest

from ktui.execution import JournalProblem
from ktui.execution.forecast.run_progress import all_runs
from ktui.execution.run.events import AnyRunEvent, StateEntered
from ktui.execution.run.states import State
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import ended, planned, started, written
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
