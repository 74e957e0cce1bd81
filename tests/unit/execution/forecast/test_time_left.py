"""The time left, as measured and by earlier ones."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cli.engine_log import AfterPoll
from ktui.cluster.observer import ObservationSource
from ktui.execution.forecast.earlier_runs import LAST, EarlierRuns
from ktui.execution.host.kept import KeptSpeed, read_kept
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import LimitsChanged, PauseOrigin, StepBegun, ThrottleChanged
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from ktui.execution.time_left.rest import expected_situation
from ktui.insights import Insights, Prior, RateCurve, Spread, publish_insights
from ktui.pacing.limits import Limits
from ktui.pacing.situation import Blocked, BlockReason
from ktui.pacing.steps import all_steps, next_step
from ktui.planning.throttle_rates import parse_throttle_rates
from ktui.simulated.clock import FIRST_MOMENT
from ktui.speed.shown import SCHEMA_VERSION, SpeedShown
from ktui.tui.run_view.rows import RunRows
from support.journals.journals import BESIDE, GB, MANY_AT_ONCE, TWO_AT_ONCE, ScriptedRun, copied_for
from support.pipeline.report_facts import of_cluster
from support.runs.engine_runs import OWNER
from support.runs.stories import Story


def test_the_largest_partition_coming_last_and_alone_counts_with_its_full_time() -> None:
    scripted = ScriptedRun(GB, *[GB // 100] * 10, 5 * GB)
    scripted.begin()
    copied_for(scripted, 60, 10e6)
    naive = 60 * (6.1 / 0.6 - 1)
    left = scripted.left_s()
    assert left is not None
    assert left == pytest.approx(naive, rel=0.05)  # one broker takes all of it in
    spread = ScriptedRun(GB, *[GB // 100] * 10, 5 * GB, target=(4, 5, 3))
    spread.begin()
    copied_for(spread, 60, 10e6)
    assert (spread.left_s() or 0) > 2 * 500  # 5 GB onto one broker, and then onto another


def test_copies_onto_two_brokers_at_once_take_no_longer_than_onto_one() -> None:
    one = ScriptedRun(GB, GB)
    one.begin()
    copied_for(one, 50, 10e6)
    two = ScriptedRun(GB, GB, targets=((4, 2, 3), (5, 2, 3)))
    two.begin()
    copied_for(two, 50, 10e6)
    assert 100 / TWO_AT_ONCE + 50 <= (one.left_s() or 0) <= 100 / TWO_AT_ONCE + 50 + BESIDE
    assert 100 <= (two.left_s() or 0) <= 100 + BESIDE


def test_time_left_is_counted_down_between_two_simulations() -> None:
    scripted = ScriptedRun(GB)
    scripted.begin()
    copied_for(scripted, 50, 10e6)
    before = scripted.left_s()
    scripted.pass_time(0.5)
    scripted.look(0.9)
    assert before is not None
    assert scripted.left_s() == before - 0.5

    scripted.pass_time(0.5)
    scripted.look(0.9)
    after = scripted.left_s()
    assert after is not None
    assert after < before / 2


def test_a_changed_throttle_determines_the_time_left_once_there_is_a_rate() -> None:
    scripted = ScriptedRun(2 * GB)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("10MB"))
    )
    scripted.begin()
    copied_for(scripted, 50, 10e6)
    assert 150 <= (scripted.left_s() or 0) <= 1.02 * 150 + BESIDE

    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("10MB"), new=parse_throttle_rates("5MB"))
    )
    for second in range(0, 30, 5):
        scripted.look((5e8 + 5e6 * second) / (2 * GB))
        scripted.pass_time(5)
    scripted.look(0.325)

    assert 270 <= (scripted.left_s() or 0) <= 270 + BESIDE


def test_a_broker_that_does_not_reach_a_new_throttle_lengthens_the_time_left_at_once() -> None:
    scripted = ScriptedRun(2 * GB)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("none"), new=parse_throttle_rates("10MB"))
    )
    scripted.begin()
    copied_for(scripted, 50, 10e6)
    scripted.happen(
        ThrottleChanged(old=parse_throttle_rates("10MB"), new=parse_throttle_rates("40MB"))
    )
    for second in range(0, 20, 5):
        scripted.look((5e8 + 10e6 * second) / (2 * GB))
        scripted.pass_time(5)
    scripted.look(0.35)

    assert (scripted.left_s() or 0) > 2 * 1.3e9 / 40e6


def test_a_replica_that_stands_still_does_not_slow_the_forecast_of_the_others() -> None:
    scripted = ScriptedRun(4 * GB, GB, targets=((4, 2, 3), (5, 2, 3)))
    scripted.begin(0)
    scripted.begin(1)
    for second in range(0, 100, 5):
        shares = {0: second * 10e6 / (4 * GB), 1: min(second, 50) * 10e6 / GB}
        scripted.look_at(shares)
        scripted.pass_time(5)
    scripted.look_at({0: 0.25, 1: 0.5})
    assert 300 <= (scripted.left_s() or 0) <= 300 + BESIDE


def test_the_time_left_of_thousands_of_waiting_partitions_is_estimated_from_some() -> None:
    scripted = ScriptedRun(*[GB // 100] * 3_000)
    scripted.begin()
    for second in range(30):
        scripted.look(second / 30)
        scripted.pass_time(1)
    scripted.look(1.0)
    rate = GB // 100 / 30
    left = scripted.left_s()
    assert left is not None
    assert left == pytest.approx(2_999 * GB / 100 / rate / TWO_AT_ONCE, rel=0.1)


@pytest.mark.parametrize(
    ("onto", "times_one"),
    [
        pytest.param((4, 4, 4, 5), MANY_AT_ONCE / 0.75, id="a broker receives most of them"),
        pytest.param(tuple(range(4, 14)), MANY_AT_ONCE / 0.5, id="one leader sends all of them"),
    ],
)
def test_thousands_of_partitions_at_once_take_as_long_as_the_busiest_broker(
    onto: tuple[int, ...], times_one: float
) -> None:
    """To send a copy takes half of what it takes to receive one."""
    targets = tuple((onto[n % len(onto)], 2, 3) for n in range(2_000))
    scripted = ScriptedRun(*[GB // 100] * 2_000, targets=targets)
    unlimited = Limits(replicas=1)
    scripted.happen(LimitsChanged(old=scripted.run.limits, new=unlimited, batch=0, in_flight=0))
    scripted.begin()
    for second in range(30):
        scripted.look_at({0: second / 30})
        scripted.pass_time(1)
    scripted.look_at({0: 1.0})
    rate = GB // 100 / 30
    left = scripted.left_s()
    assert left is not None
    assert left == pytest.approx(2_000 * GB / 100 / rate / times_one, rel=0.1)


def test_copies_that_hardly_move_have_a_time_left_that_can_be_shown() -> None:
    scripted = ScriptedRun(10**15)
    scripted.begin()
    copied_for(scripted, 60, 10.0)
    left = scripted.estimate.copied.left_s
    assert left is not None
    assert scripted.now + timedelta(seconds=left.high) > scripted.now


MB = 1_000_000
RF3 = (1, 2, 3)
FIVE_GB = {"messages": 5_000_000, "copied_s": 1_000_000.0}


def earlier(bytes_s: float) -> Prior:
    rate = Spread(bytes_s, bytes_s, bytes_s, count=10)
    return Prior(rate, 2.0, RateCurve(most_bytes_s=bytes_s, half_at=0.0, most_at_once=1), runs=2)


@pytest.mark.parametrize(
    ("prior", "begins"),
    [(None, True), (earlier(60.0 * MB), True), (earlier(10.0 * MB), False)],
    ids=["50 MB/s are assumed", "60 MB/s were copied", "10 MB/s were copied"],
)
def test_a_step_that_earlier_runs_would_not_have_ended_in_time_is_not_begun(
    tmp_path: Path, prior: Prior | None, *, begins: bool
) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))}, Limits(replicas=1), FIVE_GB)
    story.prior = prior

    run = story.played_by(
        msgspec.structs.replace(OWNER, until=FIRST_MOMENT + timedelta(seconds=200))
    )

    assert any(isinstance(event, StepBegun) for event in story.events) == begins
    assert run.ended == begins
    assert (PauseOrigin.UNTIL in run.pauses.whole) == (not begins)


HUNDRED_MB = {"messages": 100_000, "copied_s": 20_000.0}
"""Each partition has 100 MB, and a broker takes in 20 MB/s."""


def kept(received: str, version: int = SCHEMA_VERSION) -> bytes:
    head = f'"schema_version": {version}, "cluster_id": "prod", "at": "2026-11-28T00:00:00Z"'
    return f'{{{head}, "largest": 1, "received": [{received}]}}'.encode()


class KeptStory(Story):
    """A story whose engine keeps what it has shown, in a run's folder of a state directory."""

    def __init__(self, state: StateDir, name: str = "first", **options: Any) -> None:
        folder = state.create_run(name)
        ways = {f"orders-{n}": (RF3, (4, 2, 3)) for n in range(6)}
        super().__init__(folder.path, ways, Limits(partitions=1), HUNDRED_MB, **options)
        self.folder = folder

    def through(self, source: ObservationSource) -> ObservationSource:
        """Keep now and then what the engine has shown."""
        self.kept = KeptSpeed(self.folder, self.clock, lambda: self._shown)
        return AfterPoll(source, self.kept.write_if_due)

    @property
    def _shown(self) -> SpeedShown | None:
        return None if self.engine is None else self.engine.speed_shown

    def to_its_end_in_a_process(self) -> Run:
        """Play the run, and write what it has shown as its process does in the end."""
        run = self.played()
        self.kept.write()
        return run

    @property
    def cluster_id(self) -> str:
        return self.cluster.spec.name


