from __future__ import annotations

from pathlib import Path

from ktui.cluster.ports import ConfigChange, ConfigOp, ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_REPLICAS
from ktui.simulated.cluster import SimulatedCluster
from support.runs.throttled import set_rate
from support.views.running import ONE_BY_ONE, a_new_run, a_quiet_cluster, moved, watching_runs

WORDS = "throttles left behind? (ktui doctor)"


def forgotten(cluster: SimulatedCluster) -> SimulatedCluster:
    """Leave a rate on broker 4 and a throttled replica of b behind."""
    b = ConfigResource(ConfigScope.TOPIC, "b")
    listed = ConfigChange(b, FOLLOWER_REPLICAS, ConfigOp.SET, "0:1")
    cluster.configure([set_rate(4, 7_000_000), listed])
    return cluster


async def test_leftover_throttles_are_counted_once_their_settings_are_read(
    tmp_path: Path,
) -> None:
    cluster = forgotten(a_quiet_cluster("a-0", "b-0"))
    async with watching_runs(cluster, tmp_path, topics=["b"]) as watch:
        await watch.see()
        assert "1 throttle left behind? (ktui doctor)" in watch.text
        await watch.press("b")
        await watch.pass_time(2)
        assert f"2 {WORDS}" in watch.lines[1]


async def test_a_cluster_without_throttles_shows_no_note_of_them(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster("a-0", "b-0"), tmp_path, topics=["b"]) as watch:
        await watch.press("b")
        await watch.pass_time(2)
        assert "left behind" not in watch.text


async def test_throttles_of_the_attached_run_are_not_counted(tmp_path: Path) -> None:
    cluster = a_quiet_cluster("a-0", messages=5_000)
    async with watching_runs(cluster, tmp_path, topics=["a"]) as watch:
        new = a_new_run(moved("a-0"), ONE_BY_ONE, throttle="1MB")
        watch.app.call_later(watch.app.attach_to, await watch.engines.start(new))
        await watch.until(lambda: watch.app.attached is not None)
        await watch.press("b")
        while watch.app.attached is not None and not watch.app.attached.run.ended:
            await watch.see()
            assert "left behind" not in watch.text
        await watch.pass_time(70)
        assert "left behind" not in watch.text
