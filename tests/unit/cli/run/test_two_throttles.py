"""A broker has one rate: of the runs on a cluster only one may have a throttle."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ktui.cli.process.launch import Launch, launch_left_run
from ktui.execution.errors import RunRefused
from ktui.execution.host.catalog import check_one_throttle
from ktui.execution.host.ownership import own_run
from ktui.execution.host.state_dir import RunDir, StateDir
from ktui.execution.run.events import AnyRunEvent, ThrottleChanged
from ktui.planning.throttle_rates import NO_THROTTLE, parse_throttle_rates
from support.cli.owned_run import owned_run
from support.cli.start_desk import Office
from support.journals.journals import planned, started, written
from support.journals.throttled_journals import call, throttled

RATED = ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("50MB"))
LIFTED = ThrottleChanged(old=parse_throttle_rates("50MB"), new=NO_THROTTLE)


def a_run(state: StateDir, name: str, *events: AnyRunEvent) -> RunDir:
    run = state.create_run(name)
    written(run.journal, events or throttled()).close()
    return run


def left_standing(cluster_id: str) -> list[AnyRunEvent]:
    """Give a run that has set a rate on broker 4 of a cluster."""
    return [started(2, cluster_id), *throttled()[1:]]


def a_launch(state: StateDir, name: str) -> Launch:
    return Launch(
        state=state,
        name=name,
        cluster_id=started(1).cluster_id,
        names={},
        until=None,
        concurrent=True,
    )


def test_a_second_throttle_is_not_started_even_where_another_run_may_be_live(
    office: Office,
) -> None:
    begun: list[AnyRunEvent] = [started(1, office.cluster_id), planned(1)]
    other = a_run(office.state, "other", *begun, RATED)
    beside = (office.plan(), "--concurrent")

    with own_run(other):
        told = office.refusal(*beside, "--throttle", "20MB")
        kept = office.runs
        without = office.start(*beside)

    assert told.startswith("run other has a throttle. A broker has only one rate")
    assert told.endswith("ktui throttle other none")
    assert kept == ["other"]
    assert str(without.exception) == "no engine is to be started"


@pytest.mark.parametrize("live", [False, True], ids=["waits for resume", "has lifted its throttle"])
def test_a_run_that_has_no_throttle_in_force_is_in_no_ones_way(
    office: Office, *, live: bool
) -> None:
    begun: list[AnyRunEvent] = [started(1, office.cluster_id), planned(1), RATED]
    begun += [LIFTED] if live else []
    other = a_run(office.state, "other", *begun)
    owned = own_run(other) if live else None

    result = office.start(office.plan(), "--concurrent", "--throttle", "20MB")

    if owned is not None:
        owned.release()
    assert str(result.exception) == "no engine is to be started"


def test_a_throttle_that_is_lifted_and_not_off_every_broker_yet_is_one_still(
    tmp_path: Path,
) -> None:
    state = StateDir(tmp_path / "state")
    other = a_run(state, "other", *throttled(), LIFTED)

    with own_run(other), pytest.raises(RunRefused, match="run other has a throttle"):
        check_one_throttle(state, started(1).cluster_id, "mine")


def test_a_throttle_is_not_set_live_beside_another(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    other = a_run(state, "other", *left_standing("simulated"))

    with owned_run(state, "mine") as mine, own_run(other):
        refused = call(mine, "20MB")

    assert refused.exit_code == 2
    assert "refused: run other has a throttle" in refused.stderr
    assert "ktui throttle other none" in refused.stderr


def test_no_throttle_is_begun_while_one_stands_of_a_run_that_died(
    office: Office,
) -> None:
    a_run(office.state, "other", *left_standing(office.cluster_id))

    told = office.refusal(office.plan(), "--throttle", "20MB")
    without = office.start(office.plan())

    assert told.startswith(
        "run other has left its rate on broker 4, and no process carries it on. A broker"
    )
    assert "ktui resume other; or stop it for good: ktui cancel other --stop --all" in told
    assert str(without.exception) == "no engine is to be started"


def test_nor_is_one_set_live_then(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    a_run(state, "other", *left_standing("simulated"))

    with owned_run(state, "mine") as mine:
        refused = call(mine, "20MB")
        lifted = call(mine, "none")

    assert refused.exit_code == 2
    assert "run other has left its rate on broker 4, and no process carries it on" in refused.stderr
    assert lifted.exit_code == 0


def test_of_two_that_died_with_rates_of_their_own_either_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    monkeypatch.setattr(
        "ktui.cli.process.launch.start_engine", lambda run, _: spawned.append(run.name)
    )
    state = StateDir(tmp_path / "state")
    for name in ("one", "other"):
        a_run(state, name)
        launch_left_run(a_launch(state, name))

    assert spawned == ["one", "other"]


def test_a_run_with_a_throttle_is_not_resumed_beside_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawned: list[str] = []
    monkeypatch.setattr(
        "ktui.cli.process.launch.start_engine", lambda run, _: spawned.append(run.name)
    )
    state = StateDir(tmp_path / "state")
    a_run(state, "mine")
    launch = a_launch(state, "mine")
    begun = msgspec.structs.replace(started(2), plan_sha256="1" * 64)
    other = a_run(state, "other", begun, *throttled()[1:])

    with own_run(other), pytest.raises(RunRefused, match="run other has a throttle"):
        launch_left_run(launch)
    launch_left_run(launch)

    assert spawned == ["mine"]
