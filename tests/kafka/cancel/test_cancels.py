"""Partitions cancelled at every stage of a run, on Kafka before and from 4.3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from pathlib import Path

import pytest

from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.states import CancelKind
from ktui.kafka.connection.connection import Connection
from ktui.lab.layout import Lab
from ktui.pacing.limits import Shape
from support.contract.world import RealWorld
from support.kafka.acked_messages import AckedMessages
from support.kafka.labs import is_before_43
from support.kafka.real_cancels import ORIGINAL, CalledOff
from support.kafka.slow_topic import altered_while_moving, slow_down
from support.runs.cancel_stories import Case, Scope, Stage, a_grid

AT_ONCE = 12
G, K = Shape.GENTLE, Shape.KIP_435
STOP, BACK, TRIM = CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.TRIM
ONE, TOPIC, ALL = Scope.PARTITION, Scope.TOPIC, Scope.ALL

PAIRS = [
    Case(G, None, Stage.QUEUED, STOP, ONE),
    Case(K, 2, Stage.QUEUED, BACK, TOPIC),
    Case(G, 1, Stage.QUEUED, TRIM, ALL),
    Case(K, 1, Stage.ADDING, STOP, TOPIC),
    Case(G, 2, Stage.ADDING, BACK, ALL),
    Case(K, None, Stage.ADDING, TRIM, ONE),
    Case(G, None, Stage.ADDING, BACK, TOPIC),
    Case(K, 1, Stage.LEADS, STOP, ONE),
    Case(K, 1, Stage.LEADS, BACK, ALL),
    Case(K, 2, Stage.LEADS, TRIM, TOPIC),
    Case(G, 1, Stage.MID, STOP, ALL),
    Case(G, 1, Stage.MID, BACK, ONE),
    Case(G, 1, Stage.MID, TRIM, TOPIC),
    Case(G, 2, Stage.MID, BACK, ALL),
    Case(K, 1, Stage.MID, BACK, TOPIC),
    Case(K, 1, Stage.LAST, STOP, ALL),
    Case(K, 1, Stage.LAST, BACK, ONE),
    Case(K, 2, Stage.LAST, TRIM, ALL),
    Case(G, 1, Stage.LAST, BACK, TOPIC),
    Case(G, 2, Stage.LAST, STOP, ONE),
    Case(G, 1, Stage.DONE, STOP, ONE),
    Case(K, 1, Stage.DONE, BACK, TOPIC),
    Case(K, None, Stage.DONE, BACK, ALL),
    Case(G, 2, Stage.DONE, TRIM, TOPIC),
]
"""Covers every possible pair of shape, R, stage, kind and scope."""

ON_BOTH = [
    Case(K, 1, Stage.ADDING, BACK, ALL),
    Case(G, 1, Stage.MID, BACK, ONE),
    Case(K, 1, Stage.MID, STOP, TOPIC),
    Case(K, 1, Stage.LAST, BACK, ALL),
    Case(K, 2, Stage.LAST, TRIM, ONE),
    Case(G, 2, Stage.DONE, BACK, ALL),
]


@pytest.fixture
async def held(lab_of: Lab) -> AsyncIterator[RealWorld]:
    """A cluster whose brokers 4 and 5 copy throttled replicas extremely slowly."""
    world = RealWorld(Connection.to(lab_of.bootstrap_servers))
    await slow_down(world, 4, 5)
    yield world
    await world.aclose()


async def test_rollbacks_restore_the_original_and_stops_and_trims_match_the_preview(
    held: RealWorld, lab_of: Lab, tmp_path: Path
) -> None:
    cases = ON_BOTH if is_before_43(lab_of) else PAIRS
    await assert_as_previewed(cases, held, lab_of, tmp_path)


async def test_a_stopped_partition_is_trimmed_then_rolled_back_without_losing_messages(
    world: RealWorld, lab: Lab, tmp_path: Path
) -> None:
    await slow_down(world, 4, 5)
    called = CalledOff(Case(K, 1, Stage.LEADS, STOP, ONE), world, lab, tmp_path, "in-turn")
    await called.made()
    with AckedMessages(world.connection, called.subject, 2) as messages:
        await called.played()
        left = [await called.left()]
        for kind in (TRIM, BACK):
            called.run.ask(CancelMoves(kind, partitions=(called.tp,)))
            await called.run.execute()
            left.append(await called.left())

    assert left == [((4, 1, 2, 3), 4), ((4, 2, 1), 4), (ORIGINAL, ORIGINAL[0])]
    assert messages.acknowledged
    assert not messages.missing
    assert not messages.failed


@pytest.mark.soak
async def test_every_cancel_at_every_stage_ends_as_previewed(
    held: RealWorld, lab_of: Lab, tmp_path: Path
) -> None:
    await assert_as_previewed(list(a_grid()), held, lab_of, tmp_path)


async def assert_as_previewed(
    cases: Collection[Case], world: RealWorld, lab: Lab, folder: Path
) -> None:
    """Play cases, some at once; check that all ended as previewed and that none was altered
    while it moved, except by its cancel."""
    some, topics = asyncio.Semaphore(AT_ONCE), list[str]()

    async def played(number: int, case: Case) -> list[str]:
        own = folder / str(number)
        own.mkdir()
        called = CalledOff(case, world, lab, own, f"off-{number}")
        topics.extend((called.subject, called.other))
        async with some:
            try:
                await called.made()
                await called.played()
                return await called.differences()
            except Exception as error:  # noqa: BLE001 - reported with the others
                return [f"{case.name}: {error!r}"]
            finally:
                await called.aclose()

    results = await asyncio.gather(*(played(n, case) for n, case in enumerate(cases)))

    differing = [line for lines in results for line in lines]
    assert not differing, "\n".join(differing)
    assert not altered_while_moving(lab, *topics)
