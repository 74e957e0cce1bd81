"""Rates from a budget and from an objective."""

import random
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktui.execution.journal.commands import SetThrottle
from ktui.execution.run.events import BudgetShared, HeldBroker, RateCause, RateHeld, RateReason
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.execution.throttle.desired import SLACK, share_budget, usable
from ktui.execution.throttle.objective import WINDOW_S, Figure, ObjectiveRates, RateControl
from ktui.pacing.limits import Limits
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.progress.flows import BrokerFlow, Flows
from support.runs.engine_runs import Replicas
from support.runs.throttled import ThrottledStory

RF3 = (1, 2, 3)
LARGE, SMALL = "orders-0", "orders-1"
MB = 1_000_000
rates = st.integers(1, 10**9)
brokers = st.dictionaries(st.integers(1, 9), st.none() | rates.map(float), max_size=6)


def test_it_is_shared_evenly_and_moved_on_as_copies_end() -> None:
    before = share_budget(90 * MB, dict.fromkeys((1, 2, 3)), {})

    assert before == dict.fromkeys((1, 2, 3), 30 * MB)
    assert share_budget(90 * MB, dict.fromkeys((1, 2)), before) == dict.fromkeys((1, 2), 45 * MB)


def test_what_a_broker_cannot_use_goes_to_the_others() -> None:
    before = dict.fromkeys((1, 2, 3), 30 * MB)
    of_use = usable({1: 8e6, 2: 29e6, 3: 30e6}, before, {})

    shares = share_budget(90 * MB, {2: None, 3: None, **of_use}, before)

    assert of_use == {1: 10e6}
    assert shares == {1: 10 * MB, 2: 40 * MB, 3: 40 * MB}


def test_a_broker_that_uses_what_it_has_kept_may_get_more_again() -> None:
    shares = {1: 10 * MB}

    assert usable({1: 8e6}, shares, {}) == {}
    assert usable({1: 8e6}, shares, {1: 10e6}) == {1: 10e6}
    assert usable({1: 9e6}, shares, {1: 10e6}) == {}


def test_a_brokers_own_throttle_bounds_its_share() -> None:
    assert share_budget(90 * MB, {1: 10e6, 2: None, 3: None}, {}) == {
        1: 10 * MB,
        2: 40 * MB,
        3: 40 * MB,
    }


def test_little_changes_are_left_alone() -> None:
    before = dict.fromkeys(range(1, 12), 10 * MB)

    shares = share_budget(110 * MB, dict.fromkeys(range(1, 13)), before)

    assert {broker: shares[broker] for broker in before} == before
    assert shares[12] == int(110 * MB / 12)


@given(rates, brokers, brokers)
def test_all_shares_together_exceed_the_budget_by_no_more_than_the_slack(
    budget: int, earlier: dict[int, float | None], now: dict[int, float | None]
) -> None:
    shares = share_budget(budget, now, share_budget(budget, earlier, {}))

    assert shares.keys() == now.keys()
    assert sum(shares.values()) <= (1 + SLACK) * budget + 1_000 * len(now)
    for broker, most in now.items():
        assert shares[broker] <= max(1_000, (most or budget) / (1 - SLACK) + 1)
    if now and not any(now.values()):
        assert sum(shares.values()) >= (1 - SLACK) * budget - len(now)


WAYS: dict[str, tuple[Replicas, Replicas]] = {LARGE: (RF3, (4, 2, 3)), SMALL: (RF3, (5, 2, 3))}


def test_two_brokers_share_a_budget_and_the_last_one_gets_all_of_it(tmp_path: Path) -> None:
    ways = {**WAYS, "orders-2": (RF3, (4, 2, 3))}
    story = ThrottledStory(tmp_path, ways, "total=1MB", limits=Limits(replicas=1, per_broker=1))

    story.to_the_end()

    shared = [event.shares for event in story.events if isinstance(event, BudgetShared)]
    first = {each.broker: each.bytes_s for each in shared[0]}
    assert first == {4: 500_000, 5: 500_000}
    assert {each.broker: each.bytes_s for each in shared[1]} == {4: MB}
    story.assert_left_as_found()
    assert story.at_target(*ways)


