from __future__ import annotations

from ktui.pacing.limits import Limits, Order
from ktui.simulated import layout
from support.simulated.moving_clusters import move, tp, wait
from support.views.screens import colour_of
from support.views.watching import (
    SMALL,
    a_quiet_cluster,
    moved,
    watching_moves,
    watching_run,
    watching_runs,
)

SESSION_S = 30.0
"""Longer than a broker session takes to expire."""


async def test_a_run_is_shown_with_its_progress_and_limits() -> None:
    async with watching_moves("a-0", "a-1", "a-2") as watch:
        line = watch.line("run drain-3")
        assert "RUNNING" in line
        assert "done 0/3" in line
        assert "R 1 per partition  P 1 partition  throttle none" in watch.line("limits")
        # each step says which of how many it is, and the last in which batch it was
        seen: set[str] = set()
        while "done 1/3" not in watch.text:
            line = watch.line("a-0")
            seen.update(f"{n}" for n in (1, 2, 3) if f"step {n}/4" in line)
            await watch.see()
        assert {"1", "2", "3"} <= seen
        assert watch.line("a-0").split()[1] == "done"
        await watch.pass_until("ENDED")
        assert "done 3/3" in watch.lines[1]


async def test_all_partitions_of_a_run_are_listed_with_their_places_in_the_queue() -> None:
    names = ["a-0", "a-1", "a-2", "b-0"]
    async with watching_run(a_quiet_cluster(*names, "c-0"), moved(*names)) as watch:
        assert watch.rows == names
        assert "step 1/4" in watch.line("a-0")
        places = [watch.line(name).split()[2] for name in names[1:]]
        assert places == ["(1)", "(2)", "(3)"]
        assert "-1 -2 -3" in watch.line("b-0"), "what is to leave is said before it begins"
        # the list can be filtered by the states of the run
        await watch.press("slash")
        await watch.submit("state:queued")
        assert watch.rows == names[1:]
        await watch.pass_until("done 1/4")
        assert watch.rows == names[2:]
        assert "queued (1)" in watch.line("a-2")


async def test_a_small_terminal_drops_the_least_important_parts_of_the_run_lines() -> None:
    async with watching_moves("a-0", "a-1", size=SMALL) as watch:
        await watch.pass_time(5)
        assert all(len(line) <= SMALL[0] for line in watch.lines)
        assert "RUNNING" in watch.line("run drain-3")
        assert "done 0/2" in watch.line("run drain-3")
        assert "P 1" in watch.line("R 1")


async def test_queued_partitions_are_listed_in_the_order_they_start() -> None:
    limits = Limits(replicas=1, partitions=1, order=Order.PLAN)
    plan = moved("b-0", "a-1", "a-0")
    async with watching_run(a_quiet_cluster("a-0", "a-1", "b-0"), plan, limits) as watch:
        assert watch.rows == ["b-0", "a-1", "a-0"]


async def test_the_run_is_one_of_the_views() -> None:
    async with watching_run(a_quiet_cluster("a-0", "a-1", "x-0"), moved("a-0", "a-1")) as watch:
        await watch.do(move("x-0", 4, 2, 3))
        assert watch.rows == ["a-0", "a-1"]
        await watch.press_and_see("v")
        assert sorted(watch.rows) == ["a-0", "x-0"]
        assert "reassigning" in watch.text
        await watch.press("v", "v")
        assert watch.rows == ["a-0", "a-1"]


async def test_a_blocked_partition_shows_the_reason_and_is_listed_above_the_queue() -> None:
    cluster = a_quiet_cluster("a-0", "a-1", "a-2")
    plan = {**moved("a-0", "a-2"), **moved("a-1", target=(9, 2, 3))}
    limits = Limits(replicas=1, partitions=2)
    cluster.do(layout.Kill(9))
    wait(cluster, SESSION_S)
    async with watching_run(cluster, plan, limits) as watch:
        await watch.pass_until("blocked")
        assert "broker 9 of its target is …" in watch.line("a-1")
        assert "└ broker 9 of its target is down" in watch.text, "whole under the cursor"
        assert "1 blocked" in watch.line("run drain-3")
        assert watch.rows[0] == "a-1"


