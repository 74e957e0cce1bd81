from __future__ import annotations

from pathlib import Path

import pytest
from textual.events import Key
from textual.keys import _character_to_key

from ktui.cluster.ports import ConfigChange, ConfigOp
from ktui.cluster.settings import CORDONED, EVERY, broker_resource
from ktui.execution import RunProblem
from ktui.execution.host.launch import NewRun
from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.host.state_dir import RunDir
from ktui.planning.plan import Plan
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.cli.call_ktui import NamedCluster
from support.runs.engine_runs import plan_of
from support.views.watching import (
    LARGE,
    ONE_BY_ONE,
    SMALL,
    RunWatched,
    a_new_run,
    a_plan_file,
    a_quiet_cluster,
    answer_line,
    confirm,
    field,
    go_to,
    joined_words,
    moved,
    read,
    report,
    settled,
    tick,
    watching_run,
    watching_runs,
)


def a_plan(folder: Path, plan: Plan | str, name: str = "drain-3.json") -> Path:
    return a_plan_file(folder, plan, name)


async def choose_plan(watch: RunWatched, path: Path) -> None:
    """Type the path of a plan on the screen that starts one."""
    await watch.press("n")
    assert isinstance(watch.app.screen, StartScreen)
    await read(watch, path)


async def choose_plan_for_new_run(watch: RunWatched, path: Path) -> None:
    """Type the path, then choose a new run instead of joining the live one."""
    await watch.press("n")
    field(watch, "#plan-path").value = str(path)
    watch.app.screen.query_one("#plan-way").focus()
    await watch.press("right")
    await watch.until(lambda: isinstance(watch.app.screen, StartScreen))


def shown(watch: RunWatched, name: str) -> str:
    return joined_words(str(watch.app.screen.query_one(name).render()))


async def test_a_plan_is_started_once_it_is_read_and_its_name_is_typed(tmp_path: Path) -> None:
    """In the smallest terminal; the other tests have room."""
    path = a_plan(tmp_path, plan_of(moved("a-0", "a-1")))
    async with watching_runs(a_quiet_cluster("a-0", "a-1"), size=SMALL) as watch:
        await choose_plan(watch, path)
        await watch.until(lambda: "replica movements" in report(watch))
        assert "leader epoch bumps" in report(watch)
        await watch.press("enter", "enter", "enter", "enter")
        assert "▸5 start" in watch.text
        assert "Type drain-3 and press enter to start the run." in watch.text
        await watch.press("enter")  # which by itself starts nothing
        await watch.say("Type drain-3 to start the run")
        await watch.submit("drain-3")
        await watch.until(lambda: isinstance(watch.app.screen, WatchScreen))
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_until("ENDED")
        assert "done 2/2" in watch.text


async def test_enter_counts_after_what_was_typed_ahead_of_it(tmp_path: Path) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        await watch.press("n")
        for character in str(path):
            watch.app.post_message(Key(_character_to_key(character), character))
        watch.app.post_message(Key("enter", "\r"))
        await watch.until(lambda: "The plan is read" in report(watch))
        await settled(watch)
        for _ in range(9):
            watch.app.post_message(Key("enter", "\r"))
        await watch.say("▸5 start")
        await watch.say("Type drain-3 to start the run")


async def test_a_mistyped_run_name_starts_nothing(tmp_path: Path) -> None:
    a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        await watch.press("n")
        assert "allow another live run" not in watch.text  # as there is none
        # the path is completed as it is typed
        field(watch, "#plan-path").value = f"{tmp_path}/dr"
        await watch.press("end", "a", say="drain-3.json")
        await watch.press("right", "enter")
        await watch.until(lambda: "replica movements" in report(watch))

        await confirm(watch, "drain")
        await watch.until(lambda: "Type drain-3 to start the run" in answer_line(watch))
        # letters are no commands while a box can be ticked
        await tick(watch, "#allow-factor", "check")
        await watch.press("l", "p", "r", "b", "e", "q")
        assert isinstance(watch.app.screen, StartScreen)
        assert watch.app.is_running
        # escape goes back step by step, and leaves from the first one
        await watch.press("escape", "escape", "escape")
        assert "▸1 plan" in watch.text
        await watch.press("escape")
        assert isinstance(watch.app.screen, WatchScreen)
        assert not watch.state_dir.run_dirs()


