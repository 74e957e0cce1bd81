"""`ktui start --throttle`: checked before ktui connects, and in the forecast of the run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result

from ktui.execution.run.events import Started
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.cluster import SimulatedCluster
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


def test_a_dry_run_shows_the_throttle_and_the_basis_of_the_time_estimate(
    sandbox: StartSandbox,
) -> None:
    arguments = (sandbox.plan(), "--dry-run", "--throttle", "10MB")

    text = sandbox.start(*arguments).stdout
    forecast = json.loads(sandbox.start(*arguments, "--json").stdout)

    assert "throttle  10 MB/s into each broker" in text.splitlines()
    assert "\ntime  about " in text
    assert forecast["throttle"] == {
        "every": 10_000_000,
        "brokers": [],
        "budget": None,
        "objective": None,
    }
    assert forecast["throttle_leaders"] is False
    rates = {each["broker"]: each["throttle_bytes_s"] for each in forecast["brokers"]}
    assert {broker for broker, rate in rates.items() if rate == 10_000_000} == {4}
    assert sandbox.runs == []


def test_json_of_a_dry_run_lists_a_rate_of_one_broker_with_its_id(sandbox: StartSandbox) -> None:
    forecast = sandbox.start(
        sandbox.plan(), "--dry-run", "--json", "--throttle", "10MB,4=none"
    ).stdout

    assert json.loads(forecast)["throttle"] == {
        "every": 10_000_000,
        "brokers": [{"broker": 4, "bytes_s": None}],
        "budget": None,
        "objective": None,
    }


def test_a_start_warns_of_a_throttle_below_the_rate_of_writes(sandbox: StartSandbox) -> None:
    sandbox.cluster(written_to(2_000_000))

    plan = sandbox.plan(orders_0=(4, 2, 3), orders_1=(5, 2, 3))
    assert_started(result := sandbox.start(plan, "--throttle", "1MB,5=none"))

    (warning,) = [line for line in result.stderr.splitlines() if "will never finish" in line]
    assert "warning: at 1.0 MB/s into broker 4 the run will never finish" in warning
    assert "are written to orders-0" in warning


def test_a_start_warns_of_throttled_leaders(sandbox: StartSandbox) -> None:
    assert_started(
        result := sandbox.start(sandbox.plan(), "--throttle", "9MB", "--throttle-leaders")
    )

    assert "warning: --throttle-leaders: what in-sync followers fetch" in result.stderr


def test_a_start_without_a_throttle_prints_nothing_about_throttles(sandbox: StartSandbox) -> None:
    assert_started(result := sandbox.start(sandbox.plan()))

    assert "throttle" not in result.stderr


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


def test_a_rate_under_which_no_copy_ends_is_refused_with_the_rate_that_was_meant(
    sandbox: StartSandbox,
) -> None:
    sandbox.cluster(written_to(2_000_000))

    refused = sandbox.start(sandbox.plan(), "--throttle", "50")

    assert refused.exit_code == 2
    assert "Did you mean 50MB?; --allow-slow allows it" in refused.output
    assert "nothing was sent" in refused.output
    assert sandbox.runs == []


def test_allow_slow_starts_a_run_under_which_no_copy_ends(kept: StartSandbox) -> None:
    kept.cluster(written_to(2_000_000))

    assert_started(kept.start(kept.plan(), "--throttle", "50", "--allow-slow"))
