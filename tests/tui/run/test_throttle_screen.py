from __future__ import annotations

from pathlib import Path
from typing import Any

from ktui.cluster.ports import ConfigResource, ConfigScope
from ktui.cluster.settings import FOLLOWER_RATE
from ktui.pacing.limits import Limits
from ktui.simulated.cluster import SimulatedCluster
from ktui.tui.screens.forms import RateInput
from ktui.tui.screens.run.throttle import ThrottleScreen
from ktui.tui.screens.watch.screen import WatchScreen
from support.runs.throttled import set_rate
from support.views.running import RunWatched, a_quiet_cluster, moved, watching_run, watching_runs
from support.views.watching import LARGE, MIDDLE, SMALL

NAMES = ("a-0", "a-1")
TOGETHER = Limits(replicas=1, partitions=2)
WRITTEN_S = 2_000
"""Messages a second written to each partition: 2 MB/s."""


def a_written_cluster(**how: Any) -> SimulatedCluster:
    return a_quiet_cluster(
        *NAMES, **{"messages": 200_000, "inbound_s": WRITTEN_S, "copied_s": 50_000, **how}
    )


def throttled(folder: Path, throttle: str = "1MB", **how: Any) -> Any:
    return watching_run(
        how.pop("cluster", None) or a_written_cluster(),
        folder,
        moved(*NAMES),
        TOGETHER,
        throttle,
        **how,
    )


async def rates_of(watch: RunWatched) -> dict[str, str]:
    """Return the rates that are set on brokers."""
    resources = [ConfigResource(ConfigScope.BROKER, str(broker)) for broker in range(1, 10)]
    answer = await watch.cluster.reader().settings(resources, (FOLLOWER_RATE,))
    found = {
        r.name: configs[FOLLOWER_RATE].value for r, configs in answer.settings.items() if configs
    }
    return dict(sorted(found.items()))


async def test_many_brokers_can_be_paged_while_the_field_stays_visible(
    tmp_path: Path,
) -> None:
    own = ",".join(f"{broker}=3MB" for broker in range(1, 10))
    async with throttled(tmp_path, f"20MB,{own}", size=SMALL) as watch:
        await watch.pass_time(3)
        await watch.press("t")
        assert "new throttle" in watch.text
        assert "Enter puts it in force at once" in watch.text
        assert "listed for it" not in watch.text
        await watch.press("pagedown", "pagedown")
        assert "listed for it" in watch.text
        await watch.press("pageup", "pageup")
        assert "fastest inbound" in watch.text


async def test_a_read_only_view_shows_the_throttle_and_why_it_cannot_be_changed(
    tmp_path: Path,
) -> None:
    async with throttled(tmp_path, "20MB", write=False) as watch:
        await watch.press("t")
        assert isinstance(watch.app.screen, ThrottleScreen)
        assert "throttle of run drain-3" in watch.text
        assert "in force: 20 MB/s into each broker" in watch.text
        assert "This view is read-only" in watch.text
        await watch.press("3", "enter", "escape")
        assert isinstance(watch.app.screen, WatchScreen)


async def test_the_throttle_key_without_a_run_reports_that_none_is_attached(tmp_path: Path) -> None:
    async with watching_runs(a_quiet_cluster("a-0"), tmp_path) as watch:
        await watch.press("t")
        assert isinstance(watch.app.screen, WatchScreen)
        await watch.say("No run is attached.")


async def test_a_run_without_an_engine_shows_the_remaining_throttle_and_the_resume_command(
    tmp_path: Path,
) -> None:
    async with throttled(tmp_path, "20MB", size=LARGE) as watch:
        await watch.engines.aclose()
        await watch.see()
        assert "its throttle stays on broker 4 and topic a" in watch.line("limits")
        await watch.press("t", "3", "enter")
        assert "The run has no engine; its throttle may stay on broker 4" in watch.text
        assert "Resume it first: ktui resume drain-3" in watch.text


async def test_a_throttle_that_is_too_low_is_reported_and_a_new_one_takes_effect_at_once(
    tmp_path: Path,
) -> None:
    async with throttled(tmp_path) as watch:
        await watch.pass_time(60)
        for size in (SMALL, LARGE, MIDDLE):
            await watch.resize(size)
            assert "‼ THROTTLE TOO LOW (t): 1.0 MB/s into broker 4, needs more than 4" in watch.text
            assert "needs more than" in watch.line("THROTTLE TOO LOW")
            assert watch.lines[-1].strip().startswith("t raise throttle   ")

        await watch.press("t")
        await watch.type("30MB")
        await watch.press("enter")
        await watch.say("Requested; the brokers are set at the run's next poll.")
        await watch.pass_until("30 MB/s into each broker, at once; 2 steps in flight")
        assert await rates_of(watch) == {"4": "30000000"}
        await watch.press("escape")
        await watch.pass_until("throttle 30 MB/s into each broker")
        assert "THROTTLE TOO LOW" not in watch.text
        assert "raise" not in watch.lines[-1]


