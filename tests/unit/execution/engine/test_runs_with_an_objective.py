"""A run with `--slo` copies as fast as the objective of its operator allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import RateHeld
from ktui.execution.run.text import held_text
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.objective import Figure
from ktui.pacing.limits import default_limits
from ktui.planning.throttle_rates import NO_THROTTLE, Objective, parse_throttle_rates
from ktui.simulated.layout import SetInbound
from support.runs.engine_runs import Replicas
from support.runs.throttle_rules import settings_in
from support.runs.throttled import ThrottledStory

WAYS: tuple[tuple[Replicas, Replicas], ...] = (
    ((1, 2, 3), (4, 2, 3)),
    ((2, 3, 1), (5, 3, 1)),
    ((3, 1, 2), (6, 1, 2)),
)
FAST = {"messages": 400_000, "copied_s": 20_000.0}
"""Each replica has 400 MB, and a broker can take in 20 MB/s."""
MB = 1_000_000


class _Felt(ThrottledStory):
    """A story whose figure is the rate in force, in MB/s: "latency<8" allows 8 MB/s."""

    def __init__(
        self, folder: Path, rate: str, sli_command: str = "/bin/latency", *, canary: bool = False
    ) -> None:
        ways = {f"orders-{n}": WAYS[n % 3] for n in range(12)}
        super().__init__(
            folder,
            ways,
            rate,
            limits=default_limits(),
            cluster=FAST,
            sli_command=sli_command,
            canary=canary,
        )
        self.silent = False
        self.figure = self._felt

    def _felt(self, _objective: Objective) -> Figure:
        rate = self.run.throttled.in_force.of(4)
        return Figure(None, "no metrics") if self.silent else Figure((rate or 20 * MB) / MB)

    @property
    def held(self) -> list[int]:
        return [event.rate for event in self.events if isinstance(event, RateHeld)]


def test_the_rate_rises_to_what_the_objective_allows_and_stays_below_it(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<8")

    run = story.played(until_s=500.0)

    assert story.held[0] <= 2 * FLOOR
    held = run.throttled.held_at
    assert held is not None
    assert 4 * MB <= held.rate <= 8 * MB
    assert held.kept >= 0.95 * held.windows > 20
    assert run.throttled.in_force.of(4) == held.rate


def test_before_the_first_figure_and_while_there_is_none_it_is_the_least_rate(
    tmp_path: Path,
) -> None:
    story = _Felt(tmp_path, "slo=latency<8")
    story.silent = True

    run = story.played(until_s=100.0)

    assert run.throttled.in_force.of(4) == FLOOR
    held = run.throttled.held_at
    assert held is not None
    assert held_text(held).startswith("1.0 MB/s into each broker: there is no figure: no metrics")


def test_with_figures_by_broker_each_has_a_rate_of_its_own(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "12MB,slo=latency<8")

    def felt(_objective: Objective) -> Figure:
        """Broker 4 feels three times as much as the others; leaders feel nothing."""
        in_force = story.run.throttled.in_force
        rates = {broker: (in_force.of(broker) or 0) / MB for broker in (4, 5, 6)}
        return Figure(None, brokers={1: 0.0, 2: 0.0, 3: 0.0, **rates, 4: 3 * rates[4]})

    story.figure = felt
    run = story.played(until_s=200.0)

    held = run.throttled.held_at
    assert held is not None
    assert MB < held.rates[4] <= 8 * MB / 3
    assert 4 * MB <= held.rates[5] <= 8 * MB
    assert {b: run.throttled.in_force.of(b) for b in (4, 5)} == {b: held.rates[b] for b in (4, 5)}
    assert story.rates[4] == str(held.rates[4])
    assert held.windows >= 10
    assert held.kept >= 0.95 * held.windows


def test_a_lower_throttle_stays_in_force(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "3MB,slo=latency<8")

    run = story.played(until_s=300.0)

    assert run.throttled.in_force.of(4) == 3 * MB


def test_at_the_end_everything_is_put_back(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<30")
    story.schedule(100.0, SetInbound("orders", 1_000.0))

    run = story.to_the_end()

    assert run.ended
    assert settings_in(story.cluster) == {}


def test_an_objective_is_changed_and_lifted_while_the_run_goes_on(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<2")
    story.asked(100.0, SetThrottle(parse_throttle_rates("slo=latency<6")))
    story.asked(300.0, SetThrottle(NO_THROTTLE))

    run = story.played(until_s=320.0)

    assert max(story.held) > 2.5 * MB
    assert not run.throttled.in_force


@pytest.mark.parametrize(
    ("canary", "words"),
    [
        (False, "nothing measures the figure of latency<6. Use the canary (--canary)"),
        (True, "the canary measures p50 to p99.9, and no latency"),
    ],
)
def test_a_run_without_its_figure_takes_no_objective(
    tmp_path: Path, *, canary: bool, words: str
) -> None:
    story = _Felt(tmp_path, "none", sli_command="", canary=canary)
    story.asked(1.0, SetThrottle(parse_throttle_rates("slo=latency<6")))

    story.played(until_s=10.0)

    [answer] = [each.answer for each in story.answers if each.answer]
    assert not answer.accepted
    assert answer.words.startswith(words)


def test_a_resumed_run_goes_on_at_its_rate(tmp_path: Path) -> None:
    story = _Felt(tmp_path, "slo=latency<8")
    before = story.played(until_s=300.0).throttled.held_at

    run = story.resumed(until_s=340.0)

    assert before is not None
    assert run.throttled.held_at is not None
    assert run.throttled.held_at.rate >= 0.8 * before.rate
    assert run.throttled.held_at.windows >= before.windows
