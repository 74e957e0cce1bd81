"""A cluster lost, a permission withdrawn, a broker cordoned: the run waits and says so."""

import enum
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ktui.cli.engine_log import EngineLog
from ktui.cluster.broker import Broker, LogDir
from ktui.cluster.errors import Failure, NotAuthorized, Operation
from ktui.cluster.observation import Observation
from ktui.cluster.ports import ClusterDescription, Verdict, WriteResult
from ktui.execution.engine.working_state import Cordons
from ktui.execution.forecast.progress_text import progress_line
from ktui.execution.forecast.run_progress import run_progress
from ktui.execution.host.ownership import this_process
from ktui.execution.journal.commands import CancelMoves
from ktui.execution.run.events import Answered, Cancel, JournalEntry, Outage, Paused, PauseOrigin
from ktui.execution.run.run import ClusterLost, Run
from ktui.execution.run.states import CancelKind, State
from ktui.pacing.limits import Limits, Shape
from ktui.simulated import layout
from ktui.simulated import layout as acts
from ktui.simulated.clock import FIRST_MOMENT
from support.journals.journals import a_start, owned
from support.runs.engine_runs import Replicas
from support.runs.stories import Story
from support.simulated.moving_clusters import cordon, tp, uncordon

RF3 = (1, 2, 3)
AT = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
ALL = range(1, 10)


def _lost(story: Story, at_s: float, until_s: float) -> None:
    story.schedule(at_s, *map(acts.Kill, ALL))
    story.schedule(until_s, *map(acts.Start, ALL))


def test_a_lost_cluster_is_recorded_once_when_lost_and_once_when_back(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    _lost(story, 3.0, 60.0)

    assert story.played().ended

    outages = [event for event in story.events if isinstance(event, Outage)]
    assert [event.lost for event in outages] == [True, False]
    assert "no answer" in outages[0].reason
    lost, back = story.seconds(lambda event: isinstance(event, Outage))
    assert 3.0 <= lost < 5.0
    assert 60.0 <= back < 70.0
    assert story.folded.outage is None
    assert story.at_target("orders-0")


def test_a_broker_counts_as_offline_only_while_it_was_observed_offline(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3))}
    story = Story(tmp_path, ways, on_stall="cancel", stall_timeout_s=120.0)
    _lost(story, 60.0, 300.0)
    story.schedule(3.0, acts.Kill(4))
    story.schedule(301.0, acts.Kill(4))
    story.schedule(600.0, acts.Start(4))

    assert story.played().ended

    (cancelled,) = story.seconds(lambda event: isinstance(event, Cancel))
    assert cancelled >= 301.0 + 120.0
    assert story.at_target("orders-0")


def a_run(*events: Outage) -> Run:
    recorded = [*a_start(), *events]
    return Run("drain").fold(
        JournalEntry(seq, AT, event) for seq, event in enumerate(recorded, start=1)
    )


def test_the_progress_line_shows_since_when_the_cluster_is_lost_and_why() -> None:
    run = a_run(Outage(lost=True, reason="no answer"))

    since = AT.astimezone().isoformat(" ", timespec="seconds")
    assert progress_line(run_progress(run, this_process())).endswith(
        f", cluster lost since {since}, no answer"
    )
    assert "lost" not in progress_line(
        run_progress(a_run(Outage(lost=True), Outage(lost=False)), this_process())
    )


def test_an_outage_of_one_process_does_not_carry_over_to_the_next() -> None:
    run = a_run(Outage(lost=True, reason="no answer"))
    assert run.outage == ClusterLost(AT, "no answer")

    run.apply(JournalEntry(run.seq + 1, AT, msgspec.structs.replace(owned(), pid=2)))

    assert run.outage is None


def test_a_process_that_leaves_during_an_outage_no_longer_reports_it(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (4, 2, 3))})
    _lost(story, 3.0, 60.0)

    story.played(until_s=20.0)

    assert [e.lost for e in story.events if isinstance(e, Outage)] == [True]
    assert story.folded.outage is None
    assert story.resumed().ended


