"""`ktui rehearse`: its input, its report, and the command that it ends with."""

import asyncio
import json
import re
import shlex
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from msgspec.structs import replace

from ktui.cli.context.config import Context
from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.cli.options.throttle import complete_limits
from ktui.cli.rehearsal_report import on_own_loop
from ktui.cli.rehearse import StartCommand
from ktui.cli.rehearse_live import LivePlan
from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.execution.host.state_dir import StateDir, resolve_state_dir
from ktui.execution.run.options import NO_SCHEDULE, Schedule
from ktui.insights import encode
from ktui.pacing.limits import Limits, default_limits, parse_broker_limits
from ktui.recording.reading import find_sessions
from ktui.rehearsal.summary import Settings
from ktui.rehearsal.twin import FAULT_FORMS, load_twin, parse_fault
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from support.cli.call_ktui import NamedCluster, call_ktui
from support.pipeline.report_facts import insights

TWIN = """\
title: A twin
cluster: {name: prod-id, brokers: 4, disk: 10GiB}
topics:
  orders: {replicas: [[1, 2, 3], [2, 3, 1]], size: 200MB, inbound: 1kB/s}
"""


def plan(*targets: tuple[int, list[int]], topic: str = "orders") -> str:
    partitions = [{"topic": topic, "partition": n, "replicas": each} for n, each in targets]
    return json.dumps({"version": 1, "partitions": partitions})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "twin.yaml").write_text(TWIN, encoding="utf-8")
    (tmp_path / "plan.json").write_text(plan((0, [1, 2, 4])), encoding="utf-8")
    return tmp_path