async def test_a_step_that_falls_between_two_polls_is_not_a_foreign_change() -> None:
    async with watching_moves("a-0", limits=Limits(), messages=20, poll_s=10.0) as watch:
        await watch.pass_until("ENDED")
        await watch.pass_time(100)
        await watch.press("e")
        assert "done" in watch.text
        assert "changed elsewhere" not in watch.text


async def test_p_pauses_and_resumes_the_run_after_a_confirmation() -> None:
    async with watching_moves("a-0", "a-1") as watch:
        await watch.press("p")
        assert "Pause run drain-3?" in watch.text
        assert "1 step in flight will finish" in watch.text
        await watch.press("enter")
        assert "Pause run drain-3?" in watch.text
        await watch.press("n")
        await watch.pass_time(3)
        assert "PAUSED" not in watch.text
        await watch.press("p", "y")
        await watch.pass_until("PAUSED")
        assert "by the operator" in watch.line("run drain-3")
        await watch.press("p")
        assert "Let run drain-3 go on?" in watch.text
        await watch.press("y")
        await watch.pass_until("RUNNING")


async def test_a_partition_is_paused_from_its_row() -> None:
    names = ["a-0", "a-1", "a-2"]
    async with watching_moves(*names) as watch:
        await watch.press("down", "P")
        await watch.pass_until("paused by the operator")
        assert "paused by the operator" in watch.line("a-1")
        await watch.pass_until("done 2/3")
        assert "queued" in watch.line("a-1")
        await watch.press("P")
        await watch.pass_until("ENDED")


async def test_a_read_only_view_explains_why_nothing_can_be_changed() -> None:
    async with watching_moves("a-0", write=False) as watch:
        assert "READ-ONLY" in watch.lines[0]
        for key in ("p", "n"):
            await watch.press(key)
            assert "ktui watch --write" in " ".join(watch.text.split())
            watch.app.clear_notifications()
        await watch.press("l")
        await watch.submit("5")
        assert "This view is read-only" in watch.text


async def test_quitting_reports_that_the_run_continues_and_how_to_return() -> None:
    async with watching_moves("a-0") as watch:
        words = await watch.quit()
        assert "Run drain-3 goes on without it" in words
        assert "ktui watch" in words


async def test_the_detail_lists_finished_and_coming_steps_with_their_replicas() -> None:
    async with watching_moves("a-0", "a-1") as watch:
        await watch.pass_until("step 2/4")
        await watch.press("enter")
        (done,) = (line for line in watch.lines if "done at" in line)
        (in_flight,) = (line for line in watch.lines if "in flight since" in line)
        coming = [line for line in watch.lines if "to come" in line]
        assert "1  1 2 3 4      adds 4" in done
        assert "2  1 2 3 4 5    adds 5" in in_flight
        assert "4  4 5 6        drops 1 2 3" in coming[-1]
        assert "4 5 6" in watch.line("target")
        assert "run drain-3: batch 1: 1,2,3 -> 1,2,3,4" in watch.text
        # a partition that nobody has looked at has a detail, too
        await watch.press_and_see("escape", "down", "enter")
        assert "queued (1)" in watch.lines[1]
        assert watch.text.count("to come") == 4
        assert tp("a-1") in watch.looks.interests[-1].partitions
        # what the run does is among the events
        await watch.press("escape", "e")
        lines = [line for line in watch.lines if "a-0" in line]
        requested_at = next(i for i, line in enumerate(lines) if "batch 1" in line)
        seen = next(i for i, line in enumerate(lines) if "reassignment started" in line)
        assert requested_at < seen