@pytest.fixture
def state(tmp_path: Path) -> StateDir:
    return StateDir(tmp_path / "state")


def alone(prior: Prior | None) -> float | None:
    """Return the rate of a single copy."""
    return None if prior is None else prior.curve.bytes_s(1, None)


def test_a_run_that_has_ended_is_known_to_the_next_one(state: StateDir) -> None:
    story = KeptStory(state)
    assert story.to_its_end_in_a_process().ended
    prior = EarlierRuns(state)(story.cluster_id)
    assert prior is not None
    assert alone(prior) == pytest.approx(20 * MB, rel=0.2)
    assert (prior.runs, prior.onto, prior.largest) == (1, (4,), 100 * MB)


def test_a_run_whose_engine_was_killed_on_the_way_is_known_too(state: StateDir) -> None:
    story = KeptStory(state)
    run = story.played(until_s=27.0)  # nothing is written after that, as after kill -9
    assert not run.ended
    assert read_kept(story.folder.speed) is not None
    assert alone(EarlierRuns(state)(story.cluster_id)) == pytest.approx(20 * MB, rel=0.2)


def test_the_next_engine_of_a_run_adds_to_what_the_first_one_has_shown(state: StateDir) -> None:
    story = KeptStory(state)
    story.played(until_s=15.0)
    story.kept.write()
    first = read_kept(story.folder.speed)
    story.resumed()
    story.kept.write()
    whole = read_kept(story.folder.speed)
    assert first is not None
    assert whole is not None
    assert whole.received[0].seconds > first.received[0].seconds + 10


