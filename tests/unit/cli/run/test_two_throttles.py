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
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import planned, started, written
from support.journals.throttled_journals import call, throttled

RATED = ThrottleChanged(old=NO_THROTTLE, new=parse_throttle_rates("50MB"))
LIFTED = ThrottleChanged(old=parse_throttle_rates("50MB"), new=NO_THROTTLE)


def a_run(state: StateDir, name: str, *events: AnyRunEvent) -> RunDir:
    run = state.create_run(name)
    written(run.journal, events or throttled()).close()
    return run


def left_standing(cluster_id: str) -> list[AnyRunEvent]:
    """Return the events of a run that has set a rate on broker 4 of a cluster."""
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


def test_a_concurrent_run_with_a_second_throttle_is_refused(
    sandbox: StartSandbox,
) -> None:
    first_events: list[AnyRunEvent] = [started(1, sandbox.cluster_id), planned(1)]
    other = a_run(sandbox.state, "other", *first_events, RATED)
    arguments = (sandbox.plan(), "--concurrent")

    with own_run(other):
        refused_with = sandbox.refusal(*arguments, "--throttle", "20MB")
        kept = sandbox.runs
        without = sandbox.start(*arguments)

    assert refused_with.startswith("run other has a throttle. A broker has only one rate")
    assert refused_with.endswith("ktui throttle other none")
    assert kept == ["other"]
    assert str(without.exception) == "no engine is to be started"


@pytest.mark.parametrize("live", [False, True], ids=["waits for resume", "has lifted its throttle"])
def test_a_run_without_a_throttle_in_force_blocks_no_other_throttle(
    sandbox: StartSandbox, *, live: bool
) -> None:
    first_events: list[AnyRunEvent] = [started(1, sandbox.cluster_id), planned(1), RATED]
    first_events += [LIFTED] if live else []
    other = a_run(sandbox.state, "other", *first_events)
    owned = own_run(other) if live else None

    result = sandbox.start(sandbox.plan(), "--concurrent", "--throttle", "20MB")

    if owned is not None:
        owned.release()
    assert str(result.exception) == "no engine is to be started"


def test_a_lifted_throttle_still_on_a_broker_blocks_another(
    tmp_path: Path,
) -> None:
    state = StateDir(tmp_path / "state")
    other = a_run(state, "other", *throttled(), LIFTED)

    with own_run(other), pytest.raises(RunRefused, match="run other has a throttle"):
        check_one_throttle(state, started(1).cluster_id, "mine")


def test_a_live_run_is_refused_a_throttle_beside_another(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    other = a_run(state, "other", *left_standing("simulated"))

    with owned_run(state, "mine") as mine, own_run(other):
        refused = call(mine, "20MB")

    assert refused.exit_code == 2
    assert "refused: run other has a throttle" in refused.stderr
    assert "ktui throttle other none" in refused.stderr


def test_a_start_with_a_throttle_is_refused_while_a_dead_run_has_left_its_own(
    sandbox: StartSandbox,
) -> None:
    a_run(sandbox.state, "other", *left_standing(sandbox.cluster_id))

    refused_with = sandbox.refusal(sandbox.plan(), "--throttle", "20MB")
    without = sandbox.start(sandbox.plan())

    assert refused_with.startswith(
        "run other has left its rate on broker 4, and has no engine. A broker"
    )
    assert "ktui resume other; or stop it for good: ktui cancel other --stop --all" in refused_with
    assert str(without.exception) == "no engine is to be started"


def test_a_live_run_is_refused_a_throttle_while_a_dead_run_has_left_its_own(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "state")
    a_run(state, "other", *left_standing("simulated"))

    with owned_run(state, "mine") as mine:
        refused = call(mine, "20MB")
        lifted = call(mine, "none")

    assert refused.exit_code == 2
    assert "run other has left its rate on broker 4, and has no engine" in refused.stderr
    assert lifted.exit_code == 0


def test_two_dead_runs_with_throttles_can_both_be_resumed(
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
    first_events = msgspec.structs.replace(started(2), plan_sha256="1" * 64)
    other = a_run(state, "other", first_events, *throttled()[1:])

    with own_run(other), pytest.raises(RunRefused, match="run other has a throttle"):
        launch_left_run(launch)
    launch_left_run(launch)

    assert spawned == ["mine"]
