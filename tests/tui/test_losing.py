from __future__ import annotations

from ktui.cluster.errors import Failure, Operation, Unreachable
from support.screens import colour_of
from support.watching import (
    LARGE,
    SMALL,
    moves,
    quiet,
    watching,
)  # fmt: skip

LOST = Unreachable("listing reassignments", where="10.0.0.1:9092", fix="Check the address")


async def test_a_frozen_list_stands_still_while_the_header_goes_on() -> None:
    async with watching() as watch:
        await watch.see(moves("a-0"))
        await watch.press("space")
        await watch.see(moves("a-0", "b-0", at_s=12))
        assert watch.rows == ["a-0"]
        assert "2 moving" in watch.lines[1]
        assert "FROZEN 12 s" in watch.lines[2]
        await watch.press("space")
        assert watch.rows == ["a-0", "b-0"]
        assert "FROZEN" not in watch.text


async def test_losing_the_cluster_keeps_the_last_values_with_their_age_and_says_why() -> None:
    async with watching() as watch:
        await watch.see(moves("a-0"))
        watch.clock.seconds += 12
        await watch.lose(LOST)
        assert "reconnecting" in watch.lines[1]
        assert "values 12 s old" in watch.lines[1]
        assert "no answer" in watch.lines[1]
        assert "a-0" in watch.text
        assert watch.partitions.stale
        await watch.see(moves("a-0", at_s=13))
        assert "reconnecting" not in watch.text
        assert not watch.partitions.stale


async def test_why_the_cluster_is_lost_is_told_shortly_and_always_alike() -> None:
    async with watching(SMALL) as watch:
        await watch.see(moves("a-0", down=[4]))
        for where in ("127.0.0.1:19092, 127.0.0.1:19093", "127.0.0.1:19093, 127.0.0.1:19092"):
            error = Unreachable("listing", where=where, answer="connection refused", fix="Start it")
            await watch.lose(error)
            assert watch.lines[1].endswith("values 0 s old  connection refused")
        grey = colour_of(watch.app, "reconnecting")
        assert colour_of(watch.app, "8/9 brokers, 4 down") not in (None, grey)
        assert colour_of(watch.app, "8/9 brokers, 4 down") == colour_of(watch.app, "a-0")


async def test_values_grow_old_though_no_poll_has_failed_yet() -> None:
    async with watching() as watch:
        await watch.see(moves("a-0"))
        watch.clock.seconds += 2
        await watch.press("b")
        assert "poll 1.0 s" in watch.lines[0]
        watch.clock.seconds += 4
        await watch.until(lambda: "values 6 s old" in watch.lines[0])
        await watch.press("escape")
        await watch.until(lambda: "values 6 s old" in watch.lines[0])
        await watch.see(moves("a-0", at_s=7))
        assert "old" not in watch.lines[0]


async def test_a_cluster_that_was_never_reached_is_named_with_the_reason() -> None:
    async with watching(SMALL) as watch:
        assert "Connecting to prod-eu" in watch.text
        await watch.lose(LOST)
        assert "Cannot reach prod-eu yet." in watch.text
        assert "Check the address" in " ".join(watch.text.split())
        await watch.see(moves("a-0"))
        assert "a-0" in watch.text


async def test_the_pauses_between_vain_attempts_grow_to_five_seconds() -> None:
    async with watching() as watch:
        for _ in range(5):
            await watch.lose(LOST)
        assert watch.clock.slept[:5] == [2.0, 4.0, 5.0, 5.0, 5.0]
        await watch.see(quiet())
        await watch.until(lambda: len(watch.clock.slept) > 5)
        assert watch.clock.slept[5] == 1.0


async def test_a_defect_of_our_own_is_named_and_the_view_lives_on() -> None:
    async with watching() as watch:
        watch.script.say(ZeroDivisionError("1/0"))
        await watch.until(lambda: "own error" in watch.text)
        assert "ZeroDivisionError: 1/0" in watch.text
        await watch.see(moves("a-0"))
        assert watch.rows == ["a-0"]


async def test_what_the_last_poll_could_not_read_is_named_in_one_line() -> None:
    async with watching() as watch:
        failures = (
            Failure(Operation.LOG_ENDS, "no answer for 12 s", broker=3),
            Failure(Operation.LOG_DIRS, "not authorized", broker=4, denied=True),
        )
        await watch.see(moves("a-0", failures=failures))
        assert "! broker 3: log ends: no answer for 12 s (and 1 more)" in watch.lines[2]
        await watch.see(moves("a-0", at_s=1))
        assert "no answer" not in watch.text


async def test_a_thousand_moving_partitions_are_followed_poll_by_poll() -> None:
    async with watching(LARGE) as watch:
        names = [f"t-{n}" for n in range(1_000)]
        await watch.see(moves(*names))
        await watch.press("pagedown", "pagedown")
        before = watch.cursor
        await watch.see(*(moves(*names, at_s=s) for s in (1, 2, 3)))
        assert watch.cursor == before
        assert len(watch.rows) == 1_000
