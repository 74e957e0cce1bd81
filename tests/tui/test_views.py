from __future__ import annotations

import asyncio
from datetime import timedelta

from ktui.cluster.broker import TopicConfig
from ktui.cluster.errors import Failure, Operation
from ktui.cluster.observation import Census
from ktui.cluster.observer import Interest
from support.observations import (
    START,
    a_move,
    a_partition,
    an_observation,
)  # fmt: skip
from support.watching import (
    LARGE,
    SMALL,
    moves,
    quiet,
    resting,
    tp,
    watching,
)  # fmt: skip


async def test_nothing_moving_is_said_with_how_long_and_what_to_try() -> None:
    async with watching(SMALL) as watch:
        await watch.see(quiet(), quiet(90))
        assert "Nothing is being reassigned." in watch.text
        assert "Quiet for 1m 30s." in watch.text
        assert "v  another view" in watch.text
        assert "T  choose topics" in watch.text


async def test_the_unhealthy_view_asks_for_all_partitions_and_shows_those_in_trouble() -> None:
    async with watching(LARGE) as watch:
        await watch.see(quiet())
        await watch.press("v")
        await watch.until(lambda: watch.script.interests[-1] == Interest())
        assert "Looking at all partitions of the cluster" in watch.text
        assert "looking at all partitions" in watch.lines[2]
        states = [
            a_partition(tp("ok-0")),
            a_partition(tp("away-0"), isr=(1, 2)),
            a_partition(tp("under-0"), isr=(1,)),
            a_partition(tp("gone-0"), isr=(), leader=None, offline=(1, 2, 3)),
        ]
        configs = {state.tp.topic: TopicConfig(min_insync_replicas=2) for state in states}
        await watch.see(an_observation(states, 1, topic_configs=configs))
        assert watch.script.interests[-1] == Interest(unhealthy=True)
        assert set(watch.rows) == {"away-0", "under-0", "gone-0"}
        assert "OFFLINE" in watch.line("gone-0")
        assert "UNDER MIN" in watch.line("under-0")
        assert "ISR 1, min 2" in watch.line("under-0")
        assert "out of ISR: 3" in watch.line("away-0")


async def test_a_healthy_cluster_says_so_and_how_many_partitions_were_looked_at() -> None:
    async with watching(SMALL) as watch:
        census = Census(START, 0.0, 1.0, 40, 12_034, {}, {}, ())
        await watch.see(quiet())
        await watch.press("v")
        await watch.see(quiet(1, census=census))
        assert "No partition is under-replicated, under min ISR or offline." in watch.text
        assert "12,034 partitions" in watch.text


async def test_topics_named_at_the_start_are_shown_whether_they_move_or_not() -> None:
    async with watching(topics=["orders"]) as watch:
        await watch.see(
            an_observation(
                [a_partition(tp("orders-0")), a_move(tp("audit-0")), a_move(tp("orders-1"))]
            )
        )
        assert watch.script.interests[0] == Interest(topics=frozenset({"orders"}))
        assert sorted(watch.rows) == ["orders-0", "orders-1"]
        assert "topic orders" in watch.lines[2]
        assert "in sync" in watch.line("orders-0")


async def test_a_topic_that_does_not_exist_is_named() -> None:
    async with watching(topics=["ordres"]) as watch:
        await watch.see(quiet())
        assert "The cluster has no topic ordres." in watch.text


async def test_topics_can_be_chosen_and_are_then_the_third_view() -> None:
    async with watching() as watch:
        await watch.see(quiet())
        await watch.press("T")
        assert "Which topics?" in watch.text
        await watch.type("orders, audit")
        await watch.press("enter")
        await watch.see(
            resting("orders-0", "audit-0", at_s=1), resting("orders-0", "audit-0", at_s=2)
        )
        assert watch.script.interests[-1] == Interest(topics=frozenset({"orders", "audit"}))
        assert sorted(watch.rows) == ["audit-0", "orders-0"]
        await watch.press("v")
        assert "reassigning" in watch.lines[2]


async def test_without_chosen_topics_there_are_two_views_and_no_question_comes_up() -> None:
    async with watching() as watch:
        await watch.see(quiet())
        await watch.press("v")
        assert "unhealthy" in watch.lines[2]
        await watch.press("v", "v", "v")
        assert "reassigning" in watch.lines[2]
        assert "Which topics?" not in watch.text


async def test_leaving_the_question_for_topics_leaves_the_view() -> None:
    async with watching() as watch:
        await watch.see(quiet())
        await watch.press("v", "T", "escape")
        assert "unhealthy" in watch.lines[2]


