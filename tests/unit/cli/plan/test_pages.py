"""What `ktui plan` prints beside the plan: pages, JSON, permissions and time."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from ktui.cli.engine_log import AfterPoll
from ktui.cli.plan.make import COMMANDS
from ktui.cluster.observer import ObservationSource
from ktui.execution.host.kept import KeptSpeed
from ktui.execution.host.state_dir import StateDir
from ktui.execution.run.run import Run
from ktui.pacing.limits import Limits
from ktui.simulated.clock import VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.speed.shown import SpeedShown
from support.cli.start_sandbox import PlanSandbox, StartSandbox, answer, check, cluster, plan
from support.golden import ESTIMATED, FOLDER, Golden
from support.runs.engine_runs import PlannedRun
from support.simulated.moving_clusters import a_cluster, tp

PAGE = (Path(__file__).parents[4] / "docs" / "plans.md").read_text(encoding="utf-8")


def shown_below(first_line: str) -> str:
    """Return the output that the page shows below a command."""
    found = re.search(rf"```\n\$ {re.escape(first_line)}\n(.*?)```", PAGE, re.DOTALL)
    assert found is not None
    return found[1]


def test_plan_check_prints_the_answer_that_the_page_shows(
    plan_sandbox: PlanSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    plan_sandbox.cluster(
        a_cluster(
            {"orders": orders, "payments": [(1, 2, 3)], "audit": [(1, 2)]}, brokers=range(1, 6)
        )
    )
    monkeypatch.chdir(tmp_path)
    plan = re.search(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert plan is not None
    Path("plan.json").write_text(plan[1], encoding="ascii")

    result = check("plan.json", "--steps")

    assert result.stdout == shown_below("ktui plan check plan.json --context prod-eu --steps")


def test_plan_check_prints_the_mistakes_that_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.json").write_text(
        '{"version": 1, "partitions": [\n'
        '  {"topic": "orders", "partition": 0, "replica": [4, 2, 3]},\n'
        '  {"topic": "orders", "partition": 1, "replicas": [2, 2, 4]},\n'
        "]}\n",
        encoding="ascii",
    )

    assert check("bad.json").stderr == shown_below("ktui plan check bad.json")


INTENTS_PAGE_PAGE = (Path(__file__).parents[4] / "docs" / "intents.md").read_text(encoding="utf-8")


def test_plan_drain_prints_the_summary_that_the_page_shows(
    plan_sandbox: PlanSandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_sandbox.cluster(cluster())
    monkeypatch.chdir(tmp_path)
    shown = re.search(r"```\n\$ ktui plan (drain [^\n]+)\n(.*?)```", INTENTS_PAGE_PAGE, re.DOTALL)
    assert shown is not None

    result = plan(*shown[1].split())

    assert (result.exit_code, result.stderr) == (3, shown[2])


@pytest.mark.parametrize("verb", [command.name for command in COMMANDS])
def test_the_page_says_what_each_verb_promises(verb: str) -> None:
    assert f"| `ktui plan {verb}" in INTENTS_PAGE_PAGE
    assert re.search(rf"\*\*`{verb}[ `]", INTENTS_PAGE_PAGE)


def test_plan_check_prints_the_preview_itself(plan_sandbox: PlanSandbox, golden: Golden) -> None:
    plan_sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    file = plan_sandbox.plan(orders_0=(4, 2, 3, 5))

    result = check(file, "--json", "--steps")

    assert result.exit_code == 2
    golden.check_json("check", result.stdout.replace(file, "plan.json"), **ESTIMATED)


def test_a_dry_run_prints_the_same_preview_with_its_batches(
    sandbox: StartSandbox, golden: Golden
) -> None:
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}))
    file = sandbox.plan(orders_0=(4, 2, 3))

    result = sandbox.start(file, "--dry-run", "--json", "--throttle", "10MB")

    golden.check_json("dry-run", result.stdout.replace(file, "plan.json"), **ESTIMATED)


def test_a_plan_that_is_made_comes_with_the_same_preview(
    plan_sandbox: PlanSandbox, golden: Golden
) -> None:
    plan_sandbox.cluster(cluster())

    result = plan("drain", "3", "--topics", "payments", "--max-moves", "1", "--json")

    assert result.exit_code == 3, result.output
    golden.check_json("drain", result.stdout, **ESTIMATED)


@pytest.mark.parametrize("name", ["check", "dry-run", "drain", "../../run/golden/add"])
def test_every_preview_has_the_keys_of_a_check(name: str) -> None:
    folder = Path(__file__).parent / FOLDER
    shown = json.loads((folder / f"{name}.json").read_text())
    keys = json.loads((folder / "check.json").read_text()).keys() - {"partitions"}

    assert keys <= shown.get("preview", shown).keys()


CANARY = ("--slo", "p99<150ms", "--canary", "--name", "night")


def test_a_start_whose_canary_has_no_use_of_its_topic_is_refused_with_the_reason(
    sandbox: StartSandbox,
) -> None:
    refusal = "POLICY_VIOLATION: topics have an owner"
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), canary_refusal=refusal)

    result = sandbox.start(sandbox.plan(), *CANARY)

    assert result.exit_code == 2
    assert f"problem: topic ktui-canary-night cannot be used: {refusal}" in result.stderr


def test_a_canary_without_an_objective_needs_no_permission_yet(sandbox: StartSandbox) -> None:
    not_granted = [("ktui-canary-drain", "Create")]
    sandbox.cluster(a_cluster({"orders": [(1, 2, 3)]}), not_granted=not_granted, canary=True)

    assert str(sandbox.start(sandbox.plan()).exception) == "no engine is to be started"


BEFORE, AFTER = (1, 2, 3), (4, 2, 3)
PARTITIONS = 6
LIMITS = ("--partitions", "2", "--pace", "fast")
WITHIN = 0.25


class KeptRun(PlannedRun):
    """A run of six partitions of a topic, whose engine keeps what it has shown."""

    def __init__(self, cluster: SimulatedCluster, state: StateDir, topic: str) -> None:
        folder = state.create_run(topic)
        targets = {tp(f"{topic}-{number}"): AFTER for number in range(PARTITIONS)}
        super().__init__(cluster, folder.path, targets, Limits(partitions=2))
        self._kept = KeptSpeed(folder, self.clock, self._shown)

    def _shown(self) -> SpeedShown | None:
        return None if self.engine is None else self.engine.speed_shown

    def through(self, source: ObservationSource) -> ObservationSource:
        """Keep now and then what the engine has shown."""
        return AfterPoll(source, self._kept.write_if_due)

    def carried_to_its_end(self) -> float:
        """Carry the run out as its process does, and return the seconds that it took."""
        began_s = self.clock.monotonic()
        assert asyncio.run(self.to_its_end()).ended
        self._kept.write()
        return self.clock.monotonic() - began_s

    def killed_after(self, seconds: float) -> Run:
        """Let the engine die on the way: it writes nothing in the end."""
        return asyncio.run(self._killed_after(seconds))

    async def _killed_after(self, seconds: float) -> Run:
        await self.start()
        going = asyncio.create_task(self.execute())
        await self.clock.sleep(seconds)
        going.cancel()
        await asyncio.gather(going, return_exceptions=True)
        return self.run


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


@pytest.fixture
def known_speed_cluster(plan_sandbox: PlanSandbox) -> SimulatedCluster:
    """Return a cluster whose brokers take in 8 MB/s; it holds 200 MB in each partition."""
    topics = {topic: [BEFORE] * PARTITIONS for topic in ("orders", "billing")}
    spec = a_cluster(topics, messages=200_000, copied_s=8_000.0).spec
    made = SimulatedCluster(spec, VirtualClock(leaping=True))
    plan_sandbox.cluster(made)
    return made


def checked(plan_sandbox: PlanSandbox, state: StateDir, topic: str) -> tuple[str, float]:
    """Return what a check says of the time of a plan for a topic, and its seconds."""
    plan = plan_sandbox.plan(**{f"{topic}_{number}": AFTER for number in range(PARTITIONS)})
    options = (plan, *LIMITS, "--state-dir", str(state.path))
    said = answer(check(*options, "--json"))["how_long"]["time_s"]["middle"]
    return check(*options).output, said


@pytest.mark.usefixtures("known_speed_cluster")
def test_a_check_before_any_run_says_that_its_rate_is_assumed(
    plan_sandbox: PlanSandbox, state: StateDir
) -> None:
    text, _ = checked(plan_sandbox, state, "orders")
    assert "assumed" in text
    assert "earlier run" not in text


def test_a_check_after_a_run_rests_on_it_and_is_about_what_a_like_plan_takes(
    plan_sandbox: PlanSandbox, known_speed_cluster: SimulatedCluster, state: StateDir
) -> None:
    KeptRun(known_speed_cluster, state, "orders").carried_to_its_end()
    text, said_s = checked(plan_sandbox, state, "billing")
    assert "by 1 earlier run" in text
    assert "assumed" not in text
    took_s = KeptRun(known_speed_cluster, state, "billing").carried_to_its_end()
    assert said_s == pytest.approx(took_s, rel=WITHIN)


def test_a_check_after_a_run_whose_engine_was_killed_rests_on_it_too(
    plan_sandbox: PlanSandbox, known_speed_cluster: SimulatedCluster, state: StateDir
) -> None:
    run = KeptRun(known_speed_cluster, state, "orders").killed_after(60.0)
    assert 0 < run.over < PARTITIONS
    text, said_s = checked(plan_sandbox, state, "billing")
    assert "by 1 earlier run" in text
    assert isinstance(known_speed_cluster.clock, VirtualClock)
    known_speed_cluster.clock.pass_time(600.0)  # until what was in flight has ended
    took_s = KeptRun(known_speed_cluster, state, "billing").carried_to_its_end()
    assert said_s == pytest.approx(took_s, rel=WITHIN)


def test_a_rate_given_by_the_operator_overrides_what_runs_have_shown(
    plan_sandbox: PlanSandbox, known_speed_cluster: SimulatedCluster, state: StateDir
) -> None:
    KeptRun(known_speed_cluster, state, "orders").carried_to_its_end()
    plan = plan_sandbox.plan(**{f"billing_{number}": AFTER for number in range(PARTITIONS)})
    given = check(plan, *LIMITS, "--rate", "100MB/s", "--state-dir", str(state.path))
    assert "at 100 MB/s, as given" in given.output
    assert "earlier run" not in given.output
