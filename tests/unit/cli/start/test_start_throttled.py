"""`ktui start` with a throttle, a time to end by, and partitions that go first."""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import Result

from ktui.cli.context.terminal import BadInput
from ktui.cli.options.run import OPTION, moment_to_come
from ktui.execution.run.events import Started
from ktui.execution.run.run import Run
from ktui.ops.start import fits
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.cluster import SimulatedCluster
from ktui.speed.answer import Basis, HowLong, Span
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import read
from support.simulated.moving_clusters import a_cluster


def written_to(bytes_s: int = 0) -> SimulatedCluster:
    """A cluster with writes to each partition."""
    return a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}, inbound_s=bytes_s / 1_000)


def options(sandbox: StartSandbox) -> Any:
    """Return the options of the run that was created."""
    (run,) = sandbox.state.run_dirs()
    event = read(run.journal)[0][0].event
    assert isinstance(event, Started)
    return event.options


def assert_started(result: Result) -> None:
    assert str(result.exception) == "no engine is to be started", result.output


@pytest.fixture
def kept(sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch) -> StartSandbox:
    """An sandbox that keeps a run whose engine does not start."""
    monkeypatch.setattr("ktui.execution.host.launch.shutil.rmtree", lambda *_, **__: None)
    return sandbox


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        ("fast", "--throttle: 'fast': "),
        ("0", "--throttle: '0' lets nothing through"),
        ("5MB,6MB", "--throttle: '5MB,6MB' has several rates for every broker"),
        ("x=5MB", "--throttle: 'x' is not a broker id"),
        ("3=5MB,3=6MB", "--throttle: broker 3 is given twice"),
    ],
)
def test_a_malformed_throttle_is_refused_with_the_fix(
    sandbox: StartSandbox, rate: str, words: str
) -> None:
    refusal = sandbox.refusal(sandbox.plan(), "--throttle", rate)

    assert refusal.startswith(words)
    assert sandbox.runs == []


def test_throttle_leaders_is_refused_without_a_rate(sandbox: StartSandbox) -> None:
    for more in ((), ("--throttle", "none")):
        refusal = sandbox.refusal(sandbox.plan(), "--throttle-leaders", *more)

        assert refusal == (
            "--throttle-leaders: leaders have no rate to throttle to. Give --throttle RATE"
        )
    assert sandbox.runs == []


def test_a_run_starts_with_the_given_throttle(kept: StartSandbox) -> None:
    assert_started(kept.start(kept.plan(), "--throttle", "50MB,4=20MB", "--throttle-leaders"))

    assert options(kept).throttle == parse_throttle_rates("50MB,4=20MB")
    assert options(kept).throttle_leaders is True


@pytest.mark.parametrize("context_rate", ["30MB", 30_000_000])
def test_the_throttle_of_a_context_applies_unless_an_option_overrides_it(
    kept: StartSandbox, context_rate: str | int
) -> None:
    kept.cluster(written_to(), throttle=context_rate)

    assert_started(kept.start(kept.plan()))

    assert options(kept).throttle == parse_throttle_rates("30MB")


def test_a_run_may_turn_off_the_throttle_of_its_context(kept: StartSandbox) -> None:
    kept.cluster(written_to(), throttle="30MB")

    assert_started(kept.start(kept.plan(), "--throttle", "none"))

    assert options(kept).throttle == NO_THROTTLE


def test_a_run_is_started_with_an_objective_and_its_figure(kept: StartSandbox) -> None:
    figure = ("--slo", "p99<150ms", "--sli-command", "/bin/true")

    assert_started(kept.start(kept.plan(), "--throttle", "50MB", *figure))

    assert options(kept).throttle.typed == "50MB,slo=p99<150ms"
    assert options(kept).sli_command.endswith("/true")


@pytest.mark.parametrize(("given", "canary"), [((), True), (("--sli-command", "/bin/true"), False)])
def test_the_canary_of_a_context_measures_unless_an_option_names_a_figure(
    kept: StartSandbox, given: tuple[str, ...], *, canary: bool
) -> None:
    kept.cluster(written_to(), throttle="slo=p99<150ms", canary=True)

    assert_started(kept.start(kept.plan(), *given))

    assert options(kept).throttle.typed == "slo=p99<150ms"
    assert options(kept).canary is canary


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--slo", "p99<150ms"), "--slo: nothing measures the figure of p99<150ms. Use the canary"),
        (("--slo", "150ms"), "--slo: '150ms' is not an objective; use an objective such as"),
        (("--slo", "p99<0ms"), "--slo: 'p99<0ms' is not an objective"),
        (("--throttle", "slo=p99"), "--throttle: 'p99' is not an objective"),
        (
            ("--sli-command", "/bin/true", "--sli-prometheus", "http://x:9090", "q"),
            "--sli-command and --sli-prometheus name the same figure",
        ),
        (("--canary", "--sli-command", "/bin/true"), "--canary and --sli-command name the same"),
        (("--slo", "lag<5", "--canary"), "--slo: the canary measures p50 to p99.9, and no lag"),
        (("--sli-prometheus", "prometheus:9090", "q"), "--sli-prometheus prometheus:9090: is not"),
        (("--sli-prometheus", "http://x:9090", " "), "--sli-prometheus: the query is empty"),
        (("--sli-command", "/no/such"), "--sli-command: /no/such: no such program"),
    ],
)
def test_an_objective_that_cannot_be_kept_is_refused_before_anything_is_sent(
    sandbox: StartSandbox, given: tuple[str, ...], words: str
) -> None:
    assert sandbox.refusal(sandbox.plan(), *given).startswith(words)
    assert not sandbox.runs