@pytest.mark.parametrize("words", ["budget_shared", "configured"])
def test_nothing_stays_of_a_budget_whose_engine_is_killed(words: str, tmp_path: Path) -> None:
    story = ThrottledStory(
        tmp_path, WAYS, "800kB,total=1MB", limits=Limits(replicas=1, partitions=2)
    )
    story.killed(words)

    story.to_the_end()

    story.assert_left_as_found()
    assert story.at_target(*WAYS)


def test_a_budget_is_set_changed_and_lifted_while_a_run_goes_on(tmp_path: Path) -> None:
    story = ThrottledStory(tmp_path, WAYS, "400kB", limits=Limits(replicas=1, partitions=2))
    for at_s, text in ((3.0, "400kB,total=200kB"), (20.0, "total=2MB"), (30.0, "none")):
        story.asked(at_s, SetThrottle(parse_throttle_rates(text)))

    story.to_the_end()

    shared = [event.shares for event in story.events if isinstance(event, BudgetShared)]
    assert [sum(each.bytes_s or 0 for each in shares) for shares in shared[:2]] == [
        200_000,
        2_000_000,
    ]
    story.assert_left_as_found()
    assert story.at_target(*WAYS)


BELOW = 150.0


class Plant:
    """Producers whose latency rises with the copying, and with what they write themselves.

    A new rate shows in the second window, as under Kafka's quotas.
    """

    def __init__(self, room: Callable[[float], float], seed: int = 1) -> None:
        self._room = room
        self._chance = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self._rates: deque[float] = deque([FLOOR, FLOOR], maxlen=2)

    def figure(self, now_s: float, rate: float) -> float:
        """Return the p99 of a window, in ms: the objective is met up to the room there is."""
        felt = sum(self._rates) / 2
        self._rates.append(rate)
        load = felt / self._room(now_s)
        return 60 + 90 * load**3 * self._chance.uniform(0.9, 1.1)


def _played(room: Callable[[float], float], windows: int, seed: int) -> list[tuple[int, float]]:
    """Return the rate of each window and its figure."""
    plant, control, found = Plant(room, seed), RateControl(BELOW), []
    for number in range(windows):
        now_s = number * WINDOW_S
        figure = plant.figure(now_s, control.rate)
        found.append((control.window(figure, float(control.rate)), figure))
    return found


def _kept(found: list[tuple[int, float]]) -> float:
    return sum(figure <= BELOW for _, figure in found) / len(found)


@pytest.mark.parametrize("seed", range(10))
def test_the_objective_holds_in_nineteen_of_twenty_windows_near_the_highest_rate_that_keeps_it(
    seed: int,
) -> None:
    found = _played(lambda _: 40.0 * MB, 360, seed)

    assert _kept(found) >= 0.95
    rates = [rate for rate, _ in found[60:]]
    assert sum(rates) / len(rates) >= 0.75 * 40 * MB


@pytest.mark.parametrize("seed", range(10))
def test_it_gives_way_when_the_load_doubles_and_comes_back_when_it_is_over(seed: int) -> None:
    found = _played(lambda s: 20.0 * MB if 1_200 <= s < 2_400 else 40.0 * MB, 360, seed)

    assert _kept(found) >= 0.95
    during = [rate for rate, _ in found[130:240]]
    assert max(during) < 24 * MB
    assert found[-1][0] > 28 * MB


def test_two_windows_above_the_objective_lower_the_rate_and_one_alone_does_not() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(200.0, None) == 40 * MB
    assert control.window(200.0, None) == pytest.approx(27.5 * MB, rel=0.02)


def test_a_change_has_to_show_before_the_rate_moves_again() -> None:
    control = RateControl(BELOW, 10 * MB)

    assert control.window(20.0, None) == 20 * MB
    assert control.window(20.0, None) == 20 * MB
    assert control.window(20.0, None) > 35 * MB


def test_far_above_the_objective_it_does_not_wait() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(600.0, None) == 20 * MB
    assert control.window(600.0, None) == 10 * MB


