"""`ktui start --throttle`: read before anything is connected to, and foreseen before the start."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import Result

from ktui.execution.run.events import Started
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from ktui.simulated.cluster import SimulatedCluster
from support.cli.start_desk import Office
from support.journals.journals import read
from support.simulated.moving_clusters import a_cluster


def written_to(bytes_s: int = 0) -> SimulatedCluster:
    """A cluster of which each partition is written to."""
    return a_cluster({"orders": [(1, 2, 3), (1, 2, 3)]}, inbound_s=bytes_s / 1_000)


def options(office: Office) -> Any:
    """Give the options of the run that was made."""
    (run,) = office.state.run_dirs()
    event = read(run.journal)[0][0].event
    assert isinstance(event, Started)
    return event.options


def begun(result: Result) -> None:
    assert str(result.exception) == "no engine is to be started", result.output


@pytest.fixture
def kept(office: Office, monkeypatch: pytest.MonkeyPatch) -> Office:
    """Give a desk at which a run whose engine does not begin is kept."""
    monkeypatch.setattr("ktui.execution.host.launch.shutil.rmtree", lambda *_, **__: None)
    return office


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
def test_a_rate_that_is_none_is_named_with_the_fix(office: Office, rate: str, words: str) -> None:
    refusal = office.refusal(office.plan(), "--throttle", rate)

    assert refusal.startswith(words)
    assert office.runs == []


def test_leaders_are_not_throttled_without_a_rate(office: Office) -> None:
    for more in ((), ("--throttle", "none")):
        refusal = office.refusal(office.plan(), "--throttle-leaders", *more)

        assert refusal == (
            "--throttle-leaders: leaders have no rate to throttle to. Give --throttle RATE"
        )
    assert office.runs == []


def test_a_run_begins_with_the_throttle_that_was_given(kept: Office) -> None:
    begun(kept.start(kept.plan(), "--throttle", "50MB,4=20MB", "--throttle-leaders"))

    assert options(kept).throttle == parse_throttle_rates("50MB,4=20MB")
    assert options(kept).throttle_leaders is True


@pytest.mark.parametrize("of_context", ["30MB", 30_000_000])
def test_the_throttle_of_a_context_holds_where_no_option_says_otherwise(
    kept: Office, of_context: str | int
) -> None:
    kept.cluster(written_to(), throttle=of_context)

    begun(kept.start(kept.plan()))

    assert options(kept).throttle == parse_throttle_rates("30MB")


def test_a_run_may_do_without_the_throttle_of_its_context(kept: Office) -> None:
    kept.cluster(written_to(), throttle="30MB")

    begun(kept.start(kept.plan(), "--throttle", "none"))

    assert options(kept).throttle == NO_THROTTLE


def test_a_dry_run_tells_the_throttle_and_what_the_time_rests_on(office: Office) -> None:
    arguments = (office.plan(), "--dry-run", "--throttle", "10MB")

    text = office.start(*arguments).stdout
    told = json.loads(office.start(*arguments, "--json").stdout)

    assert "throttle  10 MB/s into each broker" in text.splitlines()
    assert "at 10 MB/s into broker 4, which is throttled" in text
    assert told["throttle"] == {"every": 10_000_000, "brokers": []}
    assert told["throttle_leaders"] is False
    assert told["preflight"]["rates"]["throttles"] == [{"broker": 4, "bytes_s": 10_000_000}]
    assert office.runs == []


def test_a_rate_for_a_single_broker_is_told_with_its_id(office: Office) -> None:
    told = office.start(office.plan(), "--dry-run", "--json", "--throttle", "10MB,4=none").stdout

    assert json.loads(told)["throttle"] == {
        "every": 10_000_000,
        "brokers": [{"broker": 4, "bytes_s": None}],
    }


def test_a_throttle_under_what_is_written_is_warned_of_before_the_start(office: Office) -> None:
    office.cluster(written_to(2_000_000))

    begun(result := office.start(office.plan(), "--throttle", "1MB"))

    (warned,) = [line for line in result.stderr.splitlines() if "never ends" in line]
    assert "warning: at 1.0 MB/s into broker 4 the run never ends" in warned
    assert "are written to orders-0" in warned


def test_throttled_leaders_are_warned_of_before_the_start(office: Office) -> None:
    begun(result := office.start(office.plan(), "--throttle", "9MB", "--throttle-leaders"))

    assert "warning: --throttle-leaders: what in-sync followers fetch" in result.stderr


def test_a_run_without_a_throttle_is_started_without_a_word_of_it(office: Office) -> None:
    begun(result := office.start(office.plan()))

    assert "throttle" not in result.stderr
