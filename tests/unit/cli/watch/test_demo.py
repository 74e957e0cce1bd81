"""The view as verbs start it, and the verbs that it starts."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cli.output.view import rare_collections
from ktui.cli.watch.command import ProcessEngines
from ktui.cli.watch.demo import Playing, SimulatedEngines, UnhurriedClock, command
from ktui.cli.watch.run_verbs import ShellVerbs
from ktui.cluster.partition import TopicPartition
from ktui.execution import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.launch import NewRun
from ktui.execution.host.state_dir import StateDir
from ktui.execution.journal.commands import CancelMoves, Continue, Pause
from ktui.execution.journal.journal import Journal
from ktui.execution.run.events import AnyRunEvent, JournalEntry, RateHeld
from ktui.execution.run.options import RunOptions
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind
from ktui.execution.run.throttle_ledger import FLOOR
from ktui.pacing.limits import Limits, default_limits
from ktui.planning.check.findings import Allowances
from ktui.planning.plan import PartitionTarget, Plan
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.clock import ScaledClock, VirtualClock
from ktui.simulated.cluster import SimulatedCluster
from ktui.simulated.layout import MIB, BrokerSpec, ClusterSpec, TopicSpec
from ktui.simulated.scenario.library import load_scenario, shipped_names, shipped_path
from ktui.tui.app.demo import PlayNext
from ktui.tui.run_view.launchers import BadCommand
from support.cli.call_ktui import Done, NamedCluster, as_reader, call_ktui
from support.journals.journals import planned, started, written
from support.runs.engine_runs import plan_of
from support.simulated.moving_clusters import a_cluster, tp
from support.simulated.observations import START


def demo(*arguments: str, **environment: str) -> Done:
    return call_ktui("demo", *arguments, **environment)


def test_the_list_names_every_scenario_with_what_happens() -> None:
    done = demo("--list")

    assert done.returncode == 0
    for name in shipped_names():
        assert name in done.stdout
        assert load_scenario(shipped_path(name)).title in done.stdout


def test_help_of_the_verb_is_printed() -> None:
    done = demo("--help")

    assert done.returncode == 0
    assert "SCENARIO is the name of a scenario that comes with ktui" in done.stdout


def test_ktui_demo_loads_no_kafka_client() -> None:
    code = "import sys, ktui.cli.watch.demo; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "textual" in done.stdout.split()
    assert not {"kafka", "confluent_kafka", "pyspark"} & set(done.stdout.split())


def test_a_tour_of_a_story_that_has_none_and_one_without_a_terminal_are_refused() -> None:
    without = demo("--tour", "hot-leader")
    assert without.returncode == 2
    assert "hot-leader has no tour. Leave it out: drain-a-broker has one" in without.stderr

    piped = demo("--tour")
    assert piped.returncode == 2
    assert "terminal" in piped.stderr


Plays = list[tuple[Playing, float]]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plays]:
    """Return a function that plays a demo, whose views end with these keys, one after the other."""

    def play(*arguments: str, keys: Sequence[PlayNext], at: float = 5.0) -> Plays:
        plays: Plays = []
        ends = [*keys, None]

        async def play_once(
            playing: Playing, speed: float
        ) -> tuple[PlayNext | None, float, str | None]:
            plays.append((playing, speed))
            return ends[len(plays) - 1], at, "chosen"

        monkeypatch.setattr("ktui.cli.watch.demo._play", play_once)
        monkeypatch.setattr("ktui.cli.watch.demo.need_terminal", lambda _instead: None)
        command.main(list(arguments), standalone_mode=False)
        return plays

    return play


def test_a_chosen_theme_and_speed_are_kept_when_a_story_is_played_again(
    played: Callable[..., Plays],
) -> None:
    plays = played("--theme", "first", keys=[PlayNext.AGAIN], at=20.0)

    assert [playing.theme for playing, _ in plays] == ["first", "chosen"]
    assert [speed for _, speed in plays] == [5.0, 20.0]


def test_the_next_story_and_the_one_before_are_those_of_the_list(
    played: Callable[..., Plays],
) -> None:
    first, second, *_, last = shipped_names()

    plays = played(keys=[PlayNext.NEXT, PlayNext.PREVIOUS, PlayNext.PREVIOUS, PlayNext.NEXT])

    assert [playing.name for playing, _ in plays] == [first, second, first, last, first]
    assert plays[1][1] == load_scenario(shipped_path(second)).speed


def test_a_story_of_ones_own_stands_before_the_shipped_ones(
    played: Callable[..., Plays], tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("title: Mine\n", encoding="utf-8")

    plays = played(str(path), "--speed", "7", keys=[PlayNext.NEXT, PlayNext.PREVIOUS])

    assert [playing.name for playing, _ in plays] == ["mine", shipped_names()[0], "mine"]
    assert [speed for _, speed in plays] == [7.0, 7.0, 7.0]


async def test_an_engine_wakes_at_most_ten_times_a_second_however_fast_time_runs() -> None:
    real = VirtualClock()
    sleeper = asyncio.create_task(UnhurriedClock(ScaledClock(100.0, real=real)).sleep(0.2))
    await real.advance(0.09)
    assert not sleeper.done()
    await real.advance(0.02)
    assert sleeper.done()


ORDERS = TopicPartition("orders", 0)


async def _held(slo: str, folder: Path) -> list[RateHeld]:
    """Copy 1 GiB in a run of the demo, and return the rates that its objective allowed."""
    topic = TopicSpec(name=ORDERS.topic, replicas=((1, 2, 3),), bytes_each=1024 * MIB, inbound=MIB)
    brokers = tuple(BrokerSpec(id=b, net_out=40.0 * MIB) for b in range(1, 5))
    clock = VirtualClock(leaping=True)
    cluster = SimulatedCluster(ClusterSpec(brokers=brokers, topics=(topic,)), clock)
    engines = SimulatedEngines(cluster, StateDir(folder))
    plan = Plan((PartitionTarget(ORDERS.topic, 0, (1, 2, 4)),))
    rates = parse_throttle_rates(f"slo={slo}")
    run = await engines.start(
        NewRun(
            name="drain",
            plan=plan,
            plan_name="drain.json",
            limits=default_limits(),
            allowed=Allowances(),
            options=RunOptions(throttle=rates),
        )
    )
    await clock.sleep(180)
    await engines.aclose()
    with Journal.open(run.journal, clock, read_only=True) as journal:
        events = [entry.event for entry in journal.entries()]
    return [event for event in events if isinstance(event, RateHeld)]


def test_the_rate_rises_while_simulated_producers_feel_little(tmp_path: Path) -> None:
    held = asyncio.run(_held("p99<500ms", tmp_path))

    assert all(event.figure is not None and event.figure > 0 for event in held)
    assert held[-1].rate > 8 * FLOOR


def test_the_rate_stays_the_least_where_they_feel_more_than_the_objective_at_rest(
    tmp_path: Path,
) -> None:
    held = asyncio.run(_held("p99<1ms", tmp_path))

    assert {event.rate for event in held} == {FLOOR}


async def test_the_view_starts_no_run_whose_canary_may_not_write(tmp_path: Path) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    denied = frozenset({("ktui-canary-night", "Write")})
    named: Any = NamedCluster(reader=cluster.reader, not_granted=denied)
    state = StateDir(tmp_path / "state")
    wanted = NewRun(
        name="night",
        plan=plan_of({tp("orders-0"): (4, 2, 3)}),
        plan_name="night.json",
        limits=Limits(),
        allowed=Allowances(),
        options=RunOptions(throttle=parse_throttle_rates("slo=p99<150ms"), canary=True),
    )

    with pytest.raises(RunRefused, match="Write on topic ktui-canary-night is not granted"):
        await ProcessEngines(named, as_reader(cluster), {}, state).start(wanted)

    assert state.run_dirs() == []


@pytest.mark.parametrize(
    ("view", "refused"), [({"context": "prod"}, True), ({"context": "other-user"}, False)]
)
async def test_the_view_refuses_an_objective_that_the_runs_own_canary_may_not_measure(
    tmp_path: Path, view: Mapping[str, str], *, refused: bool
) -> None:
    cluster = a_cluster({"orders": [(1, 2, 3)]})
    denied = frozenset({("ktui-canary-night", "Write")})
    named: Any = NamedCluster(reader=cluster.reader, not_granted=denied)
    state = StateDir(tmp_path / "state")
    begun = started(1)
    options = msgspec.structs.replace(begun.options, canary=True)
    begun = msgspec.structs.replace(begun, connection={"context": "prod"}, options=options)
    folder = state.create_run("night")
    written(folder.journal, [begun, planned(1)]).close()
    run = RunClient(folder).read().run
    engines = ProcessEngines(named, as_reader(cluster), view, state)

    await engines.check_throttle(run, parse_throttle_rates("50MB"))
    checked = engines.check_throttle(run, parse_throttle_rates("slo=p99<150ms"))
    if refused:
        with pytest.raises(RunRefused, match="Write on topic ktui-canary-night is not granted"):
            await checked
    else:
        await checked


BOTH = (TopicPartition("orders", 0), TopicPartition("orders", 1))


@pytest.fixture
def run() -> Run:
    """A run that moves two partitions of orders from broker 3 to 4."""
    events: list[AnyRunEvent] = [started(2), planned(2)]
    return Run("drain").fold(JournalEntry(n, START, e) for n, e in enumerate(events, 1))


def test_a_broker_is_a_scope_of_the_views_verbs(run: Run) -> None:
    verbs = ShellVerbs()

    assert verbs.parse("pause", ["--broker", "4"], run) == Pause(partitions=BOTH)
    assert verbs.parse("continue", ["--broker", "3"], run) == Continue(partitions=BOTH)
    assert verbs.parse("cancel", ["--broker", "4", "--stop"], run) == CancelMoves(
        CancelKind.STOP, partitions=BOTH
    )


@pytest.mark.parametrize("words", [["pause"], ["continue"], ["cancel", "--stop"]])
def test_a_broker_that_the_run_has_nothing_to_do_with_is_refused_in_the_view(
    run: Run, words: list[str]
) -> None:
    with pytest.raises(BadCommand, match="replica on broker 9"):
        ShellVerbs().parse(words[0], [*words[1:], "--broker", "9"], run)


def test_a_view_leaves_the_collector_as_it_found_it() -> None:
    before = gc.get_threshold()
    with rare_collections():
        assert gc.get_freeze_count()
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before
    assert not gc.get_freeze_count()
