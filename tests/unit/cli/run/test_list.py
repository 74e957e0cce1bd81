"""What `ktui list`, `insights` and `schedule` print."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from ktui.cli.main import ktui
from ktui.cli.run.runs import insights_text
from ktui.cli.run.status import PROGRESS_S, RunLines
from ktui.cluster.clock import SystemClock
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, Noted, StateEntered
from ktui.execution.run.states import State
from ktui.insights import (
    NAME,
    NOTHING,
    ClusterInsights,
    Insights,
    Prior,
    RateCurve,
    encode,
    sections,
)
from ktui.simulated import layout
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import TopicSpec
from support.cli.call_ktui import Done, NamedCluster, call_ktui
from support.cli.golden_runs import printed
from support.cli.shell import owned_run
from support.cli.start_sandbox import PlanSandbox
from support.cli.throttle_sandbox import throttled
from support.golden import FOLDER, Golden
from support.journals.journals import a_start, accepted, over, owned, step, written
from support.pipeline.report_facts import AT, RATE, insights, of_cluster
from support.simulated.moving_clusters import a_cluster


def name_cluster(monkeypatch: pytest.MonkeyPatch, cluster: SimulatedCluster) -> None:
    named = NamedCluster(reader=cluster.reader, writer=cluster.writer, groups=cluster.memberships)
    monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)
    monkeypatch.setattr("ktui.cli.run.list.SystemClock", lambda: cluster.clock)


@pytest.mark.parametrize("denied", ["", "describe_quorum"])
@pytest.mark.parametrize("words", [("--topic", "new"), ("--partition", "new:0")])
def test_a_topic_that_brokers_have_yet_to_learn_of_is_asked_for_again_and_not_called_missing(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], denied: str
) -> None:
    cluster = SimulatedCluster(a_cluster().spec, VirtualClock(leaping=True))
    cluster.do(layout.CreateTopic(TopicSpec(name="new", replicas=((1, 2, 3),))))
    cluster.do(layout.Deny(denied))  # without it a cluster does not prove how old metadata is
    name_cluster(monkeypatch, cluster)

    found = CliRunner().invoke(ktui, ["list", *words], catch_exceptions=False)

    assert found.stdout == "Nothing of what you asked for is being reassigned.\n"


def insights_ktui(*args: str, state: Path) -> Done:
    return call_ktui("insights", "--state-dir", str(state), *args)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / NAME).write_bytes(encode(insights("prod", "test")))
    return tmp_path


def test_a_cluster_without_insights_gets_the_way_to_make_them(tmp_path: Path) -> None:
    printed = insights_ktui(state=tmp_path / "nowhere")
    assert printed.returncode == 0
    assert printed.stdout.strip() == NOTHING


def test_insights_report_that_a_throttle_held_every_copy_up() -> None:
    curve = RateCurve(most_bytes_s=50e6, half_at=0.0, most_at_once=1, known_to=5e6)
    prior = Prior(RATE, step_s=2.0, curve=curve, runs=3)
    first = next(sections(msgspec.structs.replace(of_cluster(), prior=prior)))
    assert "a throttle of at most 5.0 MB/s held every copy up" in first.title


def test_advice_names_the_promise_that_chose_the_rates_of_the_run() -> None:
    of = of_cluster()
    driven = msgspec.structs.replace(of.advice[0], driven_by="by")
    *_, table, _ = sections(msgspec.structs.replace(of, advice=(driven,)))
    assert "4m 50s, as --by chose" in table.rows[0]


def test_advice_says_why_and_which_of_its_figures_are_assumed() -> None:
    of = of_cluster()
    assumed = msgspec.structs.replace(of.advice[0], assumed=("no time beside copying",))
    printed = insights_text(
        Insights(clusters=(msgspec.structs.replace(of, advice=(assumed, of.advice[0])),))
    )
    assert printed.count("assumed, for no recording shows it: no time beside copying") == 1
    assert "the fewest at once of the 12 that fit 5m" in printed
    assert "assumed" not in insights_text(Insights(clusters=(of,)))


def test_insights_are_printed_for_every_cluster(state: Path) -> None:
    printed = insights_ktui(state=state).stdout
    assert "cluster prod: 3 runs, 72 moves" in printed
    assert "cluster test: " in printed
    assert "a replica is copied at 40 MB/s (10 MB/s to 50 MB/s)" in printed
    assert "100 MiB to 1.0 GiB" in printed
    assert "target broker down      2  3m 10s" in printed
    assert "--replicas 1 --partitions 4 --throttle 50MB" in printed


def test_insights_can_be_printed_for_one_cluster(state: Path) -> None:
    printed = insights_ktui("--cluster", "test", state=state).stdout
    assert "cluster test: " in printed
    assert "cluster prod" not in printed
    unknown = insights_ktui("--cluster", "other", state=state)
    assert unknown.returncode == 2
    assert "there are no insights for it. Known clusters: prod, test" in unknown.stderr


def test_json_of_insights_is_the_file_itself(state: Path) -> None:
    printed = json.loads(insights_ktui("--json", state=state).stdout)
    assert printed == json.loads((state / NAME).read_text())
    none = json.loads(insights_ktui("--json", state=state / "nowhere").stdout)
    assert none["schema_version"] == 1
    assert none["clusters"] == []


def test_insights_of_a_lake_or_a_file_are_printed_on_request(state: Path, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert "cluster prod" in insights_ktui("--lake", str(state), state=nowhere).stdout
    assert "cluster prod" in insights_ktui(str(state / NAME), state=nowhere).stdout
    both = insights_ktui("--lake", str(state), str(state / NAME), state=nowhere)
    assert both.returncode == 2
    missing = insights_ktui(str(nowhere), state=nowhere)
    assert missing.returncode == 2
    assert "there is no such file" in missing.stderr


def test_insights_of_a_new_cluster_have_no_empty_tables() -> None:
    one = ClusterInsights(cluster_id="new", runs=0, moves=0)
    printed = insights_text(Insights(made_at=AT, version="0.1.0", clusters=(one,)))
    assert printed.splitlines()[2:] == [
        "cluster new: 0 runs, 0 moves",
        "",
        "too little was copied to estimate a rate",
    ]


def test_ktui_insights_loads_no_library_of_the_pipeline(state: Path) -> None:
    script = (
        "import sys; from ktui.cli.main import ktui; "
        f"ktui(['insights', '--state-dir', {str(state)!r}], standalone_mode=False); "
        "print(sorted({'pyspark', 'pyarrow', 'pandas'} & sys.modules.keys()))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert printed.stdout.splitlines()[-1] == "[]"


@pytest.fixture
def folder(tmp_path: Path) -> RunDir:
    run = StateDir(tmp_path / "state").create_run("drain")
    written(run.journal, [*a_start(2), owned()]).close()
    return run


def happen(folder: RunDir, *events: AnyRunEvent) -> None:
    with Journal.open(folder.journal, VirtualClock()) as journal:
        journal.append(events)


def words(lines: list[str]) -> list[str]:
    """Return lines without their times of day."""
    return [line.split(" ", 1)[1] if line[2:3] == ":" else line for line in lines]


def test_each_change_is_one_line_and_what_happened_before_is_not_repeated(folder: RunDir) -> None:
    lines = RunLines(RunClient(folder), VirtualClock())
    with own_run(folder):
        first = words(lines.begin())
        happen(folder, step(0), accepted(0), over(0), Noted(text="\x1b[2Jhi", who="ada@ops1 (1)"))
        then = words(lines.next())
        nothing = lines.next()

        assert first == ["drain: 0 of 2 done, 2 queued"]
        assert then == [
            "orders-0: batch 1: 1,2,3 -> 1,2,3,4 (+4)",
            "orders-0: step finished: 1,2,3,4, leader 1",
            "note: \\x1b[2Jhi, by ada@ops1 (1)",
        ]
        assert nothing == []
        assert not lines.over
    lines.close()


def test_progress_is_a_line_now_and_then_where_it_has_changed(folder: RunDir) -> None:
    clock = VirtualClock()
    lines = RunLines(RunClient(folder), clock)
    with own_run(folder):
        lines.begin()
        clock.pass_time(PROGRESS_S)
        unchanged = lines.next()
        happen(folder, StateEntered(topic="orders", partition=0, state=State.DONE))
        soon = words(lines.next())
        clock.pass_time(PROGRESS_S)
        later = words(lines.next())

    assert unchanged == []
    assert soon == ["orders-0: done"]
    assert [line.split(",")[0] for line in later] == ["drain: 1 of 2 done"]
    lines.close()


PRINTED = printed()


@pytest.mark.parametrize("name", PRINTED)
def test_what_programs_read_of_a_run_is_what_the_file_has(name: str, golden: Golden) -> None:
    """If this fails, tests/support/cli/golden_runs.py explains what to do."""
    check = golden.check if name == "metrics.prom" else golden.check_json
    check(name, PRINTED[name])


@pytest.mark.parametrize(
    ("verb", "name"),
    [
        (("status", "drain"), "status.json"),
        (("runs",), "runs.json"),
        (("throttle", "drain"), "throttle.json"),
        (("schedule", "drain"), "schedule.json"),
    ],
)
def test_each_verb_prints_the_fields_of_its_file_in_their_order(
    tmp_path: Path, verb: tuple[str, ...], name: str
) -> None:
    kept_file = Path(__file__).parent / FOLDER / name
    state = StateDir(tmp_path / "state")
    run = state.create_run("drain")
    written(run.journal, [*throttled(), step(1), accepted(1)]).close()

    done = CliRunner().invoke(ktui, [*verb, "--json", "--state-dir", str(state.path)])

    now, kept = json.loads(done.stdout), json.loads(kept_file.read_text(encoding="utf-8"))
    assert list(now) == list(kept)
    for part in ("runs", "in_flight", "throttle", "schedule"):
        assert _fields(now.get(part)) == _fields(kept.get(part))


def _fields(value: Any) -> list[str]:
    return list(value[0] if isinstance(value, list) else value or ())


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunDir]:
    with owned_run(StateDir(tmp_path_factory.mktemp("state"))) as run:
        yield run


def call(run: RunDir, *arguments: str) -> Result:
    state = str(run.path.parent.parent)
    return CliRunner().invoke(ktui, ["schedule", run.name, "--state-dir", state, *arguments])


def answer(result: Result) -> Any:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_the_schedule_of_a_live_run_is_shown_changed_in_part_and_lifted(live: RunDir) -> None:
    assert call(live).stdout == "steps of drain-b3 begin at any time\n"

    call(live, "--window", "22:00-05:00,sun,sat")
    in_two_days = SystemClock().now().astimezone() + timedelta(days=2)
    start_at = in_two_days.replace(hour=12, minute=0, second=0, microsecond=0)  # in no window
    said = call(live, "--start-at", start_at.isoformat(), "--while", "/bin/true now")

    shown = f"{start_at.astimezone():%Y-%m-%d %H:%M}"
    scheduled = f"from {shown}, in 22:00-05:00,Sat,Sun, while /bin/true now succeeds"
    assert f"in force: {scheduled}" in said.stdout
    assert call(live).stdout.startswith(f"steps of drain-b3 begin {scheduled}\nnow: its window, ")
    shown_json = answer(call(live, "--json"))
    schedule = shown_json["schedule"]
    assert (schedule["window"], schedule["while_command"]) == (
        "22:00-05:00,Sat,Sun",
        "/bin/true now",
    )
    assert shown_json["begins_at"] >= schedule["start_at"]

    call(live, "--window", "none", "--while", "none", "--start-at", "none")
    lifted = answer(call(live, "--json"))
    assert lifted["schedule"] == {"start_at": None, "window": "", "while_command": "", "by": None}
    assert lifted["begins_at"] is None


def test_a_time_by_which_a_run_is_to_be_done_is_named_and_lifted(live: RunDir) -> None:
    before = SystemClock().now()
    assert call(live, "--within", "1h30m").exit_code == 0

    by = answer(call(live, "--json"))["schedule"]["by"]
    assert 5_399 <= (datetime.fromisoformat(by) - before).total_seconds() <= 5_460
    shown = f"{datetime.fromisoformat(by).astimezone():%Y-%m-%d %H:%M}"
    assert f"begin at any time; done by {shown}" in call(live).stdout

    call(live, "--by", "none")
    assert answer(call(live, "--json"))["schedule"]["by"] is None


def test_a_dry_run_says_when_steps_begin_and_when_the_run_is_expected_to_end(
    plan_sandbox: PlanSandbox,
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))
    in_two_days = SystemClock().now().astimezone() + timedelta(days=2)
    start_at = in_two_days.replace(hour=12, minute=0, second=0, microsecond=0)  # in no window
    options = ["--context", "prod-eu", "--start-at", start_at.isoformat(), "--dry-run"]

    text = CliRunner().invoke(ktui, ["start", plan, *options]).stdout
    shape = json.loads(CliRunner().invoke(ktui, ["start", plan, *options, "--json"]).stdout)

    assert f"steps begin from {start_at.astimezone():%Y-%m-%d %H:%M}; the plan is expected" in text
    assert shape["begins_at"] == shape["schedule"]["start_at"]
    assert shape["ends_at"] > shape["schedule"]["start_at"]


@pytest.mark.parametrize(
    ("within", "words"), [("10d", "there is room to go slower"), ("1s", "that is too early, ")]
)
def test_a_dry_run_says_whether_the_time_can_be_kept(
    plan_sandbox: PlanSandbox, within: str, words: str
) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    plan = plan_sandbox.plan(orders_0=(4, 2, 3))
    options = ["--context", "prod-eu", "--within", within, "--dry-run"]

    text = CliRunner().invoke(ktui, ["start", plan, *options]).stdout

    assert "done by " in text
    assert words in text