def rehearse(*options: str) -> Any:
    return call_ktui("rehearse", "plan.json", "--on", "twin.yaml", *options)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 0),
        (("--max-time", "1m", "--max-inflow", "100MB", "--min-room", "10%"), 0),
        (("--max-time", "2s"), 3),
        (("--max-inflow", "99MB"), 3),
        (("--min-room", "10GiB"), 3),
        (("--min-room", "99.5%"), 3),
        (("--rate", "20MB/s", "--event", "delete orders at 30%"), 3),
    ],
)
def test_the_exit_code_is_0_if_all_holds_on_each_twin_else_3(
    here: Path, options: tuple[str, ...], code: int
) -> None:
    del here

    assert rehearse(*options).returncode == code


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--event", "kil 4 at 10%"), "Did you mean `kill`?"),
        (("--max-time", "soon"), "--max-time"),
        (("--min-room", "110%"), "--min-room"),
        (("--while", "true"), "--while"),
        (("--slo", "p99<150ms", "--sli-command", "true"), "--canary"),
        (("--replicas", "0"), "--replicas"),
        (("--throttle", "fast"), "--throttle"),
        (("--speed", "20", "--max-time", "1h"), "--speed"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(
    here: Path, options: tuple[str, ...], named: str
) -> None:
    del here

    done = rehearse(*options)

    assert (done.returncode, done.stdout) == (2, "")
    assert named in done.stderr


def test_what_a_start_would_refuse_is_refused_by_the_same_words(here: Path) -> None:
    (here / "plan.json").write_text(plan((0, [1, 2, 9]), (1, [2, 3])), encoding="utf-8")

    done = rehearse()

    assert (done.returncode, done.stdout) == (2, "")
    assert "problem: the cluster has no broker 9" in done.stderr
    assert "--allow-replication-factor-change allows it" in done.stderr


def test_a_plan_at_its_target_has_nothing_to_rehearse(here: Path) -> None:
    (here / "plan.json").write_text(plan((0, [1, 2, 3])), encoding="utf-8")

    done = rehearse()

    assert (done.returncode, done.stdout) == (0, "")
    assert "nothing to do" in done.stderr


def test_the_json_names_the_twins_their_rates_and_each_threshold(here: Path) -> None:
    del here

    done = rehearse("--json", "--max-time", "2s", "--event", "load x2 at 50%")

    found = json.loads(done.stdout)
    assert (done.returncode, found["schema_version"], found["simulated"]) == (3, 1, True)
    assert (found["plan"], found["twin"]) == ("plan.json", "twin.yaml")
    assert found["cluster_id"] == "simulated-prod-id"
    assert found["rates"] == {"slow": 40e6, "usual": 100e6, "fast": 200e6, "from": "assumed"}
    assert [twin["pace"] for twin in found["twins"]] == ["slow", "usual", "fast"]
    assert [(each["threshold"], each["holds"]) for each in found["checks"]] == [
        ("to the end", True),
        ("--max-time", False),
    ]
    times = [twin["summary"]["time_s"] for twin in found["twins"]]
    assert times == sorted(times, reverse=True)
    usual = found["twins"][1]["summary"]
    assert (usual["done"], usual["bytes_copied"], usual["ended_by"]) == (1, 200_000_000, "run")
    assert [len(usual[key]) for key in ("stops", "faults", "missed")] == [9, 1, 0]
    assert usual["faults"][0]["stop"]["in_flight"] == 200_000_000


def test_a_given_rate_is_exact_and_needs_one_twin(here: Path) -> None:
    del here

    done = rehearse("--json", "--rate", "40MB/s")

    found = json.loads(done.stdout)
    assert found["rates"] == {"slow": 40e6, "usual": 40e6, "fast": 40e6, "from": "given"}
    assert [twin["pace"] for twin in found["twins"]] == ["usual"]


def test_the_report_says_that_it_is_simulated_and_ends_with_the_verdict_and_the_start(
    here: Path,
) -> None:
    del here

    done = rehearse("--max-inflow", "1GB", "--event", "kill 3 at 50%")

    lines = done.stdout.splitlines()
    verdict, start = done.stdout.rstrip().split("\n\n")[-2:]
    assert lines[0] == "plan.json on simulated twins, twin.yaml. Nothing was sent."
    assert lines[2].startswith("Limits: R 1, ")
    assert lines[3] == "Throttle: none"
    meanings = lines[lines.index("What the limits mean:") + 1 :]
    assert meanings[0] == "  R: replicas of one partition added at once"
    assert "  gentle: add all new replicas, then remove the old ones together" in meanings
    killed = next(line for line in lines if line.startswith("kill 3 at 50%: after "))
    assert killed.endswith(". In the 1m 30s that followed:")
    assert [line.split(": ")[0] for line in verdict.splitlines()] == [
        "the plan would be carried out on every twin",
        "--max-inflow holds on the fast twin",
    ]
    assert start.splitlines()[1:] == ["  ktui start plan.json"]


def test_a_rehearsal_that_ends_before_its_plan_says_so_and_its_start_has_the_same_options(
    here: Path,
) -> None:
    del here
    soon = (datetime.now(UTC) + timedelta(minutes=1)).isoformat(timespec="seconds")

    done = rehearse(
        *("--json", "--rate", "1MB/s", "--until", soon, "--throttle", "900kB/s"),
        *("--on-stall", "cancel", "--stall-timeout", "2m", "--no-urgent-first"),
        "--allow-below-min-isr",
    )

    found = json.loads(done.stdout)
    summary = found["twins"][0]["summary"]
    assert (done.returncode, summary["ended_by"], summary["done"]) == (3, "left", 0)
    assert summary["settings"]["throttle"] == "900kB"
    assert summary["settings"]["limits"]["replicas"] == 1
    (start,) = found["start"]
    assert shlex.split(start)[:3] == ["ktui", "start", "plan.json"]
    kept = "--on-stall cancel", "--stall-timeout 2m", "--no-urgent-first"
    for words in (f"--until {soon}", "--throttle 900kB", *kept):
        assert words in start
    assert "--rate" not in start


def test_a_recording_bears_no_id_of_a_real_cluster_so_no_forecast_of_one_takes_it(
    here: Path,
) -> None:
    done = rehearse("--record", "kept", "--rate", "100MB/s")

    (session,) = find_sessions(here / "kept")
    assert done.returncode == 0
    assert session.head.cluster_id == "simulated-prod-id"
    assert session.head.cluster == "twin.yaml (simulated)"
    assert "recorded, as a simulated cluster: kept/simulated-prod-id/" in done.stdout


@pytest.mark.parametrize(
    ("options", "speed"),
    [
        ((), 10.0),
        (("--speed", "50", "--record", "kept"), 50.0),
        (("--headless",), None),
        (("--max-time", "1h"), None),
    ],
)
def test_on_a_terminal_the_view_shows_it_unless_a_report_is_asked_for(
    here: Path, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], speed: float | None
) -> None:
    del here
    shown: list[float] = []
    monkeypatch.setattr("ktui.cli.rehearse.has_terminal", lambda: True)

    def show(live: LivePlan, at_speed: float) -> str:
        shown.append(at_speed)
        return f"the report of {live.plan}"

    monkeypatch.setattr("ktui.cli.rehearse_live.show_rehearsal", show)

    done = rehearse("--rate", "100MB/s", *options)

    assert done.returncode == 0
    assert shown == ([] if speed is None else [speed])
    assert (done.stdout == "the report of plan.json\n") is (speed is not None)


