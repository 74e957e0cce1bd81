"""What stands before a request, and what is said of its answer."""

import asyncio
import inspect
import re
import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import for_code

import ktui
from ktui.cluster.asking import RequestsByKey
from ktui.cluster.clock import SystemClock
from ktui.cluster.errors import (
    ClusterError,
    KafkaError,
    Means,
    NotAuthorized,
    Operation,
    TimedOut,
    Unreachable,
    error_of,
    means,
)
from ktui.cluster.ownership import (
    ANSWER_STALE_S,
    LATE_S,
    ClaimStatus,
    OwnedByOthers,
    OwnedHere,
    OwnerUnknown,
    SendGuard,
    Unowned,
)
from ktui.cluster.text import clean
from ktui.simulated.clock import VirtualClock
from support.journals.journals import owner

ADA, BOB = owner("ada"), owner("bob")


class ScriptedClaim:
    """A claim with scripted answers."""

    def __init__(self, *standings: ClaimStatus) -> None:
        self._standings = list(standings)
        self.checks = 0
        self.silent = False

    async def check(self) -> ClaimStatus:
        self.checks += 1
        if self.silent:
            await asyncio.Event().wait()
        return self._standings.pop(0) if len(self._standings) > 1 else self._standings[0]

    async def claim(self, *, take_over: bool) -> ClaimStatus:
        assert not take_over
        return await self.check()


async def may_send(guard: SendGuard, *, begins_step: bool) -> str | None:
    """Ask, and evaluate the answer at once, like an engine."""
    await guard.ask()
    return guard.why_not(begins_step=begins_step)


def guarded(scripted: ScriptedClaim, clock: VirtualClock | None = None) -> SendGuard:
    return SendGuard(scripted, clock or VirtualClock())  # type: ignore[arg-type]  # it only checks


async def test_an_owner_may_send() -> None:
    guard = guarded(ScriptedClaim(OwnedHere(ADA)))

    assert await may_send(guard, begins_step=True) is None
    assert guard.standing == OwnedHere(ADA)


@pytest.mark.parametrize(
    ("standing", "why"),
    [
        (OwnedByOthers(BOB, lives=True), "bob on ops1"),
        (OwnedByOthers(None, lives=True), "another state directory"),
        (Unowned(), "lapsed"),
    ],
)
async def test_an_engine_that_lost_the_cluster_never_sends_again(
    standing: ClaimStatus, why: str
) -> None:
    scripted = ScriptedClaim(OwnedHere(ADA), standing, OwnedHere(ADA))
    guard = guarded(scripted)
    assert await may_send(guard, begins_step=True) is None

    ends_something = await may_send(guard, begins_step=False)

    assert ends_something is not None
    assert why in ends_something
    assert guard.lost == ends_something
    assert await may_send(guard, begins_step=True) == ends_something
    assert scripted.checks == 2


async def test_only_requests_that_end_something_are_sent_while_the_owner_is_unknown() -> None:
    clock = VirtualClock()
    guard = guarded(ScriptedClaim(OwnerUnknown("the coordinator is down"), OwnedHere(ADA)), clock)

    begins = await may_send(guard, begins_step=True)

    assert begins is not None
    assert "the coordinator is down" in begins
    assert await may_send(guard, begins_step=False) is None
    assert guard.lost is None
    clock.pass_time(3.0)
    assert await may_send(guard, begins_step=True) is None


async def test_an_unknown_owner_is_not_checked_again_at_every_request() -> None:
    clock, scripted = VirtualClock(), ScriptedClaim(OwnerUnknown("the coordinator is down"))
    guard = guarded(scripted, clock)

    for _ in range(10):
        await may_send(guard, begins_step=False)
    checks_at_once = scripted.checks
    clock.pass_time(3.0)
    await may_send(guard, begins_step=False)

    assert (checks_at_once, scripted.checks) == (1, 2)


async def test_an_answer_is_valid_for_only_a_few_seconds() -> None:
    clock = VirtualClock()
    guard = guarded(ScriptedClaim(OwnedHere(ADA)), clock)
    assert guard.why_not(begins_step=False) is not None  # nobody was asked yet
    await guard.ask()

    clock.pass_time(ANSWER_STALE_S)
    assert guard.why_not(begins_step=True) is None
    assert guard.is_due
    clock.pass_time(0.1)

    assert "too long ago" in (guard.why_not(begins_step=True) or "")
    assert guard.why_not(begins_step=False) is not None


async def test_an_overdue_answer_still_allows_requests_that_end_something() -> None:
    clock, scripted = VirtualClock(leaping=True), ScriptedClaim(OwnedHere(ADA))
    guard = guarded(scripted, clock)
    await guard.ask()
    scripted.silent = True

    async def work() -> str:
        return "done"

    assert await guard.beside(work()) == "done"

    assert clock.monotonic() == LATE_S
    assert "no answer within 3 s" in (guard.why_not(begins_step=True) or "")
    assert guard.why_not(begins_step=False) is None
    clock.pass_time(60.0)
    await guard.ask()
    assert scripted.checks == 2, "an open question was asked again"