async def test_each_broker_row_shows_the_requested_current_and_previous_rate(
    tmp_path: Path,
) -> None:
    cluster = a_written_cluster()
    cluster.configure([set_rate(4, 7_000_000)])
    async with throttled(tmp_path, "20MB,5=3MB", cluster=cluster, size=MIDDLE) as watch:
        await watch.pass_time(20)
        await watch.press("t")
        assert "in force: 20 MB/s into each broker, 3.0 MB/s into" in watch.text
        row = watch.dialog_line("4       20 MB/s")
        assert row.split()[3:7] == ["20", "MB/s", "7.0", "MB/s"]
        assert "2.0 MB/s a-" in row
        assert "2 replicas listed for it, of topic a." in watch.text
        # a broker whose own rate is not typed again is named
        await watch.type("30MB")
        assert "Broker 5 would get 30 MB/s too" in watch.text


async def test_the_runs_own_rate_is_taken_again_after_somebody_else_has_set_another(
    tmp_path: Path,
) -> None:
    cluster = a_written_cluster()
    async with throttled(tmp_path, "20MB", cluster=cluster, size=MIDDLE) as watch:
        await watch.pass_time(20)
        cluster.configure([set_rate(4, 7_000_000)])
        await watch.pass_time(20)
        assert await rates_of(watch) == {"4": "7000000"}

        await watch.press("t")
        await watch.type("20MB")
        assert "This is in force already." not in watch.text
        await watch.press("enter")
        await watch.pass_until("20 MB/s into each broker, at once")

        assert await rates_of(watch) == {"4": "20000000"}


async def test_every_rate_is_restored_when_the_run_ends(tmp_path: Path) -> None:
    cluster = a_written_cluster(messages=20_000)
    cluster.configure([set_rate(4, 7_000_000)])
    async with throttled(tmp_path, "30MB", cluster=cluster, size=LARGE) as watch:
        await watch.pass_until("ENDED", most_s=600)
        assert await rates_of(watch) == {"4": "7000000"}
        # the detail tells when a partition was throttled, and when no more
        await watch.press("enter")
        assert "run drain-3: to be throttled on broker 4" in watch.text
        assert "run drain-3: no longer to be throttled on broker 4" in watch.text


async def test_a_typed_throttle_is_assessed_before_it_is_requested(tmp_path: Path) -> None:
    async with throttled(tmp_path, "20MB", size=LARGE) as watch:
        await watch.pass_time(20)
        # the line of limits tells the throttle, and what comes in under it
        line = watch.line("limits")
        assert "throttle 20 MB/s into each broker" in line
        assert "b4 ▕" in line
        assert "▏ 20/20 MB/s" in line
        assert "fastest inbound 2.0 MB/s a-" in line

        await watch.press("t")
        field = watch.app.screen.query_one(RateInput)
        for typed, *configs in (
            ("3MB", "May be too low for the 2 copies onto broker 4"),
            ("1500kB", "Too low for a-"),
            (
                "9MB",
                "Everything in flight catches up under it",
                "Lowered: for up to 11 s, until Kafka",
            ),
            ("20MB", "This is in force already."),
            ("none", "Removes the throttle: earlier settings are restored."),
            ("20kB", "At 20 kB/s one fetch of 1 MiB takes 52 s"),
            ("20 apples", "! throttle: '20 apples'"),
            ("20MB,99=5MB", "! There is no broker 99 in the cluster, which has brokers 1, 2"),
            ("5=x", "! throttle: 'x'"),
        ):
            field.value = ""
            await watch.type(typed)
            for words in configs:
                assert words in watch.text
        await watch.press("enter")  # what cannot be is not asked for
        await watch.pass_time(3)
        assert "! throttle: 'x'" in watch.text
        field.value = ""
        await watch.type("50")
        await watch.press("enter")  # nor a rate under which no copy ends
        await watch.pass_time(3)
        assert "No copy in flight would end under it. Did you mean 50MB?" in watch.text
        assert "Asked for" not in watch.text
        assert watch.app.attached is not None
        assert watch.app.attached.run.throttled.rates.every == 20_000_000
