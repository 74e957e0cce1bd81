"""A rehearsal in the view: it is watched, broken by keys and by words, and reported at its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from ktui.cli.context.config import Context
from ktui.cli.rehearse.command import StartCommand
from ktui.cli.rehearse.live import LivePlan, ShownRehearsal, rehearsal_app
from ktui.execution.host.state_dir import resolve_state_dir
from ktui.pacing.limits import Limits
from ktui.rehearsal.aftermath import Played
from ktui.rehearsal.play import Rehearsal
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.scenario.file import FASTEST
from ktui.tui.app.rehearsal import RehearsalApp
from ktui.tui.replay.walk import Survey
from support.rehearsal.small_twins import ONTO_4, TWIN, played, rehearsal_of
from support.views.replays import the_tape
from support.views.screens import screen_text

SPEED = 10.0
ONE_BY_ONE = Limits(replicas=1, partitions=1)


class Rehearsing:
    """A rehearsal in the view, with real time and the keyboard."""

    def __init__(
        self, app: RehearsalApp, shown: ShownRehearsal, real: VirtualClock, pilot: Pilot[None]
    ) -> None:
        self.app, self.shown, self.real, self.pilot = app, shown, real, pilot

    @property
    def text(self) -> str:
        return screen_text(self.app)

    async def until(self, condition: Callable[[], object]) -> None:
        """Let real time pass, half a second at a time, until a condition holds."""
        async with asyncio.timeout(60):
            while not condition():
                await self.real.advance(0.5)
                await self.pilot.pause()

    async def say(self, words: str) -> None:
        """Wait, while time stands still, until the screen shows some words."""
        async with asyncio.timeout(60):
            while words not in self.text:
                await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def command(self, line: str) -> None:
        await self.press("colon", *("space" if sign == " " else sign for sign in line), "enter")


@pytest.fixture(scope="module")
def plan() -> Rehearsal:
    return rehearsal_of(ONTO_4, limits=ONE_BY_ONE)


@pytest.fixture(scope="module")
def headless() -> Played:
    return played(ONTO_4, limits=ONE_BY_ONE)


@asynccontextmanager
async def rehearsing(
    plan: Rehearsal, size: tuple[int, int] = (80, 24), record: Path | None = None
) -> AsyncIterator[Rehearsing]:
    real = VirtualClock()
    clock = ScaledClock(SPEED, fastest=FASTEST, real=real)
    live = LivePlan(
        plan="moves.json",
        rehearsal=plan,
        twin=TWIN,
        given_rate=False,
        findings=(),
        start=StartCommand(
            path=Path("moves.json"),
            given=("--context", "prod"),
            context=Context(),
            state=resolve_state_dir(None),
            exclude_internal=False,
        ),
        record=record,
    )
    async with (
        rehearsal_app(live, clock) as (app, shown),
        app.run_test(size=size, notifications=True) as pilot,
    ):
        await pilot.pause()
        yield Rehearsing(app, shown, real, pilot)


async def test_a_plan_is_played_as_simulated_and_its_report_has_the_figures_of_the_headless_one(
    plan: Rehearsal, headless: Played
) -> None:
    async with rehearsing(plan) as view:
        await view.until(lambda: "run moves  RUNNING" in view.text)
        assert "SIMULATED x10" in view.text.split("\n")[0]
        await view.press("i")
        await view.say("the run goes on")  # the report is as of now
        await view.press("escape")
        await view.until(lambda: view.shown.outcome)
        await view.say("2 of 2 at target: i shows the report")
        await view.press("i")
        await view.say("at target            2 of 2")
        report = await view.shown.report()
        figures = {line[:18].strip(): line[18:].strip() for line in report.splitlines()}
        assert abs(int(figures["time"].removesuffix(" s")) - headless.lasted_s) < 3
        assert figures["at target"] == "2 of 2"
        assert figures["highest inflow"] == "50 MB/s"
        assert figures["leader epoch bumps"] == str(headless.leader_epoch_bumps)
        await view.press("escape", "R")
        assert view.app.plays_again


async def test_faults_come_by_a_key_at_the_cursors_broker_and_by_words_and_are_reported(
    plan: Rehearsal, tmp_path: Path
) -> None:
    async with rehearsing(plan, record=tmp_path) as view:
        await view.until(lambda: "step 1/2" in view.text)
        assert "SIMULATED x10   REC  " in view.text.split("\n")[0]
        await view.press("B")
        assert "break the twin at broker 4" in view.text  # that which the copy goes to
        assert "min.insync.replicas orders=3" in view.text
        await view.press("t")
        assert "it is up" in view.text  # and nothing happens
        await view.press("right")
        assert "break the twin at broker 5" in view.text
        await view.press("left", "k")
        await view.say("kill 4: it has happened")
        await view.until(lambda: "broker 4 down" in view.text)

        await view.press("b")
        await view.until(lambda: "counted at" in view.text)
        await view.press("down", "down", "down", "B")
        assert "break the twin at broker 4" in view.text
        assert "not now: it is down" in view.text
        await view.press("escape", "escape")
        await view.command("event strat 4")
        assert "Did you mean `start`?" in view.text
        await view.press("escape")
        await view.command("event start 4 at 5m")
        await view.say("start 4 at 5m: it happens in")
        await view.command("limits P=2")

        await view.until(lambda: view.shown.outcome)
        report = await view.shown.report()
        assert "limits: P 1 -> 2" in next(x for x in report.splitlines() if "Changed after" in x)
        assert report.endswith(
            "  ktui start moves.json --context prod --partitions 2 --cuts-per-minute none "
            "--order topic --internal none"
        )
        assert "start 4 at 5m: after 5m" in report
        killed = report.split("kill 4: after ")[1].split("\n\n")[0]
        assert "  ktui: orders-1: blocked: broker 4" in killed
        assert ". In the 5m that followed:" in killed
        assert "  to do: Start broker 4, or cancel the reassignment." in killed
        assert "  a rollback then: " in killed
        await view.command("event kill 5")
        assert "nothing that happens now counts" in view.text
    recorded = the_tape(tmp_path)
    assert f"recorded, as a simulated cluster: {tmp_path}/simulated-prod/" in report
    assert recorded.cluster == "prod.yaml (simulated)"
    survey = Survey(recorded)
    survey.go_on(math.inf)
    assert "broker 4 is down" in [mark.words for mark in survey.marks]
    assert [run.name for run in survey.runs] == ["moves"]
    assert survey.runs[0].until(recorded.wall(recorded.until_s)).ended


async def test_a_run_whose_broker_was_killed_is_rolled_back_as_on_the_real_cluster(
    plan: Rehearsal,
) -> None:
    async with rehearsing(plan, (120, 34)) as view:
        await view.until(lambda: "step 1/2" in view.text)
        await view.press("B", "k")
        await view.until(lambda: "broker 4 down" in view.text)
        await view.press("c", "up", "right")
        await view.say("Press y to roll back everything in the run (2 partitions)")
        await view.press("y", *"moves", "enter")
        await view.until(lambda: view.shown.outcome)

        assert "CANCEL GATE SHUT" in view.text
        assert "1 rolled back, 1 not started" in view.text
        report = await view.shown.report()
        assert "at target           0 of 2" in report
        assert "  ktui: the cancel gate is shut" in report.split("kill 4: after ")[1]