async def test_a_chosen_topic_that_does_not_exist_is_named_beside_those_that_do() -> None:
    async with watching() as watch:
        await watch.see(quiet())
        await watch.press("T")
        await watch.type("orders, nosuch")
        await watch.press("enter")
        assert "no such topic" not in watch.text
        await watch.see(resting("orders-0", at_s=1))
        assert "nosuch: no such topic" in watch.lines[2]
        assert watch.rows == ["orders-0"]


async def test_a_topic_whose_metadata_was_not_answered_is_not_said_to_be_missing() -> None:
    async with watching(topics=["orders", "audit"]) as watch:
        failures = (Failure(Operation.METADATA, "no answer", topic="audit"),)
        await watch.see(resting("orders-0", failures=failures))
        assert "no such topic" not in watch.text


async def test_in_the_unhealthy_view_health_tells_more_than_that_a_move_is_done() -> None:
    configs = {"t": TopicConfig(min_insync_replicas=3), "n": TopicConfig(min_insync_replicas=1)}
    async with watching(LARGE) as watch:
        a, b = tp("t-1"), tp("n-0")
        await watch.see(
            an_observation([a_move(a), a_partition(b)], topic_configs=configs),
            an_observation([a_partition(a, (4, 2, 3)), a_partition(b)], 1, topic_configs=configs),
        )
        await watch.until(lambda: "done" in watch.line("t-1"))
        ill = [
            a_partition(a, (4, 2, 3), isr=(2, 3), leader=2),
            a_partition(b, isr=(1, 2)),
            a_partition(tp("n-1"), isr=(), leader=None),
        ]
        await watch.see(*(an_observation(ill, at, topic_configs=configs) for at in (10, 20)))
        row = watch.line("t-1")
        assert "done" in row
        assert "UNDER MIN: ISR 2, min 3; out of ISR: 4" in row
        assert "1 OFFLINE  1 UNDER MIN" in watch.lines[1]
        await watch.press("enter")
        assert "UNDER MIN   reached its target; ISR 2, min 3; out of ISR: 4" in watch.lines[1]
        await watch.press("escape", "v")
        assert "done" not in watch.line("t-1")
        assert "UNDER MIN     >4! *2 3" in watch.line("t-1")
        assert "ISR 2, min 3; out of ISR: 4" in watch.line("t-1")
        assert watch.rows == ["n-1", "t-1", "n-0"]


async def test_how_old_the_look_at_all_partitions_is_is_said() -> None:
    async with watching(LARGE) as watch:

        def census(at_s: float) -> Census:
            return Census(START + timedelta(seconds=at_s), at_s, 0.1, 1, 3, {}, {}, ())

        await watch.see(quiet())
        await watch.press("v")
        await watch.see(quiet(5, census=census(5)))
        at = (START + timedelta(seconds=5)).astimezone()
        assert f"as at {at:%H:%M:%S}" in watch.lines[2]
        await watch.see(quiet(6, census=census(5), down=[2]))
        assert "looking at all partitions" in watch.lines[2]
        assert "No partition is under-replicated" not in watch.text
        await watch.see(quiet(8, census=census(7), down=[2]))
        assert "No partition is under-replicated" in watch.text


async def test_ended_moves_are_counted_apart() -> None:
    async with watching() as watch:
        await watch.see(moves("a-0", "b-0"))
        rest = a_partition(tp("b-0"), (4, 2, 3))
        await watch.see(*(an_observation([a_move(tp("a-0")), rest], at) for at in (1, 5, 9)))
        assert "1 moving  1 done" in watch.lines[1]
        done = [rest, a_partition(tp("a-0"), (4, 2, 3))]
        await watch.see(*(an_observation(done, at) for at in (10, 15, 20)))
        assert "nothing is moving · 2 done lately" in watch.lines[1]


async def test_another_view_is_looked_at_at_once_and_not_an_interval_later() -> None:
    async with watching() as watch:
        await watch.see(quiet())
        slept = asyncio.Event()
        waits: list[float] = []

        async def long_sleep(seconds: float) -> None:
            waits.append(seconds)
            await slept.wait()

        watch.clock.sleep = long_sleep  # type: ignore[method-assign] # time stands still here
        await watch.see(quiet(1))
        await watch.until(lambda: waits)
        polls = len(watch.script.interests)
        await watch.press("v")
        await watch.until(lambda: len(watch.script.interests) > polls)
        assert watch.script.interests[-1].unhealthy