def test_it_goes_up_as_far_as_the_figures_leave_room() -> None:
    control = RateControl(BELOW, 10 * MB)

    up = [control.window(30.0, None), *(control.window(75.0, None) for _ in range(6))]

    assert up[0] == pytest.approx(20 * MB, rel=0.02)
    assert up == sorted(up)
    assert up[-1] < 24 * MB


def test_one_quiet_window_after_loud_ones_does_not_double_the_rate() -> None:
    fresh, experienced = RateControl(BELOW, 20 * MB), RateControl(BELOW, 40 * MB)
    loud = [experienced.window(120.0, None) for _ in range(6)]

    assert loud[-1] < 40 * MB
    assert fresh.window(30.0, None) > 39 * MB
    assert experienced.window(30.0, None) < 1.2 * loud[-1]


def test_two_windows_above_the_objective_count_more_than_all_before() -> None:
    control = RateControl(BELOW, 40 * MB)
    for _ in range(12):
        before = control.window(88.0, None)

    assert control.window(200.0, None) > 0.9 * before
    control.window(200.0, None)  # the change may not have shown yet
    assert control.window(200.0, None) < 0.8 * before


def test_a_rate_that_nobody_uses_is_not_raised() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert [control.window(50.0, 10.0 * MB) for n in range(10)] == [40 * MB] * 10


def test_without_a_figure_for_two_windows_it_is_the_floor() -> None:
    control = RateControl(BELOW, 40 * MB)

    assert control.window(None, None) == 40 * MB
    assert control.window(None, None) == FLOOR


def test_it_knows_why_its_rate_moved_last() -> None:
    control = RateControl(BELOW, 40 * MB)

    def cause(figure: float | None, used: float | None = None) -> RateCause | None:
        control.window(figure, used)
        return None if control.why is None else control.why.cause

    assert cause(None) is None
    assert cause(200.0) is None
    assert cause(200.0) is RateCause.OVER
    assert cause(80.0) is RateCause.OVER  # the change has to show first
    assert [cause(90.0) for _ in range(6)][-1] is RateCause.IN_BAND
    assert [cause(30.0, 15.0 * MB) for _ in range(12)][-1] is RateCause.UNUSED
    assert cause(400.0) is RateCause.FAR_OVER
    assert control.why is not None
    assert control.why == RateReason(RateCause.FAR_OVER, 400.0, aim=control.why.aim)
    assert [cause(None), cause(None)] == [RateCause.FAR_OVER, RateCause.NO_FIGURE]
    assert [cause(20.0) for _ in range(3)][-1] is RateCause.UNDER


def test_the_more_windows_scatter_the_further_below_the_objective_their_mean_is_kept() -> None:
    def aim(scatter: float) -> float:
        chance, control = random.Random(1), RateControl(BELOW, FLOOR)  # noqa: S311 - a seed
        for _ in range(200):
            control.window(80 * chance.lognormvariate(0, scatter), 0.0)
        assert control.why is not None
        return control.why.aim

    assert 1.0 > aim(0.05) > aim(0.3) > aim(0.6) > 0.25


@given(st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.floats(0, 1e12))))
def test_it_never_goes_below_the_least_rate(
    windows: list[tuple[float | None, float | None]],
) -> None:
    control = RateControl(BELOW)

    for figure, used in windows:
        assert control.window(figure, used) >= FLOOR


QUIET = 40.0  # what a broker without copies has for a figure
Sources = Mapping[int, tuple[int, ...]]