async def test_the_reason_for_an_unknown_owner_stays_while_the_next_answer_is_late() -> None:
    clock = VirtualClock(leaping=True)
    scripted = ScriptedClaim(OwnerUnknown("the partition of the claim is offline"))
    guard = guarded(scripted, clock)
    await guard.ask()
    scripted.silent = True
    clock.pass_time(3.0)

    await guard.ask()

    assert scripted.checks == 2
    assert "the partition of the claim is offline" in (guard.why_not(begins_step=True) or "")


async def test_an_unexpected_error_counts_as_no_answer() -> None:
    class Odd(ScriptedClaim):
        async def check(self) -> ClaimStatus:
            raise KeyError("members")

    guard = guarded(Odd(OwnedHere(ADA)))

    assert "cannot be read: KeyError" in (await may_send(guard, begins_step=True) or "")
    assert guard.why_not(begins_step=False) is None


async def test_a_request_cancelled_before_it_was_sent_leaves_nothing_behind() -> None:
    async def question() -> int:
        return 1

    call = question()
    asking: RequestsByKey[int, int] = RequestsByKey(Operation.LOG_ENDS, VirtualClock())

    asking.ask(1, call)
    await asking.aclose()

    assert inspect.getcoroutinestate(call) == inspect.CORO_CLOSED


ASLEEP_S = 3_600.0


def test_time_asleep_counts_as_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    # On Linux only CLOCK_BOOTTIME advances during sleep; elsewhere CLOCK_MONOTONIC does.
    reading = time.clock_gettime
    boot_clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    asleep_s = {boot_clock: 0.0}

    def read(which: int) -> float:
        return reading(which) + asleep_s.get(which, 0.0)

    monkeypatch.setattr(time, "clock_gettime", read)
    clock = SystemClock()
    before = clock.monotonic()
    asleep_s[boot_clock] = ASLEEP_S

    assert clock.monotonic() - before >= ASLEEP_S


def test_seconds_never_go_backwards() -> None:
    clock = SystemClock()

    read = [clock.monotonic() for _ in range(1_000)]

    assert read == sorted(read)


SOURCE = Path(ktui.__file__).parent
OTHERWISE_CALLED = {
    KafkaError.UNKNOWN_SERVER_ERROR,
    KafkaError.NOT_LEADER_OR_FOLLOWER,
    KafkaError.MESSAGE_TOO_LARGE,
    KafkaError.INVALID_TOPIC_EXCEPTION,
    KafkaError.INVALID_REPLICA_ASSIGNMENT,
}
"""Errors whose name in kafka-python differs from Kafka's."""
LIBRDKAFKA = {"workload.py", "probe.py"}
"""What they compare are names of confluent-kafka, some of which are Kafka's, too."""


def test_names_and_numbers_are_kafkas() -> None:
    assert {error for error in KafkaError if for_code(error.number).message != error} == (
        OTHERWISE_CALLED
    )
    assert max(Counter(error.number for error in KafkaError).values()) == 1


def test_an_error_is_found_by_its_number_and_its_name_and_one_that_is_not_there_means_nothing() -> (
    None
):
    assert error_of(41) is error_of("NOT_CONTROLLER") is KafkaError.NOT_CONTROLLER
    assert means(41, Means.UNCHANGED)
    assert means("REQUEST_TIMED_OUT", Means.DENIED, Means.UNDECIDED)
    assert not means("REQUEST_TIMED_OUT", Means.DENIED)
    for unknown in (0, 9_999, None, "SO_NEW_AN_ERROR"):
        assert error_of(unknown) is None
        assert not means(unknown, *Means)


def test_no_other_file_has_the_name_of_an_error_as_a_word() -> None:
    words = re.compile("|".join(f'"{error}"' for error in KafkaError))
    found = {
        str(file.relative_to(SOURCE))
        for file in SOURCE.rglob("*.py")
        if file.name not in LIBRDKAFKA and words.search(file.read_text())
    }
    assert found == {"cluster/errors.py"}


@pytest.mark.parametrize("kind", [Unreachable, NotAuthorized, TimedOut])
def test_nothing_that_a_server_says_in_an_error_reaches_a_terminal_as_it_is(
    kind: type[ClusterError],
) -> None:
    hostile = "x\x1b[2J\x9b1m\u202e\n"

    error = kind("connecting", where=hostile, answer=hostile, fix=hostile)

    shown = r"x\x1b[2J\x9b1m\u202e\n"
    assert (error.where, error.answer, error.fix) == (shown, shown, shown)
    assert str(error).isprintable()


@pytest.mark.parametrize("name", ["orders", "payments.eu-west_1", "Überweisung", "注文"])
def test_ordinary_names_are_unchanged(name: str) -> None:
    assert clean(name) == name


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\nb", r"a\nb"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u200bb", r"a\u200bb"),
        ("a\x9bb", r"a\x9bb"),
    ],
)
def test_control_and_invisible_characters_are_spelt_out(hostile: str, shown: str) -> None:
    assert clean(hostile) == shown


@given(st.text())
def test_nothing_unprintable_is_left_in_any_text(text: str) -> None:
    assert clean(text).isprintable()
    assert clean(clean(text)) == clean(text)