def test_the_engine_log_warns_of_an_outage_and_of_its_end(caplog: pytest.LogCaptureFixture) -> None:
    events = (Outage(lost=True, reason="no answer"), Outage(lost=False))

    EngineLog(a_run()).write(
        JournalEntry(seq, AT, event) for seq, event in enumerate(events, start=4)
    )

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        ("WARNING", "the cluster is lost: no answer"),
        ("WARNING", "the cluster answers again"),
    ]


TWO = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
MISSING = (
    "the permission Alter on the cluster is missing (CLUSTER_AUTHORIZATION_FAILED): "
    "grant it, then resume"
)


def test_a_run_that_loses_permission_is_paused_and_left_and_no_partition_fails(
    tmp_path: Path,
) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=2))
    story.schedule(0.0, layout.Deny("alter_reassignments"))

    run = story.played()

    assert not run.ended
    assert run.left == MISSING
    assert [e.reason for e in story.events if isinstance(e, Paused)] == [MISSING]
    assert story.state("orders-0") is story.state("orders-1") is State.QUEUED
    assert len(story.begun_at("orders-0")) == 1


def test_steps_in_flight_finish_before_the_run_is_left(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=1))
    story.schedule(3.0, layout.Deny("alter_reassignments"))

    run = story.played()

    assert run.left == MISSING
    assert story.sent("orders-0") == [(1, 2, 3, 4)]
    assert story.replicas(tp("orders-0")) == (1, 2, 3, 4)


def test_a_run_can_be_resumed_however_often_it_was_denied(tmp_path: Path) -> None:
    story = Story(tmp_path, TWO)
    story.schedule(0.0, layout.Deny("alter_reassignments"))
    story.played()
    for _ in range(6):
        assert set(story.resumed().pauses.whole) == {PauseOrigin.FAILURE}
    assert story.folded.tracks[tp("orders-0")].refusals == 0

    story.cluster.do(layout.Allow("alter_reassignments"))

    assert story.resumed().ended
    assert story.at_target(*TWO)


def test_a_denied_election_pauses_the_run_too(tmp_path: Path) -> None:
    story = Story(tmp_path, {"orders-0": (RF3, (2, 1, 3)), "orders-1": (RF3, (4, 2, 3))})
    story.schedule(0.0, layout.Deny("elect_preferred_leaders"))

    run = story.played()

    assert run.left == MISSING
    assert story.state("orders-0") is not State.FAILED
    assert story.begun_at("orders-1") == []
    story.cluster.do(layout.Allow("elect_preferred_leaders"))
    assert story.resumed().ended
    assert story.at_target("orders-0", "orders-1")


def test_an_unauthorized_call_pauses_the_run_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO)

    async def denied(*_: Any, **__: Any) -> Any:
        raise NotAuthorized("altering reassignments", needs="Alter on the cluster")

    monkeypatch.setattr(story.sending, "alter_reassignments", denied)

    assert story.played().left == MISSING


def test_no_partition_fails_when_every_topic_of_a_request_is_denied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO)
    needs = "Alter on topic orders"
    no = WriteResult(Verdict.REFUSED, "TOPIC_AUTHORIZATION_FAILED", "no", needs=needs)

    async def denied(targets: Any, **_: Any) -> Any:
        return dict.fromkeys(targets, no)

    monkeypatch.setattr(story.sending, "alter_reassignments", denied)
    assert story.played().left == (
        "the permission Alter on topic orders is missing (TOPIC_AUTHORIZATION_FAILED): "
        "grant it, then resume"
    )
    for _ in range(6):
        assert set(story.resumed().pauses.whole) == {PauseOrigin.FAILURE}

    assert story.state("orders-0") is State.QUEUED


def test_a_denial_of_one_topic_among_others_does_not_pause_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(tmp_path, TWO, Limits(replicas=1, partitions=2))
    sending, no = story.sending.alter_reassignments, "TOPIC_AUTHORIZATION_FAILED"

    async def choosy(targets: Any, **how: Any) -> Any:
        mine = {each: to for each, to in targets.items() if each == tp("orders-0")}
        others = {each: to for each, to in targets.items() if each not in mine}
        results = dict(await sending(others, **how)) if others else {}
        return results | dict.fromkeys(mine, WriteResult(Verdict.REFUSED, no, "no"))

    monkeypatch.setattr(story.sending, "alter_reassignments", choosy)

    story.played(until_s=0.5)

    assert story.folded.pauses.whole == {}
    assert story.folded.tracks[tp("orders-0")].refusals == 1