class Hosts:
    """Brokers whose latency rises with the third power of what is copied into and out of each.

    A new rate shows in the second window, as under Kafka's quotas.

    Args:
        rooms: the bytes a second at which each broker is at the objective.
        sources: the leaders that each receiving broker copies from, in equal parts.
    """

    def __init__(self, rooms: Mapping[int, float], sources: Sources, seed: int = 1) -> None:
        self._rooms = rooms
        self._sources = sources
        self._chance = random.Random(seed)  # noqa: S311 - a seed, not a secret
        self._rates: deque[Mapping[int, int]] = deque([{}, {}], maxlen=2)

    def _load(self, broker: int, rates: Mapping[int, int]) -> float:
        received = float(rates.get(broker, FLOOR if broker in self._sources else 0))
        sent = sum(
            rates.get(to, FLOOR) / len(leaders)
            for to, leaders in self._sources.items()
            if broker in leaders
        )
        return received + sent

    def figures(self, rates: Mapping[int, int]) -> dict[int, float]:
        """Return the p99 of each broker in the window that ends now, in ms."""
        figures = {}
        for broker, room in self._rooms.items():
            load = sum(self._load(broker, each) for each in self._rates) / 2 / room
            figures[broker] = 60 + 90 * load**3 * self._chance.uniform(0.9, 1.1)
        self._rates.append(dict(rates))
        return figures


Window = tuple[Figure, Sources, Flows]


def _window(figures: Mapping[int, float], sources: Sources, **used: float) -> Window:
    flows = Flows({int(name[1:]): BrokerFlow(in_s=in_s) for name, in_s in used.items()})
    return Figure(None, brokers=figures), sources, flows


def _objective_rates_played(hosts: Hosts, sources: Sources, windows: int = 360) -> list[RateHeld]:
    rates, found = ObjectiveRates(BELOW), list[RateHeld]()
    for _ in range(windows):
        figures = hosts.figures(found[-1].rates if found else {})
        found.append(rates.window(*_window(figures, sources)))
    return found


def _mean(found: list[RateHeld], broker: int) -> float:
    return sum(held.rates[broker] for held in found[60:]) / len(found[60:])


@pytest.mark.parametrize("seed", range(5))
def test_a_broker_that_suffers_holds_no_other_one_back(seed: int) -> None:
    sources: Sources = {4: (1,), 5: (2,), 6: (3,)}
    rooms = {1: 400.0 * MB, 2: 400.0 * MB, 3: 400.0 * MB, 4: 5.0 * MB, 5: 40.0 * MB, 6: 40.0 * MB}

    found = _objective_rates_played(Hosts(rooms, sources, seed), sources)

    assert 0.7 * 5 * MB <= _mean(found, 4) <= 5 * MB
    assert _mean(found, 5) >= 0.75 * 40 * MB
    assert _mean(found, 6) >= 0.75 * 40 * MB
    for broker in sources:
        own = [next(b.figure for b in held.brokers if b.broker == broker) for held in found]
        assert sum(figure is not None and figure <= BELOW for figure in own) >= 0.95 * len(own)


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_suffers_holds_back_those_that_copy_from_it_and_nobody_else(
    seed: int,
) -> None:
    sources: Sources = {4: (1,), 5: (1,), 6: (3,)}
    rooms = dict.fromkeys((3, 4, 5, 6), 400.0 * MB) | {1: 20.0 * MB, 6: 40.0 * MB}

    found = _objective_rates_played(Hosts(rooms, sources, seed), sources)

    assert 0.7 * 20 * MB <= _mean(found, 4) + _mean(found, 5) <= 20 * MB
    assert _mean(found, 6) >= 0.75 * 40 * MB


FIGURES = st.floats(0, 1e4)
ALIKE = st.floats(0.75, 1.4)


@given(st.lists(st.tuples(FIGURES, ALIKE, ALIKE, ALIKE, ALIKE)))
def test_brokers_that_feel_much_alike_have_one_rate_which_the_highest_figure_of_all_drives(
    windows: list[tuple[float, ...]],
) -> None:
    sources: Sources = {4: (1,), 5: (1, 2)}
    rates, alone = ObjectiveRates(BELOW), RateControl(BELOW)

    for figure, *parts in windows:
        figures = {b: figure * part for b, part in zip((1, 2, 4, 5), parts, strict=True)}
        held = rates.window(*_window(figures, sources, b4=1e9, b5=1e9))
        expected = alone.window(max(figures.values()), 1e9)
        assert held.rates == {4: expected, 5: expected}
        assert held.rate == expected >= FLOOR