async def test_an_invalid_limit_is_reported_at_its_field_and_blocks_the_start(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0", "a-1")))
    async with watching_runs(a_quiet_cluster("a-0", "a-1"), size=LARGE) as watch:
        # no step but the first is open before a plan is read
        await watch.press("n", "enter")
        assert "▸1 plan" in watch.text
        await watch.press("escape")
        await choose_plan(watch, path)
        await watch.until(lambda: "gentle, chosen" in report(watch))
        await go_to(watch, "limits")
        assert watch.line("R replicas").split()[2] == "1"
        # the figures follow the limits as they are typed
        watch.app.screen.query_one("#new-shape").focus()
        await watch.type("kip-435")
        await watch.until(lambda: "kip-435, chosen" in report(watch))
        # what is typed stays while one goes on and back; a click on a step goes there, too
        await watch.press("enter")
        await watch.type("1MB")
        await watch.press("escape")
        assert field(watch, "#new-shape").value == "kip-435"
        crumbs = watch.app.screen.query_one("Crumbs").region
        at = watch.line("3 throttle").index("3 throttle") - crumbs.x
        await watch.pilot.click("Crumbs", offset=(at, 0))
        assert "▸3 throttle" in watch.text
        assert field(watch, "#throttle-rate").value == "1MB"
        await go_to(watch, "limits")

        watch.app.screen.query_one("#new-partitions").focus()
        await watch.type("none of")
        assert "! P partitions: 'none of' is not a" in watch.text
        await watch.say("As typed before")  # the figures are no longer those of what is typed
        await confirm(watch, "drain-3")
        assert "▸2 limits !" in watch.text
        assert not watch.state_dir.run_dirs()


@pytest.mark.parametrize("size", [SMALL, (140, 40)])
async def test_every_invalid_limit_is_marked_and_its_reason_is_visible(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(a_quiet_cluster("a-0"), size=size) as watch:
        await choose_plan(watch, path)
        await watch.until(lambda: "replica movements" in report(watch))
        await go_to(watch, "limits")
        await watch.type("x")
        watch.app.screen.query_one("#new-per-broker").focus()
        await watch.type("0")
        await watch.until(lambda: "! B per broker: 0 is too small" in shown(watch, "#limits-hint"))
        assert "Wrong, too: R replicas" in shown(watch, "#limits-hint")
        await watch.say("! B per broker: 0 is")
        assert "R!replicas" in watch.text
        assert "B!per broker" in watch.text
        watch.app.screen.query_one("#new-replicas").focus()
        await watch.say("! R replicas: 'x' is not a")


async def test_an_invalid_throttle_blocks_the_start(tmp_path: Path) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        # the context's throttle is there to be typed over
        watch.engines.throttle = "50MB"
        await choose_plan(watch, path)
        await watch.until(lambda: "throttle 50 MB/s into each" in joined_words(report(watch)))
        # throttled leaders are a choice, with its warning
        await go_to(watch, "throttle")
        watch.app.screen.query_one("#throttle-leaders").focus()
        await watch.press("space")
        await watch.until(
            lambda: "! --throttle-leaders: what in-sync" in shown(watch, "#throttle-warnings")
        )
        field(watch, "#throttle-rate").value = ""
        await watch.say("! throttle: no rate is given to throttle leaders")

        await type_throttle(watch, "fast")
        assert "! throttle: 'fast'" in watch.text
        await confirm(watch, "drain-3")
        assert "▸3 throttle !" in watch.text
        assert not watch.state_dir.run_dirs()


async def test_an_objective_is_measured_by_a_canary_that_the_operator_confirms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        wanted: list[NewRun] = []

        async def start(new_run: NewRun) -> RunDir:
            wanted.append(new_run)
            raise RunProblem("no engine is to be started")

        monkeypatch.setattr(watch.engines, "start", start)
        monkeypatch.setattr(watch.engines, "canary", False)
        await choose_plan(watch, path)
        await type_throttle(watch, "slo=p99<150ms")
        # own commands stay with the shell, and the refusal names them
        refusal = "Use the canary (--canary), or start the run with --sli-command CMD"
        await watch.until(lambda: refusal in shown(watch, "#throttle-hint"))
        assert "it writes 20 records a second to each broker" in shown(watch, "#canary-means")
        await tick(watch, "#throttle-canary", "throttle")
        await go_to(watch, "start")
        to_topic = (
            "canary writes 20 records a second to each broker, to the topic ktui-canary-drain-3"
        )
        await watch.until(lambda: to_topic in shown(watch, "#start-facts"))

        await confirm(watch, "drain-3")
        await watch.say("no engine is to be started")

    (options,) = (run.options for run in wanted)
    assert (str(options.throttle.objective), options.canary) == ("p99<150ms", True)


async def test_a_file_without_a_plan_is_reported_with_all_problems_and_their_lines(
    tmp_path: Path,
) -> None:
    bad = '{"version": 1, "partitions": [\n{"topic": "a", "partition": 0, "replicas": [1, 1]},\n'
    path = a_plan(tmp_path, bad + '{"topic": "a", "partition": -1, "replicas": []}]}')
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        await choose_plan(watch, path)
        await watch.until(
            lambda: "drain-3.json" in report(watch) and "Reading" not in report(watch)
        )
        assert ":2:" in report(watch) or "line 2" in report(watch)
        assert ":3:" in report(watch) or "line 3" in report(watch)
        # nor is there a plan in a file that is not there
        await read(watch, tmp_path / "none.json")
        await watch.until(lambda: "none.json" in report(watch) and "Reading" not in report(watch))


async def test_a_change_of_replication_factor_is_a_problem_until_it_is_allowed(
    tmp_path: Path,
) -> None:
    done = a_plan(tmp_path, plan_of(moved("a-0", target=(1, 2, 3))), "done.json")
    path = a_plan(tmp_path, plan_of(moved("a-0", target=(1, 2))))
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        # a plan that is at its target is not started
        await choose_plan(watch, done)
        await watch.until(lambda: "target" in report(watch))
        await confirm(watch, "done")
        await watch.until(lambda: "there is nothing to do" in answer_line(watch))

        await read(watch, path)
        await watch.until(lambda: "problem" in report(watch))
        assert "the replication factor changes from 3 to 2" in report(watch)
        await confirm(watch, "drain-3")
        await watch.until(lambda: "The plan has the problems above" in answer_line(watch))
        assert "▸4 check !" in watch.text
        await tick(watch, "#allow-factor", "check")
        assert "x" in watch.line("allow replication factor changes").split()[0]
        await watch.until(lambda: "problem" not in report(watch))
        await confirm(watch, "drain-3")
        await watch.until(lambda: watch.app.attached is not None)
        await watch.pass_until("ENDED")


async def test_a_second_run_on_the_cluster_is_started_only_when_allowed(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", "b-0", messages=500_000)
    path = a_plan(tmp_path, plan_of(moved("b-0")), "other.json")
    async with watching_run(cluster, moved("a-0"), size=(140, 40)) as watch:
        await choose_plan_for_new_run(watch, path)
        # the live run is named before the plan is read
        await watch.say("Run drain-3 is live on this cluster. Another starts only if you allow it")
        await watch.until(lambda: "replica movements" in report(watch))
        await confirm(watch, "other")
        await watch.until(lambda: "Run drain-3 is live on this cluster" in answer_line(watch))
        await watch.say("Run drain-3 is live on this cluster: add the")
        await tick(watch, "#allow-concurrent", "start")
        await confirm(watch, "other")
        await watch.until(lambda: watch.app.attached and watch.attached.name == "other")


async def type_throttle(watch: RunWatched, words: str) -> None:
    await go_to(watch, "throttle")
    watch.app.screen.query_one("#throttle-rate").focus()
    await watch.type(words)


async def test_a_throttle_is_checked_against_inbound_traffic_and_then_used_by_the_run(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", messages=100_000, inbound_s=2_000)
    path = a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(cluster, size=LARGE) as watch:
        await choose_plan(watch, path)
        await watch.until(lambda: "replica movements" in report(watch))
        await type_throttle(watch, "1MB")
        await watch.until(lambda: "Measuring for 2 s how much is written" in report(watch))
        await watch.pass_until("! at 1.0 MB/s into brokers 4, 5 and 6 the run will")
        await confirm(watch, "drain-3")
        await watch.until(lambda: "The plan has the problems above" in answer_line(watch))
        assert "To insist: ktui start --allow-slow" in joined_words(report(watch))
        field(watch, "#throttle-rate").value = ""
        await type_throttle(watch, "3MB")
        await settled(watch)
        assert "throttle 3.0 MB/s into each broker" in joined_words(report(watch))
        await confirm(watch, "drain-3")
        await watch.until(lambda: watch.app.attached is not None)
        assert watch.attached.run.options.throttle.every == 3_000_000


async def test_a_start_warns_of_an_unfinished_run_over_the_same_partitions(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", "a-1", messages=500_000)
    path = a_plan(tmp_path, plan_of(moved("a-0", target=(7, 2, 3))), "other.json")
    async with watching_runs(cluster, size=LARGE) as watch:
        await watch.engines.start(a_new_run(moved("a-0", "a-1"), ONE_BY_ONE))
        await watch.see()
        await watch.engines.aclose()
        await choose_plan(watch, path)
        await watch.until(lambda: "replica movements" in report(watch))
        assert (
            "run drain-3 is waiting for resume, with 1 partition of this plan left to move"
            in joined_words(report(watch))
        )


async def test_a_target_on_a_cordoned_broker_is_a_problem_with_the_way_out(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", version="4.4")
    cluster.configure([ConfigChange(broker_resource(4), CORDONED, ConfigOp.SET, EVERY)])
    async with watching_runs(cluster, size=LARGE) as watch:
        await choose_plan(watch, a_plan(tmp_path, plan_of(moved("a-0", target=(4, 2, 3)))))

        await watch.until(lambda: "problem" in report(watch))

        assert "ktui broker uncordon 4" in " ".join(report(watch).split())
        await confirm(watch, "drain-3")
        await watch.until(lambda: "The plan has the problems above" in answer_line(watch))


def denied(watch: RunWatched, *operations: tuple[str, str]) -> None:
    """Let the principal lack operations on "cluster" or on a topic."""
    reader = watch.engines.facts.reader
    watch.engines.permits = NamedCluster(reader=lambda: reader, not_granted=frozenset(operations))


async def test_a_missing_permission_is_shown_when_the_screen_opens_and_not_on_enter_alone(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0")))
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        denied(watch, ("cluster", "Alter"))

        await watch.press("n")
        await watch.until(lambda: "a plan cannot be started" in shown(watch, "#plan-live"))
        assert "kafka-acls --add --operation Alter --cluster" in shown(watch, "#plan-live")

        await read(watch, path)
        await watch.until(lambda: "problem: Alter on the cluster is not" in report(watch))
        await watch.until(lambda: "1 plan !" in watch.text)
        await confirm(watch, "drain-3")
        await watch.until(lambda: "The plan has the problems above" in answer_line(watch))
        assert not watch.state_dir.run_dirs()


async def test_findings_of_all_kinds_are_counted_in_each_step_and_listed_one_key_away(
    tmp_path: Path,
) -> None:
    cluster = a_quiet_cluster("a-0", "a-1", messages=500_000)
    path = a_plan(tmp_path, plan_of(moved("a-0", target=(7, 2, 3))), "other.json")
    async with watching_runs(cluster, size=LARGE) as watch:
        denied(watch, ("cluster", "AlterConfigs"), ("cluster", "Alter"))
        gate = CancelGateFile(watch.state_dir, cluster.spec.name)
        gate.shut(watch.clock.now(), "somebody@here", "a freeze")
        await choose_plan(watch, path)
        await watch.until(lambda: "problem: Alter on the cluster" in report(watch))
        await go_to(watch, "limits")
        await watch.until(lambda: "1 problem, 1 warning" in watch.text)

        await type_throttle(watch, "50MB")

        await watch.until(lambda: "2 problems, 1 warning" in watch.text)
        assert "AlterConfigs on the cluster is not granted" in shown(watch, "#throttle-warnings")
        await watch.press("ctrl+g")
        await watch.until(lambda: "is shut, by somebody@here" in shown(watch, "#plan-findings"))
        assert "cannot be throttled" in shown(watch, "#plan-findings")