ONE_BY_ONE = Limits(replicas=1, partitions=1)
OUT = "`ktui broker uncordon 4`"


class Told(enum.Enum):
    """What the cluster says of whether it refuses such targets; amid an upgrade it may say no."""

    YES = True
    UNKNOWN = None
    NO = False


TOLD = pytest.mark.parametrize("told", Told)


def a_story(
    folder: Path,
    ways: Mapping[str, tuple[Replicas, Replicas]],
    told: Told = Told.YES,
    limits: Limits | None = None,
    version: str = "4.4",
) -> Story:
    story = Story(folder, ways, limits, {"version": version})
    describe = story.reader.describe_cluster

    async def describes() -> ClusterDescription:
        return msgspec.structs.replace(await describe(), refuses_cordoned=told.value)

    story.reader.describe_cluster = describes  # type: ignore[method-assign]
    return story


def refusals(story: Story) -> list[str]:
    """Return the messages of the requests that the cluster has refused."""
    answers = (event for event in story.events if isinstance(event, Answered))
    return [each.message for each in answers if each.verdict is Verdict.REFUSED and each.code]


@TOLD
def test_a_target_on_a_cordoned_broker_waits_until_the_cordon_goes_and_others_do_not(
    tmp_path: Path, told: Told
) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    story = a_story(tmp_path, ways, told)
    story.already(cordon(4))
    story.schedule(100.0, uncordon(4))

    story.played(until_s=90.0)

    assert story.state("orders-0") is State.BLOCKED
    assert story.reason("orders-0").startswith("broker 4 of its target is cordoned")
    assert story.reason("orders-0").endswith(OUT)
    assert story.state("orders-1") is State.DONE
    assert len(refusals(story)) == (0 if told is Told.YES else 1)

    assert story.resumed().ended
    assert story.at_target("orders-0", "orders-1")
    assert len(refusals(story)) == (0 if told is Told.YES else 2)


@TOLD
@pytest.mark.parametrize("shape", [Shape.GENTLE, Shape.KIP_435])
def test_a_drain_goes_straight_where_somebody_has_cordoned_the_broker_already(
    tmp_path: Path, told: Told, shape: Shape
) -> None:
    ways = {
        "orders-0": ((4, 1, 2), (1, 2, 3)),
        "orders-1": ((1, 4, 2), (1, 3, 2)),
        "orders-2": ((4,), (5,)),
    }
    limits = msgspec.structs.replace(ONE_BY_ONE, shape=shape)
    story = a_story(tmp_path, ways, told, limits)
    story.already(cordon(4))

    assert story.played().ended

    assert story.at_target(*ways)
    assert story.sent("orders-0")[-1] == (1, 2, 3)
    assert not any(4 in (target or ()) for name in ways for target in story.sent(name)[1:])
    assert len(refusals(story)) <= (0 if told is Told.YES else 1)


@TOLD
def test_a_drain_amid_which_somebody_cordons_the_broker_goes_on_to_its_end(
    tmp_path: Path, told: Told
) -> None:
    ways = {f"orders-{n}": ((4, 1, 2), (3, 1, 2)) for n in range(4)}
    story = a_story(tmp_path, ways, told)
    story.schedule(14.0, cordon(4))

    assert story.played().ended

    assert story.at_target(*ways)
    assert story.sent("orders-0") == [(4, 1, 2, 3), (3, 1, 2)]
    assert story.sent("orders-3") == [(3, 1, 2)]
    assert len(refusals(story)) <= 1