def test_a_broker_that_feels_no_more_than_others_again_has_their_rate_again() -> None:
    sources: Sources = {4: (1,), 5: (2,), 6: (3,)}
    rooms = dict.fromkeys((1, 2, 3), 400.0 * MB) | {4: 10.0 * MB, 5: 40.0 * MB, 6: 40.0 * MB}
    hosts, rates = Hosts(rooms, sources), ObjectiveRates(BELOW)

    def after(windows: int) -> Mapping[int, int]:
        held = RateHeld(rate=FLOOR)
        for _ in range(windows):
            held = rates.window(*_window(hosts.figures(held.rates), sources))
        return held.rates

    apart = after(120)
    assert apart[4] < 10 * MB < apart[5] == apart[6]
    rooms[4] = 40.0 * MB
    together = after(180)
    assert together[4] == together[5] == together[6]


def test_a_common_rate_is_raised_while_a_broker_uses_it_and_not_without() -> None:
    before = RateHeld(rate=MB, brokers=(HeldBroker(4, 10 * MB), HeldBroker(5, 10 * MB)))
    figures, sources = dict.fromkeys((1, 4, 5), QUIET), {4: (1,), 5: (1,)}
    used, unused = ObjectiveRates(BELOW, before), ObjectiveRates(BELOW, before)

    for _ in range(10):
        raised = used.window(*_window(figures, sources, b4=5.5 * MB, b5=1e9))
        held = unused.window(*_window(figures, sources, b4=5.5 * MB, b5=4 * MB))

    assert raised.rates[4] == raised.rates[5] > 20 * MB
    assert held.rates == {4: 10 * MB, 5: 10 * MB}
    why = held.brokers[1].why
    assert why is not None
    assert (why.cause, why.figure, why.used) == (RateCause.UNUSED, QUIET, 0.55)


def test_without_a_figure_of_a_broker_or_of_its_leader_its_rate_is_the_least_and_others_go_on() -> (
    None
):
    before = RateHeld(rate=MB, brokers=tuple(HeldBroker(b, 10 * MB) for b in (4, 5, 6)))
    rates = ObjectiveRates(BELOW, before)
    figures = {1: 130.0, 4: 130.0, 6: 130.0}

    for _ in range(2):
        held = rates.window(*_window(figures, {4: (1,), 5: (1,), 6: (2,)}))

    assert held.rates == {4: 10 * MB, 5: FLOOR, 6: FLOOR}
    assert (held.figure, held.reason) == (None, "none of broker 5")
    assert [each.broker for each in held.brokers] == [1, 2, 4, 5, 6]
    assert held.brokers[4].why == RateReason(RateCause.NO_FIGURE, of=2)


def test_a_broker_that_begins_to_receive_has_the_common_rate() -> None:
    before = RateHeld(rate=MB, brokers=(HeldBroker(4, 10 * MB), HeldBroker(5, 30 * MB)))
    rates = ObjectiveRates(BELOW, before)

    held = rates.window(*_window(dict.fromkeys((1, 4, 5, 6), 130.0), {6: (1,)}))

    assert held.rates == {4: 10 * MB, 5: 30 * MB, 6: 30 * MB}
    assert held.rate == 10 * MB


def test_a_broker_into_which_nothing_more_is_copied_is_forgotten() -> None:
    before = RateHeld(rate=MB, brokers=(HeldBroker(4, 2 * MB), HeldBroker(5, 30 * MB)))
    rates = ObjectiveRates(BELOW, before)
    rates.keep({5})

    held = rates.window(*_window(dict.fromkeys((1, 5, 6), 130.0), {6: (1,)}))

    assert held.rates == {5: 30 * MB, 6: 30 * MB}


def test_one_figure_of_all_drives_one_rate_into_all() -> None:
    rates = ObjectiveRates(BELOW, RateHeld(rate=40 * MB))

    held = rates.window(Figure(400.0), {4: (1,)}, Flows())

    assert (held.rate, held.figure, held.rates) == (20 * MB, 400.0, {})
    assert held.why is not None
    assert held.why.cause is RateCause.FAR_OVER