CLUSTER = ClusterSpec(
    name="prod-id",
    brokers=tuple(BrokerSpec(id=b) for b in range(1, 6)),
    topics=(
        TopicSpec(name="orders", replicas=((1, 2), (2, 3)), bytes_each=200 * MIB, inbound=1e6),
    ),
)
PLAN = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 4]}]}


class Rehearsing:
    """A cluster that is named on the command line, with a plan for it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.state = folder / "state"
        monkeypatch.setenv("KTUI_STATE_DIR", str(self.state))
        monkeypatch.chdir(folder)
        (folder / "plan.json").write_text(json.dumps(PLAN), encoding="utf-8")
        clock = VirtualClock(leaping=True)
        self.cluster = SimulatedCluster(CLUSTER, clock)
        monkeypatch.setattr("ktui.cli.snapshot.SystemClock", lambda: clock)
        self.use(Context())

    def use(self, context: Context) -> None:
        named = NamedCluster(reader=self.cluster.reader, context=context)
        self._monkeypatch.setattr("ktui.cli.context.cluster.choose_cluster", lambda *_: named)

    def rehearse(self, *words: str) -> Result:
        return CliRunner().invoke(ktui, ["rehearse", "plan.json", *words])

    def answer(self, *words: str) -> Any:
        result = self.rehearse("--json", *words)
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)


@pytest.fixture
def rehearsing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rehearsing:
    return Rehearsing(tmp_path, monkeypatch)


def test_a_plan_is_rehearsed_on_the_cluster_as_it_is_and_nothing_is_sent(
    rehearsing: Rehearsing,
) -> None:
    found = rehearsing.answer("--context", "prod-eu")

    assert (found["twin"], found["cluster_id"]) == ("prod-eu", "simulated-prod-id")
    assert found["rates"]["from"] == "assumed"
    assert [twin["summary"]["done"] for twin in found["twins"]] == [1, 1, 1]
    assert rehearsing.cluster.controller.topics["orders"].partitions[0].replicas == (1, 2)


def test_its_rates_are_those_of_recorded_runs(rehearsing: Rehearsing) -> None:
    rehearsing.state.mkdir()
    known = insights("prod-id")
    (rehearsing.state / "insights.json").write_bytes(encode(known))

    found = rehearsing.answer("--measure", "0")

    assert found["rates"]["from"] == "recorded"


def test_the_throttle_of_the_context_holds_as_for_a_start(rehearsing: Rehearsing) -> None:
    free = rehearsing.answer("--rate", "100MB/s")
    rehearsing.use(Context(throttle="5MB/s"))
    throttled = rehearsing.answer("--rate", "100MB/s")

    times = [found["twins"][0]["summary"]["time_s"] for found in (free, throttled)]
    assert times[1] > 2 * times[0]


def test_a_file_and_a_cluster_exclude_each_other(rehearsing: Rehearsing) -> None:
    for words in (("--context", "prod-eu"), ("--measure", "10s")):
        refused = rehearsing.rehearse("--on", "twin.yaml", *words)

        assert isinstance(refused.exception, BadInput)
        assert f"{words[0]}: with --on, nothing is read" in str(refused.exception)


def test_a_target_on_a_cordoned_broker_is_refused_by_the_twin_of_a_cluster_that_refuses_it(
    rehearsing: Rehearsing,
) -> None:
    cordon = ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)
    rehearsing.cluster.configure([cordon])

    result = rehearsing.rehearse("--measure", "0")

    assert result.exit_code == 2
    assert "problem: broker 4 is cordoned, and Kafka refuses every target that" in result.stderr


START = StartCommand(
    path=Path("plan.json"),
    given=(),
    context=Context(),
    state=resolve_state_dir(None),
    exclude_internal=False,
)


def command(
    limits: Limits, throttle: str = "none", *, schedule: Schedule = NO_SCHEDULE, **start: Any
) -> tuple[str, ...]:
    """Return the commands for some settings, and for what else the command line named."""
    settings = Settings(limits=limits, throttle=throttle, schedule=schedule, changes=())
    return replace(START, **start).lines(settings)


@pytest.mark.parametrize(
    ("of_context", "given", "options"),
    [
        ({}, {}, ""),
        ({}, {"partitions": 5}, " --partitions 5"),
        ({}, {"bytes-per-broker": "none"}, " --bytes-per-broker none"),
        (
            {},
            {"bytes-per-broker": "64MiB", "partitions": 5},
            " --partitions 5 --bytes-per-broker 64MiB",
        ),
        ({}, {"shape": "kip-435"}, " --shape kip-435"),
        ({"partitions": 8}, {}, ""),
        ({"partitions": 8}, {"partitions": "none"}, " --partitions none"),
        ({"pace": "quiet"}, {"pace": "quiet"}, ""),
    ],
)
def test_only_limits_that_would_not_hold_anyway_are_named(
    of_context: dict[str, object], given: dict[str, int | str | None], options: str
) -> None:
    limits = complete_limits(of_context, given)

    (line,) = command(limits, context=Context(limits=of_context))
    assert line == f"ktui start plan.json{options}"


@pytest.mark.parametrize(
    ("of_context", "throttle", "options"),
    [
        (None, "30MB,3=20MB", " --throttle 30MB,3=20MB"),
        ("30MB/s", "30MB", ""),
        ("30MB/s", "none", " --throttle none"),
        (None, "none", ""),
    ],
)
def test_the_throttle_is_that_of_the_end(
    of_context: str | None, throttle: str, options: str
) -> None:
    (line,) = command(default_limits(), throttle, context=Context(throttle=of_context))

    assert line == f"ktui start plan.json{options}"


def test_leaders_are_not_throttled_without_a_rate() -> None:
    given = ("--context", "prod", "--throttle-leaders")

    assert command(default_limits(), "1MB", given=given) == (
        "ktui start plan.json --context prod --throttle-leaders --throttle 1MB",
    )
    assert command(default_limits(), given=given) == ("ktui start plan.json --context prod",)


def test_names_are_quoted_and_what_a_run_gets_later_has_a_command_of_its_own(
    tmp_path: Path,
) -> None:
    limits = parse_broker_limits({3: {"per-broker": 4, "per-leader": "none"}}, default_limits())
    schedule = Schedule(by=datetime(2026, 11, 25, 22, tzinfo=UTC), window="22:00-05:00,Sat")

    start, after = command(
        limits,
        schedule=schedule,
        path=Path("tonight's plan.json"),
        state=StateDir(tmp_path),
        exclude_internal=True,
    )

    assert start.startswith("ktui start 'tonight'\"'\"'s plan.json' --internal exclude --window ")
    assert "--window 22:00-05:00,Sat --by 2026-11-2" in start
    assert start.endswith(f" --state-dir {tmp_path}")
    assert after == (
        "ktui limits tonight-s-plan --broker 3 --per-broker 4 --per-leader none"
        f" --state-dir {tmp_path}"
    )


PAGE = (Path(__file__).parents[4] / "docs" / "rehearsing.md").read_text(encoding="utf-8")
PAGE_TWIN, JOB = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
(PAGE_PLAN,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
BREAKING = PAGE.split("## Breaking it")[1].split("\n## ")[0]
EVENTS = re.findall(r"^\| `([^`]+)` \|", BREAKING, re.MULTILINE)


@pytest.fixture
def twin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prod.yaml").write_text(PAGE_TWIN, encoding="utf-8")
    (tmp_path / "plan.json").write_text(PAGE_PLAN, encoding="utf-8")
    return tmp_path / "prod.yaml"


def test_the_documented_check_of_a_pull_request_passes_with_the_documented_twin(twin: Path) -> None:
    assert twin.exists()
    steps = yaml.safe_load(JOB)["jobs"]["rehearse"]["steps"]
    command = shlex.split(steps[-1]["run"])

    done = call_ktui(*command[1:])

    assert command[:2] == ["ktui", "rehearse"]
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" holds on the ") == 3


@pytest.mark.parametrize("event", EVENTS)
def test_every_documented_event_can_be_used(event: str, twin: Path) -> None:
    assert parse_fault(f"{event} at 10%", load_twin(twin).spec).acts


def test_every_event_is_documented() -> None:
    verbs = {form.split()[0] for form in FAULT_FORMS if form != "KEY TOPIC=VALUE"}

    assert verbs == {event.split()[0] for event in EVENTS} - {"min.insync.replicas"}


async def test_the_result_comes_from_another_thread() -> None:
    async def work() -> str:
        await asyncio.sleep(0)
        return threading.current_thread().name

    assert await on_own_loop(work) != threading.current_thread().name


async def test_who_stops_waiting_ends_the_work() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.create_task(on_own_loop(work))
    await asyncio.to_thread(begun.wait)
    waiting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended.is_set()
