"""Throttled runs whose engine is killed or signalled: once resumed they restore all settings."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ktui.cluster.ports import ConfigOp
from ktui.cluster.settings import FOLLOWER_RATE, FOLLOWER_REPLICAS
from ktui.execution.run.events import Answered, AnyRunEvent, Configure, Ended, Owned, SettingsFound
from ktui.execution.run.run import Run
from ktui.kafka.workload import fill
from ktui.lab.layout import Lab
from ktui.lab.nodes import wait_for
from ktui.pacing.limits import SHAPES, Shape
from support.cli.shell import LIMIT_S, Shell, ended
from support.contract.world import RealWorld
from support.kafka.metadata_log import ThrottleLog, held_to_the_rules
from support.kafka.real_runs import all_settings, changed

MIB = 1024 * 1024
RUN = "moves"
MOVES = [
    ((1, 2, 3), (4, 2, 5)),
    ((2, 3, 1), (2, 4, 1)),
    ((3, 1, 2), (5, 4, 3)),
    ((1, 3, 2), (1, 3, 2, 4)),
    ((2, 1, 3), (5, 1)),
    ((3, 2, 1), (1, 2, 3)),  # no replica is added
]


def finds(event: AnyRunEvent) -> bool:
    return isinstance(event, SettingsFound)


def throttles(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.changes[0].op is ConfigOp.APPEND


def answers(event: AnyRunEvent) -> bool:
    return isinstance(event, Answered)


def takes_off(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.changes[0].op is ConfigOp.SUBTRACT


def puts_back(event: AnyRunEvent) -> bool:
    return isinstance(event, Configure) and event.puts_back


Moment = Callable[[AnyRunEvent], bool]
KILLED = {
    "kip-435, with no request in flight": (Shape.KIP_435, (answers,) * 2),
}
KILLED_MORE = {"gentle, with no request in flight": (Shape.GENTLE, (answers,) * 3)}
KILLED_MID_REQUEST = {  # a request in flight may arrive for up to a minute
    f"{shape.value}, mid-request": (shape, (finds, throttles, answers, takes_off, puts_back))
    for shape in SHAPES
}
CASES = [
    *(pytest.param(*case, id=name) for name, case in KILLED.items()),
    *(
        pytest.param(*case, id=name, marks=pytest.mark.soak)
        for name, case in {**KILLED_MORE, **KILLED_MID_REQUEST}.items()
    ),
]


@pytest.mark.parametrize(("shape", "moments"), CASES)
async def test_a_repeatedly_killed_run_restores_every_setting_at_its_end(
    lab: Lab,
    world: RealWorld,
    shell: Shell,
    topic_name: str,
    shape: Shape,
    moments: Sequence[Moment],
) -> None:
    await world.create_topic(topic_name, [before for before, _ in MOVES])
    fill(world.connection, topic_name, range(len(MOVES)), bytes_each=MIB)
    before = all_settings(world.connection)
    words = ["--shape", shape.value, "--partitions", "2", "--replicas", "1"]
    leaders = ["--throttle-leaders"] if shape is Shape.KIP_435 else []
    follower = begin(shell, topic_name, [to for _, to in MOVES], "2MB", *words, *leaders)

    for moment in moments:
        wait_for_another(shell, moment)
        os.kill(shell.owner(RUN).pid, signal.SIGKILL)
        assert ended(follower).returncode == 1
        follower = shell.begin("resume", RUN, "--headless")
    wait_for_another(shell, lambda event: isinstance(event, Ended))

    done = ended(follower)
    assert done.returncode == 0, done.stderr
    assert not changed(world.connection, before)
    assert held_to_the_rules(ThrottleLog(lab, topic_name), "2000000", most=2) >= 7


async def test_a_signalled_engine_leaves_only_in_flight_replicas_throttled_until_resumed(
    world: RealWorld, shell: Shell, topic_name: str
) -> None:
    await world.create_topic(topic_name, [[1, 2]] * 4)
    fill(world.connection, topic_name, [1, 2], bytes_each=3 * MIB)  # 0 is copied at once
    before = all_settings(world.connection)
    targets = [(1, 2, 5), (1, 2, 4), (1, 2, 4), (1, 2, 5)]
    follower = begin(shell, topic_name, targets, "100kB", "--partitions", "2", "--order", "topic")
    shell.wait_for(RUN, Answered, 3)

    os.kill(shell.owner(RUN).pid, signal.SIGTERM)
    left = ended(follower)

    assert left.returncode == 130, left.stderr
    kept = {
        f"BROKER 4 {FOLLOWER_RATE}": "100000",
        f"TOPIC {topic_name} {FOLLOWER_REPLICAS}": "1:4,2:4",
    }
    assert changed(world.connection, before, kept) == kept
    resumed = shell.begin("resume", RUN, "--headless")
    shell.wait_for(RUN, Owned, 2)
    assert shell.ktui("throttle", RUN, "none").returncode == 0
    assert ended(resumed).returncode == 0
    assert not changed(world.connection, before)


def wait_for_another(shell: Shell, moment: Moment) -> None:
    """Wait until the engine reaches such a moment again; for answers, until all are in."""

    def seen() -> tuple[int, bool]:
        entries = shell.entries(RUN)
        run = Run(RUN).fold(entries)
        steps = (track.step for track in run.tracks_in_flight.values())
        out = run.throttled.asked or any(step and step.answered is None for step in steps)
        return sum(moment(entry.event) for entry in entries), not out

    before, _ = seen()

    def again() -> bool:
        count, all_in = seen()
        return count > before and (all_in or moment is not answers)

    assert wait_for(again, seconds=LIMIT_S), shell.log(RUN)


def begin(
    shell: Shell, topic: str, targets: Sequence[Sequence[int]], rate: str, *words: str
) -> Any:
    """Start a throttled run of a topic like an operator."""
    moves = [{"topic": topic, "partition": n, "replicas": list(to)} for n, to in enumerate(targets)]
    paced = ["--headless", "--poll", "200ms", *words, "--allow-replication-factor-change"]
    return shell.begin("start", shell.plan(RUN, moves), "--throttle", rate, *paced)
