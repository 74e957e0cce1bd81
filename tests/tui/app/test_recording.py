"""Recordings and rehearsals in the view."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from ktui.cli.context.config import Context
from ktui.cli.record_prune import ClusterRecording
from ktui.cli.rehearse import StartCommand
from ktui.cli.rehearse_live import LivePlan, ShownRehearsal, rehearsal_app
from ktui.cli.watch import command as watch_verb
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir, resolve_state_dir
from ktui.pacing.limits import Limits
from ktui.recording.reading import GoodLine, find_sessions, read_lines
from ktui.recording.recorder import Recorder
from ktui.recording.segments import End, Head, PollLine
from ktui.rehearsal.aftermath import Played
from ktui.rehearsal.play import Rehearsal
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.scenario.file import FASTEST
from ktui.tui.app.app import KtuiApp
from ktui.tui.app.simulated import RehearsalApp
from ktui.tui.poll import Polling
from ktui.tui.replay.walk import Survey
from support.cli.call_ktui import NamedCluster
from support.simulated.moving_clusters import ONTO_4, TWIN, a_cluster, played, rehearsal_of
from support.views.replays import the_tape
from support.views.screens import SHIPPED, RealTime
from support.views.watching import MIDDLE, POLL_S, Looks, Watching


async def test_the_header_shows_rec_until_the_disk_is_full_and_then_why_it_stopped(
    tmp_path: Path,
) -> None:
    cluster = a_cluster(moving=["orders-0"])
    looks = Looks(cluster)
    recorder = Recorder(tmp_path / "recordings", cluster.clock, program="ktui of a test")
    recording = ClusterRecording(looks, recorder, StateDir(tmp_path / "state"))
    app = KtuiApp(
        recording,
        recorder=recorder,
        cluster_name="prod-eu",
        read_only=True,
        poll_interval_s=POLL_S,
        theme=None,
        themes=SHIPPED,
        clock=cluster.clock,
    )
    async with app.run_test(size=MIDDLE, notifications=True) as pilot:
        watch = Watching(app, looks, cluster, pilot)
        await watch.begin()
        assert "READ-ONLY   REC  " in watch.lines[0]

        recorder._stop("no space left on device")
        await watch.see()

        assert "REC STOPPED" in watch.lines[0]
        words = " ".join(watch.text.split())  # the folder decides where the line is wrapped
        assert "recording has stopped: no space left on device" in words
    await recording.aclose()
    await looks.aclose()

    (session,) = find_sessions(tmp_path / "recordings")
    read = [each for file in session.files for each in read_lines(file)]
    assert [each for each in read if isinstance(each, GoodLine) and isinstance(each.line, PollLine)]


@pytest.mark.parametrize("records", [True, False])
async def test_a_view_records_only_when_asked_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, records: bool
) -> None:
    shown: list[KtuiApp] = []

    async def run(app: KtuiApp) -> None:
        shown.append(app)
        assert isinstance(app.poll_loop, Polling)
        await app.poll_loop.poll_once()

    monkeypatch.setattr(KtuiApp, "run_async", run)
    monkeypatch.setattr(KtuiApp, "post_message", lambda *_: True)
    cluster: Any = NamedCluster(reader=a_cluster().reader)
    recorder = Recorder(tmp_path / "recordings", SystemClock(), program="ktui of a test")
    state = StateDir(tmp_path / "state")

    await watch_verb._shown(
        watch_verb.LiveView(cluster=cluster, state=state, recorder=recorder if records else None)
    )

    (app,) = shown
    assert app.cluster_status().recorded is (True if records else None)
    assert (tmp_path / "recordings").exists() is records
    if records:
        (session,) = find_sessions(tmp_path / "recordings")
        kinds = [
            type(each.line) for each in read_lines(session.files[0]) if isinstance(each, GoodLine)
        ]
        assert kinds == [Head, PollLine, End]


SPEED = 10.0
ONE_BY_ONE = Limits(replicas=1, partitions=1)


class Rehearsing(RealTime[RehearsalApp]):
    """A rehearsal in the view, with real time and the keyboard."""

    def __init__(
        self, app: RehearsalApp, shown: ShownRehearsal, real: VirtualClock, pilot: Pilot[None]
    ) -> None:
        super().__init__(app, real, pilot)
        self.shown = shown

    async def command(self, line: str) -> None:
        await self.press("colon")
        await self.submit(line)


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
        await view.press("i", say="at target            2 of 2")
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
        assert "break something at broker 4" in view.text  # that which the copy goes to
        assert "min.insync.replicas orders=3" in view.text
        await view.press("t")
        assert "it is up" in view.text  # and nothing happens
        await view.press("right")
        assert "break something at broker 5" in view.text
        await view.press("left", "k", say="kill 4: it has happened")
        await view.until(lambda: "broker 4 down" in view.text)

        await view.press("b")
        await view.until(lambda: "counted at" in view.text)
        await view.press("home", "down", "down", "down", "B")
        assert "break something at broker 4" in view.text
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
        await view.press(
            "c", "up", "right", say="Press y to roll back everything in the run (2 partitions)"
        )
        await view.press("y", *"moves", "enter")
        await view.until(lambda: view.shown.outcome)

        assert "ONLY ROLLBACKS GO ON" in view.text
        assert "1 rolled back, 1 not started" in view.text
        report = await view.shown.report()
        assert "at target           0 of 2" in report
        assert "  ktui: the cancel gate is shut" in report.split("kill 4: after ")[1]