async def test_run_keys_without_a_run_report_that_none_is_attached() -> None:
    async with watching_runs(a_quiet_cluster("a-0")) as watch:
        # a view that may write says so, and does not say at its end that it changed nothing
        assert "WRITE" in watch.lines[0]
        assert "READ-ONLY" not in watch.lines[0]
        for key in ("l", "p", "K"):
            await watch.press(key)
            assert "No run is attached." in watch.text
            watch.app.clear_notifications()
        words = await watch.quit()
        assert words == "ktui: view closed."


async def test_a_run_without_an_engine_shows_how_to_resume_it() -> None:
    async with watching_moves("a-0") as watch:
        await watch.kill_engine()
        assert "ENGINE DIED" in watch.line("run drain-3")
        assert "ENGINE DIED (R resume, c call off): it was killed" in watch.lines[1]
        assert watch.lines[-1].strip().startswith("R resume · c call off   ")
        await watch.press("p")
        assert "Resume it first" in " ".join(watch.text.split())
        # and so does quitting
        words = await watch.quit()
        assert "Start one: `ktui resume drain-3`." in words
        assert "was changed" not in words


async def test_the_lines_of_a_run_are_grey_while_the_cluster_does_not_answer() -> None:
    async with watching_moves("a-0") as watch:
        await watch.lose()
        assert "RUNNING" in watch.line("run drain-3")
        assert colour_of(watch.app, "RUNNING") == colour_of(watch.app, "limits")
        await watch.recover()
        assert colour_of(watch.app, "RUNNING") != colour_of(watch.app, "limits")


async def test_a_target_that_dies_leaves_no_eta_and_no_rate() -> None:
    cluster = a_quiet_cluster("a-0", "a-1", messages=200_000)
    plan = moved("a-0", "a-1", target=(4, 2, 3))
    async with watching_run(cluster, plan) as watch:
        await watch.pass_time(30)
        assert "all moves together" in watch.line("limits")
        assert "time left unknown" not in watch.line("run drain-3")
        await watch.do(layout.Kill(4))
        await watch.pass_time(SESSION_S)
        assert "all moves together" not in watch.line("limits")
        assert "time left unknown" in watch.line("run drain-3")
        # the stalled step says so in red, with its reason
        await watch.pass_until("STALLED", most_s=120)
        await watch.pass_time(5)
        assert "broker 4 is down" in watch.line("a-0")
        assert "broker 4 down" in watch.lines[1]
        assert "1 STALLED (enter)" in watch.lines[1]
        assert colour_of(watch.app, "STALLED") is not None


async def test_a_move_of_someone_else_of_a_waiting_partition_is_theirs_even_when_it_stalls() -> (
    None
):
    async with watching_moves("a-0", "a-1", messages=200_000) as watch:
        await watch.do(move("a-1", 7, 2, 3))
        await watch.pass_until("1 foreign move")
        await watch.see()
        assert "foreign" in watch.line("a-1")
        await watch.do(layout.Kill(7))
        await watch.pass_until("1 STALLED, foreign (X): a-1", most_s=120)
        line = next(each for each in watch.lines[2:] if "a-1" in each)
        assert " foreign " in line
        assert "broker 7 is down" in line
        assert "STALLED" not in line
        # the footer offers the key once it can help: with the cursor on that partition
        assert "X cancel" not in watch.lines[-1]
        await watch.press("end")
        assert watch.lines[-1].strip().startswith("b brokers · X cancel foreign move   ")


async def test_the_same_by_kafkas_tool_is_shown_and_copied() -> None:
    async with watching_moves("orders-0", messages=100_000) as watch:
        await watch.press("K")
        assert "the same by Kafka's tool" in watch.text
        assert "kafka-reassign-partitions.sh --bootstrap-server" in watch.text
        await watch.press("y")
        assert "--cancel --reassignment-json-file" in watch.app.clipboard
        await watch.press("escape")
        assert "the same by Kafka's tool" not in watch.text