@TOLD
def test_a_rollback_to_a_cordoned_broker_waits_for_the_end_of_its_cordon_across_engines(
    tmp_path: Path, told: Told
) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (3, 1, 2))}, told)
    story.schedule(14.0, cordon(4))
    assert story.played().ended

    story.reopened(CancelMoves(CancelKind.ROLLBACK), until_s=60.0)

    assert story.state("orders-0") is State.REFUSED
    assert story.reason("orders-0").startswith("broker 4 of its original replicas is cordoned")
    assert story.reason("orders-0").endswith(OUT)
    refused = len(refusals(story))
    assert refused <= (0 if told is Told.YES else 2)

    story.schedule(120.0, uncordon(4))
    assert story.resumed().ended

    assert story.state("orders-0") is State.ROLLED_BACK
    assert story.replicas(tp("orders-0")) == (4, 1, 2)
    assert len(refusals(story)) <= refused + (0 if told is Told.YES else 1)


@TOLD
def test_a_demotion_of_a_cordoned_broker_waits(tmp_path: Path, told: Told) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (1, 2, 4))}, told)
    story.already(cordon(4))
    story.schedule(60.0, uncordon(4))

    story.played(until_s=30.0)
    assert story.reason("orders-0").endswith(OUT)

    assert story.resumed().ended
    assert story.at_target("orders-0")


def test_a_trim_drops_the_cordoned_replica_first(tmp_path: Path) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (3, 5, 6))})
    story.schedule(14.0, cordon(4))
    story.asked(14.0, CancelMoves(CancelKind.TRIM))

    assert story.played().ended

    assert 4 not in story.replicas(tp("orders-0"))
    assert len(refusals(story)) <= 1


def test_a_broker_that_died_cordoned_stays_closed(tmp_path: Path) -> None:
    story = a_story(tmp_path, {"orders-0": ((4, 1, 2), (3, 1, 4))})
    story.already(cordon(4))
    story.schedule(20.0, acts.Kill(4))

    story.played(until_s=120.0)

    assert story.state("orders-0") is State.BLOCKED
    assert story.reason("orders-0").endswith(OUT)
    assert story.sent("orders-0") == []


@pytest.mark.parametrize(("refused", "closed"), [(False, set()), (True, {4})])
def test_an_uncordoned_log_dir_counts_though_the_next_reading_is_late(
    *, refused: bool, closed: set[int]
) -> None:
    """It lifts a cordon that was read before it, but no refusal, which may be the newer one."""
    here = LogDir(4, "/data", cordoned=True)
    late = Failure(Operation.LOG_DIRS, "no answer for 5.1 s", 4)
    cordons = Cordons()
    cordons.update(a_poll(0.0, {4: (here,)}))
    if refused:
        cordons.refused(4, 1.0)

    cordons.update(a_poll(20.0, {4: (LogDir(4, "/data"),)}, late))

    assert cordons.closed == closed


def a_poll(at_s: float, log_dirs: Mapping[int, tuple[LogDir, ...]], *late: Failure) -> Observation:
    return Observation(
        cluster_id="c",
        controller=1,
        brokers={4: Broker(4)},
        partitions={},
        waits_for_kept=False,
        refuses_cordoned=True,
        log_dirs=log_dirs,
        failures=late,
        at=FIRST_MOMENT,
        monotonic_s=at_s,
        took_s=0.0,
    )


def test_before_4_4_a_cordon_changes_nothing(tmp_path: Path) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": ((4, 2, 3), RF3)}
    story = a_story(tmp_path, ways, told=Told.NO, version="4.3")
    story.already(cordon(4))

    assert story.played().ended

    assert story.sent("orders-0") == [(1, 2, 3, 4), (4, 2, 3)]
    assert story.sent("orders-1") == [(4, 2, 3, 1), (1, 2, 3)]


@TOLD
def test_ktui_reassign_asks_kafka_once_and_shows_its_answer(tmp_path: Path, told: Told) -> None:
    ways = {"orders-0": (RF3, (4, 2, 3)), "orders-1": (RF3, (5, 2, 3))}
    story = a_story(tmp_path, ways, told, Limits(shape=Shape.WHOLE))
    story.already(cordon(4))

    assert story.played().ended

    assert story.state("orders-0") is State.FAILED
    assert story.reason("orders-0").startswith("refused: The manual partition assignment includes")
    assert len(refusals(story)) == 1
    assert story.at_target("orders-1")