PLACES = [(1, 2, 3), (1, 2, 3)]
OFFSETS = "__consumer_offsets"


@pytest.fixture
def plan(sandbox: StartSandbox) -> str:
    """A plan of two partitions of a topic of Kafka's own, and one of orders."""
    sandbox.cluster(a_cluster({"orders": PLACES, OFFSETS: PLACES}))
    offsets = {f"{OFFSETS}_{n}": (4, 2, 3) for n in range(2)}
    return sandbox.plan(**offsets, orders_0=(4, 2, 3))


def test_an_unknown_word_is_refused_with_the_known_ones(sandbox: StartSandbox, plan: str) -> None:
    assert sandbox.refusal(plan, "--internal", "never") == (
        "--internal: 'never' is not a valid value. Use first or last or none"
    )
    refused = sandbox.refusal(plan, "--internal", "last", "--shape", "kip-435")
    assert refused.startswith("--internal: it has no effect in shape kip-435")


NOW = datetime(2026, 11, 21, 13, 30, tzinfo=UTC)


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(os.environ, "TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("text", "utc"),
    [
        ("15:00", datetime(2026, 11, 21, 14, 0, tzinfo=UTC)),
        ("14:30", datetime(2026, 11, 22, 13, 30, tzinfo=UTC)),
        ("9:05:30", datetime(2026, 11, 22, 8, 5, 30, tzinfo=UTC)),
        ("2026-11-21T15:00", datetime(2026, 11, 21, 14, 0, tzinfo=UTC)),
        ("2026-11-21 15:00:00+00:00", datetime(2026, 11, 21, 15, 0, tzinfo=UTC)),
        ("2026-11-22T00:00Z", datetime(2026, 11, 22, 0, 0, tzinfo=UTC)),
    ],
)
def test_until_takes_a_local_time_and_its_next_occurrence_unless_given_in_full(
    text: str, utc: datetime
) -> None:
    assert moment_to_come(OPTION, text, NOW) == utc


@pytest.mark.usefixtures("berlin")
def test_until_takes_a_time_of_day_across_a_clock_change() -> None:
    evening = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)

    assert moment_to_come(OPTION, "06:00", evening) == datetime(2026, 10, 25, 5, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["25:00", "15:60", "15", "tomorrow", "", "2026-11-31T10:00", "2026-11-22", "3 pm"]
)
def test_until_refuses_a_malformed_time_with_an_example(text: str) -> None:
    with pytest.raises(BadInput, match=r"--until .*: is not a time\. Give a time such as 15:00"):
        moment_to_come(OPTION, text, NOW)


def test_until_refuses_a_time_in_the_past() -> None:
    with pytest.raises(BadInput, match="is in the past"):
        moment_to_come(OPTION, "2026-11-21T13:29Z", NOW)


@pytest.mark.parametrize(
    ("high_s", "low_s", "verdict"),
    [(600, 60, "the plan fits"), (7200, 60, "may not fit"), (9000, 3601, "does not fit")],
)
def test_a_dry_run_judges_whether_the_plan_fits_before_until(
    high_s: float, low_s: float, verdict: str
) -> None:
    time = HowLong(time_s=Span(low_s, 600, high_s), basis=Basis())
    words = fits(time, NOW + timedelta(hours=1), NOW).sentence

    assert verdict in words
    assert ("ktui resume" in words) == (verdict != "the plan fits")


def test_a_dry_run_cannot_judge_the_fit_with_unknown_sizes() -> None:
    assert "sizes are unknown" in fits(None, NOW + timedelta(hours=1), NOW).sentence


@pytest.mark.parametrize(
    ("given", "urgent_first"),
    [((), False), (("--urgent-first",), True), (("--no-urgent-first",), False)],
)
def test_urgent_partitions_of_a_plan_from_a_file_go_first_only_if_that_was_asked_for(
    kept: StartSandbox, given: tuple[str, ...], *, urgent_first: bool
) -> None:
    kept.start(kept.plan(), *given)

    (run,) = kept.state.run_dirs()
    entries = read(run.journal)[0]
    assert isinstance(entries[0].event, Started)
    assert entries[0].event.options.urgent_first is urgent_first
    assert Run("drain").fold(entries).options.urgent_first is urgent_first