def test_a_run_of_an_earlier_version_is_known_by_its_journal(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    story.folder.speed.unlink()
    prior = EarlierRuns(state)(story.cluster_id)
    assert alone(prior) == pytest.approx(20 * MB, rel=0.2)


def test_a_run_does_not_count_as_an_earlier_one_of_itself(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    assert EarlierRuns.beside(story.folder)(story.cluster_id) is None
    assert EarlierRuns.beside(state.run("next"))(story.cluster_id) is not None


def test_only_the_last_runs_of_the_cluster_count(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    shown = read_kept(story.folder.speed)
    assert shown is not None
    for number in range(LAST + 2):
        copied(state, f"more-{number}", msgspec.json.encode(shown))
    other = msgspec.structs.replace(shown, cluster_id="another")
    copied(state, "other", msgspec.json.encode(other))
    prior = EarlierRuns(state)(story.cluster_id)
    assert prior is not None
    assert prior.runs == LAST


def copied(state: StateDir, name: str, contents: bytes) -> RunDir:
    folder = state.create_run(name)
    folder.speed.write_bytes(contents)
    return folder


@pytest.mark.parametrize(
    "contents",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema_version": 1}',
        b"\xff\xfe",
        b'{"cluster_id": "prod", "at": "2026-11-28", "received": [], "largest": 1}',
        kept("""{"broker": 4, "throttle": null, "bytes": 1e300, "alone": 1e300, "seconds": 1e-300,
        "at_once": 1}"""),
        kept("", SCHEMA_VERSION + 1),
    ],
)
def test_a_damaged_or_foreign_file_counts_as_nothing(state: StateDir, contents: bytes) -> None:
    folder = copied(state, "damaged", contents)
    assert read_kept(folder.speed) is None
    assert EarlierRuns(state)("prod") is None


def test_runs_that_copied_nothing_leave_the_place_to_those_that_did(state: StateDir) -> None:
    story = KeptStory(state)
    story.to_its_end_in_a_process()
    shown = read_kept(story.folder.speed)
    assert shown is not None
    for number in range(LAST):
        idle = msgspec.structs.replace(shown, received=())
        copied(state, f"idle-{number}", msgspec.json.encode(idle))
    prior = EarlierRuns(state)(story.cluster_id)
    assert prior is not None
    assert prior.runs == 1


def test_what_is_no_run_in_the_folder_of_runs_counts_as_nothing(state: StateDir) -> None:
    state.make(state.runs)
    (state.runs / "notes.txt").write_text("mine")
    folder = state.create_run("odd")
    folder.speed.mkdir()
    folder.journal.write_text("not a journal")
    assert EarlierRuns(state)("prod") is None


def test_insights_count_where_they_have_newer_moves_and_where_there_are_no_runs(
    state: StateDir,
) -> None:
    story = KeptStory(state)
    before = msgspec.structs.replace(
        of_cluster(story.cluster_id), ended=FIRST_MOMENT - timedelta(days=1)
    )
    publish_insights(Insights(clusters=(before,)), state.path)
    assert EarlierRuns(state)(story.cluster_id) == before.prior
    story.to_its_end_in_a_process()
    known = EarlierRuns(state)(story.cluster_id)
    assert known != before.prior
    assert known is not None
    assert known.runs == 1
    after = msgspec.structs.replace(before, ended=FIRST_MOMENT + timedelta(days=1))
    publish_insights(Insights(clusters=(after,)), state.path)
    assert EarlierRuns(state)(story.cluster_id) == after.prior


NONE: tuple[int, ...] = ()


def a_scripted_run(original: tuple[int, ...], target: tuple[int, ...]) -> ScriptedRun:
    return ScriptedRun(10**9, original=original, target=target)


def track_of(run: Run) -> Track:
    (track,) = run.tracks.values()
    return track


@pytest.mark.parametrize("target", [(4, 2, 3), NONE])
def test_a_partition_without_replicas_is_offline_and_no_step_is_forecast(
    target: tuple[int, ...],
) -> None:
    track = track_of(a_scripted_run(NONE, target).run)
    now = expected_situation(track)
    assert next_step(now, Limits()) == Blocked(BlockReason.PARTITION_OFFLINE)
    assert all_steps(now, Limits(replicas=1)) == []


@pytest.mark.parametrize("kind", [None, *CancelKind])
def test_a_partition_with_an_empty_target_takes_no_step(kind: CancelKind | None) -> None:
    track = track_of(a_scripted_run(NONE, NONE).run)
    track.replicas, track.sent, track.cancel = (1, 2), (1, 2), kind
    assert all_steps(expected_situation(track), Limits(replicas=1)) == []


@pytest.mark.parametrize("state", [State.QUEUED, State.READY])
def test_the_view_and_the_time_left_tolerate_partitions_without_replicas(state: State) -> None:
    scripted = a_scripted_run(NONE, (4, 2, 3))
    track_of(scripted.run).state = state
    scripted.pass_time(5)
    scripted.look()
    assert scripted.estimate.copied.left_s is None
    assert RunRows(scripted.run).steps_left(track_of(scripted.run)) == 0
