"""An extra plan, added from the view to the run that it is attached to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ktui.execution.host.ownership import CancelGateFile
from ktui.execution.journal.commands import Add
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import OnConflict
from ktui.execution.run.states import State
from ktui.planning.plan import Plan
from ktui.tui.screens.plan.add import AddScreen
from ktui.tui.screens.plan.start import StartScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import tp
from support.views import watching
from support.views.watching import (
    LARGE,
    SMALL,
    RunWatched,
    a_plan_file,
    a_quiet_cluster,
    answer_line,
    go_to,
    joined_words,
    known,
    moved,
    read,
    report,
    state_of,
    tick,
    watching_moves,
    watching_run,
    watching_runs,
)

OTHER = (7, 2, 3)


def a_plan(folder: Path, plan: Plan | str, name: str = "more.json") -> Path:
    return a_plan_file(folder, plan, name)


def a_slow_cluster(*names: str, **how: Any) -> Any:
    """A cluster on which no copy finishes during a test."""
    return a_quiet_cluster(*names, **{"messages": 500_000, **how})


async def choose_plan(watch: RunWatched, path: Path) -> None:
    """Choose a plan that is to join the run, and wait for its preview."""
    await watch.press("n")
    assert isinstance(watch.app.screen, AddScreen)
    await read(watch, path)
    await watch.until(lambda: "Reading" not in report(watch) and "A plan is" not in report(watch))


async def reported(watch: RunWatched, words: str) -> None:
    await watch.until(lambda: words in report(watch) and "Reading" not in report(watch))


async def choose_conflict(watch: RunWatched, *keys: str) -> None:
    await go_to(watch, "plan")
    watch.app.screen.query_one("#plan-conflict").focus()
    await watch.press(*keys)


async def confirm(watch: RunWatched, name: str = "drain-3") -> None:
    await watching.confirm(watch, name)


async def added(watch: RunWatched) -> None:
    """Let the engine read the request, and the view show the result."""
    await watch.until(lambda: isinstance(watch.app.screen, WatchScreen))
    await watch.until(lambda: asked(watch))
    await watch.see()
    await watch.see()


def asked(watch: RunWatched) -> list[Add]:
    """Return the add requests in the journal, answered or not."""
    with Journal.open(watch.run.journal, watch.clock, read_only=True) as journal:
        commands = [each.command for each in journal.asked(unanswered=False)]
    return [each for each in commands if isinstance(each, Add)]


async def test_a_plan_joins_the_live_run_once_it_is_read_and_the_run_name_is_typed(
    tmp_path: Path,
) -> None:
    """In the smallest terminal; the other tests have room."""
    path = a_plan(tmp_path, plan_of(moved("b-0", "b-1")))
    cluster = a_quiet_cluster("a-0", "b-0", "b-1")
    async with watching_run(cluster, moved("a-0"), size=SMALL) as watch:
        await choose_plan(watch, path)
        await watch.until(lambda: "in run drain-3: 2 join the queue" in report(watch))
        assert "replica movements" in report(watch)
        await watch.press("enter", "enter")
        assert "▸3 add" in watch.text
        await watch.submit("drain-3")
        await added(watch)
        await watch.pass_until("done 3/3")
        assert watch.attached.name == "drain-3"


async def test_only_the_runs_name_adds_a_plan_and_the_run_answers(tmp_path: Path) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, path)
        await confirm(watch, "more")
        await watch.until(lambda: "Type drain-3 to add the plan" in answer_line(watch))
        await watch.press("escape", "escape", "escape")
        assert isinstance(watch.app.screen, WatchScreen)
        assert not asked(watch)

        await choose_plan(watch, path)
        await confirm(watch)
        await added(watch)
        await watch.pass_until("add more.json: 1 joins the queue")
        # the way back beside the journal has what was added
        await watch.until(lambda: "b" in watch.run.rollback.read_text())
        kept = json.loads(watch.run.rollback.read_text())["partitions"]
        assert [(each["topic"], each["replicas"]) for each in kept] == [
            ("a", [1, 2, 3]),
            ("b", [1, 2, 3]),
        ]


async def test_a_conflicting_partition_is_named_and_rolled_back_first(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0") | moved("a-0", target=OTHER)))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, path)
        assert "1 is rolled back first, then queued" in report(watch)
        assert "a-0  roll back: 4,5,6 in the run, 7,2,3 in the plan" in report(watch)
        await confirm(watch)
        await added(watch)
        # the plan is asked for as a whole, by its file's name
        (command,) = asked(watch)
        assert command.plan == "more.json"
        assert command.on_conflict is OnConflict.ROLLBACK
        assert {(each.tp, each.target) for each in command.partitions} == {
            (tp("b-0"), (4, 5, 6)),
            (tp("a-0"), OTHER),
        }
        await watch.pass_time(10)
        assert watch.attached.run.tracks[tp("a-0")].target == OTHER


async def test_a_conflicting_partition_keeps_its_target_when_the_operator_chooses_keep(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0") | moved("a-0", target=OTHER)))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, path)
        await choose_conflict(watch, "right")
        await watch.say("● keep")
        await watch.until(lambda: "1 keeps the run's own target" in report(watch))
        assert "a-0  keep: 4,5,6 in the run, 7,2,3 in the plan" in report(watch)
        await confirm(watch)
        await added(watch)
        assert asked(watch)[0].on_conflict is OnConflict.KEEP
        assert state_of(watch, "a-0") is State.ADDING


async def test_a_conflicting_partition_is_retargeted_in_place_when_the_operator_chooses_so(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0", target=OTHER)))
    cluster = a_slow_cluster("a-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, path)
        # a click chooses, too
        line = watch.line("on conflict")
        await watch.pilot.click("#plan-conflict", offset=(line.index("keep") - 1, 0))
        await watch.until(lambda: "1 keeps the run's own target" in report(watch))
        await choose_conflict(watch, "left", "left")
        await watch.until(lambda: "1 is cancelled, then goes on to the new target" in report(watch))
        await confirm(watch)
        await added(watch)
        assert asked(watch)[0].on_conflict is OnConflict.RETARGET
        await watch.pass_until("+7")
        assert 4 not in known(watch, "a-0").replicas


async def test_the_preview_of_an_added_plan_follows_the_run(tmp_path: Path) -> None:
    path = a_plan(tmp_path, plan_of(moved("a-0", target=OTHER)))
    async with watching_moves("a-0", "a-1", messages=20_000, size=LARGE) as watch:
        await choose_plan(watch, path)
        assert "1 is rolled back first" in report(watch)
        for _ in range(200):
            if state_of(watch, "a-0") is State.DONE:
                break
            await watch.see()
        await watch.until(lambda: "1 that had ended is queued again" in report(watch))


async def test_a_plan_is_asked_for_only_when_it_has_something_to_do_and_no_problem(
    tmp_path: Path,
) -> None:
    done = a_plan(tmp_path, plan_of(moved("a-0")), "done.json")
    path = a_plan(tmp_path, plan_of(moved("b-0", target=(1, 2))))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, done)
        await confirm(watch)
        await watch.until(
            lambda: "There is nothing to do: 1 is at that target" in answer_line(watch)
        )
        assert not asked(watch)

        # what must be allowed by name is a problem until it is
        await read(watch, path)
        await watch.until(lambda: "the replication factor changes from 3 to 2" in report(watch))
        await confirm(watch)
        await watch.until(lambda: "The plan has the problems above" in answer_line(watch))
        await tick(watch, "#allow-factor", "check")
        await watch.until(lambda: "problem" not in report(watch))
        await confirm(watch)
        await added(watch)
        assert asked(watch)


async def test_an_earlier_plan_is_not_added_after_another_file_fails_to_read(
    tmp_path: Path,
) -> None:
    bad = '{"version": 1, "partitions": [\n{"topic": "a", "partition": 0, "replicas": [1, 1]}]}'
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await watch.press("n")
        for other, words in (
            ("none.json", "none.json"),
            ("~nobody-has-this-name/plan.json", "~nobody-has-this-name/plan.json"),
            (str(a_plan(tmp_path, bad, "bad.json")), "bad.json:2:"),  # with the problem's line
        ):
            await read(watch, path)
            await watch.until(lambda: "1 joins the queue" in report(watch))
            await read(watch, other)
            await reported(watch, words)
            await confirm(watch)
            assert "▸1 plan" in watch.text
        assert not asked(watch)


async def test_inbound_traffic_is_measured_when_the_run_has_a_throttle(tmp_path: Path) -> None:
    cluster = a_slow_cluster("a-0", "b-0", inbound_s=2_000)
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    async with watching_run(cluster, moved("a-0"), throttle="1MB", size=LARGE) as watch:
        await choose_plan(watch, path)
        await watch.until(lambda: "Measuring for 2 s how much is written" in report(watch))
        await watch.pass_time(5)
        await watch.until(lambda: "will never finish" in report(watch))


async def test_one_key_switches_between_adding_to_the_run_and_starting_a_new_one(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=(120, 40)) as watch:
        await choose_plan(watch, path)
        await watch.press("shift+tab", "shift+tab", "right")
        await watch.until(lambda: isinstance(watch.app.screen, StartScreen))
        await watch.until(lambda: "gentle, chosen" in report(watch))
        await go_to(watch, "plan")
        watch.app.screen.query_one("#plan-way").focus()
        await watch.press("left")
        await watch.until(lambda: isinstance(watch.app.screen, AddScreen))
        await watch.until(lambda: "1 joins the queue" in report(watch))
        await watch.press("escape")
        assert isinstance(watch.app.screen, WatchScreen)


async def test_a_read_only_view_adds_nothing_and_names_the_command_for_a_writable_one() -> None:
    async with watching_run(a_slow_cluster("a-0"), moved("a-0"), write=False) as watch:
        await watch.press("n")
        assert isinstance(watch.app.screen, WatchScreen)
        await watch.say("This view is read-only; open it with ktui watch --write to make changes.")


async def test_a_shut_cancel_gate_refuses_an_added_plan(tmp_path: Path) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        gate = CancelGateFile(watch.state_dir, cluster.spec.name)
        gate.shut(watch.clock.now(), "ada@ops1 (7)", "all of it")
        await watch.see()
        await choose_plan(watch, path)
        assert "shut by ada@ops1 (7): nothing can be started or added" in joined_words(watch.text)
        await confirm(watch)
        await watch.until(lambda: "open it with O" in answer_line(watch))
        assert not asked(watch)
        gate.open()
        await watch.pass_time(3)  # until the engine has polled, too
        assert not watch.app.screen.query_one("#plan-live").display
        await watch.press("enter")
        await added(watch)


async def test_a_run_that_ended_meanwhile_refuses_the_plan_and_offers_a_run_of_its_own(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    cluster = a_quiet_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, path)
        await watch.pass_until("Run drain-3 has ended")
        await watch.say(
            "Run drain-3 has ended and accepts no more plans: start this one as a new run."
        )
        await confirm(watch)
        await watch.until(lambda: "Run drain-3 has ended" in answer_line(watch))
        await go_to(watch, "plan")
        watch.app.screen.query_one("#plan-way").focus()
        await watch.press("right")
        await watch.until(lambda: isinstance(watch.app.screen, StartScreen))
        await watch.until(lambda: "gentle, chosen" in report(watch))
        assert not watch.app.screen.query("#plan-way")


async def test_a_run_without_an_engine_must_be_resumed_before_a_plan_is_added(
    tmp_path: Path,
) -> None:
    path = a_plan(tmp_path, plan_of(moved("b-0")))
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        await choose_plan(watch, path)
        await watch.engines.aclose()
        await watch.pass_until("ENGINE DIED")
        await confirm(watch)
        await watch.until(lambda: "Run drain-3 has no engine" in answer_line(watch))
        assert "ktui resume drain-3" in answer_line(watch)
        assert not asked(watch)
        await watch.press("escape", "escape", "escape", "n")
        assert isinstance(watch.app.screen, StartScreen)
        await watch.say("it takes plans once it is resumed")


async def test_the_start_screen_names_a_live_run_that_is_not_shown_and_how_to_reach_it() -> None:
    cluster = a_slow_cluster("a-0", "b-0")
    async with watching_run(cluster, moved("a-0"), size=LARGE) as watch:
        watch.app.run_controller.close()
        await watch.press("n")
        assert isinstance(watch.app.screen, StartScreen)
        await watch.until(
            lambda: (
                "To add the plan to run drain-3, leave with esc, open the run with r"
                in joined_words(watch.text)
            )
        )


async def test_a_plan_cannot_be_added_without_a_run() -> None:
    async with watching_runs(a_quiet_cluster("a-0"), size=LARGE) as watch:
        await watch.press("n")
        assert isinstance(watch.app.screen, StartScreen)
        assert "carry it out" not in watch.text
