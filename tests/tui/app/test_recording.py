"""A recorded view is marked as such, and reports when recording has stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktui.cli.record.prune import ClusterRecording
from ktui.cli.watch import command as watch_verb
from ktui.cluster.clock import SystemClock
from ktui.execution.host.state_dir import StateDir
from ktui.recording.lines import End, Head, PollLine
from ktui.recording.reading import GoodLine, find_sessions, read_lines
from ktui.recording.recorder import Recorder
from ktui.tui.app.app import KtuiApp
from ktui.tui.poll.polling import Polling
from support.cli.named_cluster import NamedCluster
from support.simulated.moving_clusters import a_cluster
from support.views.screens import SHIPPED
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
        await app.poll_loop._poll_once()

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
