"""`ktui broker remove`: each stage, what keeps it from the next one, and the way back."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from ktui.cli.context.terminal import BadInput
from ktui.execution import RunRefused
from ktui.execution.host.client import RunClient
from ktui.execution.host.ownership import own_run
from ktui.simulated import layout
from ktui.simulated.layout import MIB, TopicSpec
from support.cli.broker_sandbox import RemovalSandbox
from support.journals.journals import written
from support.simulated.moving_clusters import move

WAITS, LEFT = 3, 130
LOOKS: list[Callable[[], None]] = [lambda: None] * 5
"""What happens while a drained broker is watched, before ktui says to stop it."""


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    return RemovalSandbox(tmp_path, monkeypatch)


def stages(sandbox: RemovalSandbox, *words: str, exit_code: int = 0) -> list[str]:
    """Remove broker 3, and return the lines about its stages."""
    result = sandbox.remove(*words)
    assert result.exit_code == exit_code, (result.output, result.exception)
    return [line for line in result.stdout.splitlines() if line[1:2] == "/"]


def refusal(sandbox: RemovalSandbox, *words: str) -> str:
    """Return the error of a call that sends nothing."""
    before = (sandbox.layout, sandbox.settings)
    error = sandbox.remove(*words).exception
    assert isinstance(error, BadInput | RunRefused), error
    assert (sandbox.layout, sandbox.settings) == before
    return str(error)


def create_on_3(sandbox: RemovalSandbox, name: str = "new") -> None:
    sandbox.do(layout.CreateTopic(TopicSpec(name=name, replicas=((3, 1),), bytes_each=MIB)))


@pytest.mark.parametrize("journal", [False, True])
def test_a_run_whose_start_was_cut_off_is_begun_again_under_another_name(
    sandbox: RemovalSandbox, *, journal: bool
) -> None:
    before = sandbox.layout
    stages(sandbox, "--no-demote", exit_code=WAITS)
    note = sandbox.note()
    assert note is not None
    folder = sandbox.state.create_run("drain-3-2")
    if journal:
        written(folder.journal, []).close()
    sandbox.file().save(msgspec.structs.replace(note, drains=(*note.drains, "drain-3-2")))
    create_on_3(sandbox)

    stages(sandbox, "--no-demote", exit_code=WAITS)

    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-3")
    assert sandbox.remove("--undo").exit_code == 0
    assert {**sandbox.layout, **before} == sandbox.layout


def test_a_run_that_an_engine_carries_on_is_followed_and_not_started_again(
    sandbox: RemovalSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.until_s = 5.0
    stages(sandbox, exit_code=LEFT)
    sandbox.until_s = 10_000.0
    drain = sandbox.state.run("drain-3")
    engines = len(sandbox.engines)

    with own_run(drain) as owned:

        def later(_seconds: float) -> None:
            owned.release()
            sandbox.finish(drain)

        monkeypatch.setattr("ktui.cli.follow.time.sleep", later)
        stages(sandbox, exit_code=WAITS)

    assert (sandbox.on_broker(), len(sandbox.engines)) == ([], engines)


def test_new_topics_do_not_land_on_a_cordoned_broker(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty")

    assert all(3 not in replicas for replicas in sandbox.added(30))


def test_a_topic_that_has_too_few_replicas_already_does_not_keep_the_broker(
    sandbox: RemovalSandbox,
) -> None:
    two = {"min.insync.replicas": "2"}
    audit = TopicSpec(name="audit", replicas=((3,),), bytes_each=MIB, configs=two)
    sandbox.cluster(topics=(audit,))

    result = sandbox.remove("--until-empty")

    assert (result.exit_code, sandbox.on_broker()) == (0, [])
    assert "than min.insync.replicas (2) already" in result.stderr
    assert "audit-0" in result.stderr


def canary_returns(sandbox: RemovalSandbox, name: str = "orders-0", times: int = 10_000) -> None:
    """Let somebody else move a partition back to broker 3, every 8 s, once it has left."""
    wait, left = sandbox.wait, [times]

    def waits(seconds: float) -> None:
        wait(seconds)
        replicas = sandbox.layout[name][0]
        if left[0] and 3 not in replicas and sandbox.simulated.now_s % 8.0 < 2.0:
            left[0] -= 1
            sandbox.simulated.do(move(name, 3, *replicas[1:]))
            wait(60.0)

    sandbox.waits(waits)


def test_what_somebody_else_moves_back_a_second_time_is_named_and_the_broker_is_not_stopped(
    sandbox: RemovalSandbox,
) -> None:
    canary_returns(sandbox)

    result = sandbox.remove()

    assert (result.exit_code, sandbox.engines) == (WAITS, ["demote-3", "drain-3", "drain-3-2"])
    assert "5/6 stop" not in result.stdout
    assert "do not stop broker 3: orders-0 came back to it 2 times" in result.stderr
    assert "Somebody else moves topic orders back" in result.stderr
    assert "--exclude orders. To go on from there: ktui broker remove 3" in result.stderr


def test_once_nobody_moves_it_back_any_more_the_same_command_goes_on(
    sandbox: RemovalSandbox,
) -> None:
    canary_returns(sandbox, times=2)
    assert sandbox.remove().exit_code == WAITS

    assert stages(sandbox, exit_code=WAITS)[-1].startswith("5/6 stop: stop broker 3 now")
    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-3")


def test_what_lands_on_the_broker_just_before_its_stop_is_seen_before_ktui_says_to_stop_it(
    sandbox: RemovalSandbox,
) -> None:
    canary_returns(sandbox, times=1)

    lines = stages(sandbox, exit_code=WAITS)

    assert [line[:1] for line in lines].index("5") == len(lines) - 1
    assert (sandbox.on_broker(), sandbox.engines[-1]) == ([], "drain-3-2")


class TestInATerminal:
    """Somebody is there: is asked before the first change and the last one, and waited for."""

    @pytest.fixture
    def waiting(
        self, sandbox: RemovalSandbox, monkeypatch: pytest.MonkeyPatch
    ) -> list[Callable[[], None]]:
        """What happens while the broker is waited for, each during one wait."""
        acts: list[Callable[[], None]] = []

        def sleep(seconds: float) -> None:
            sandbox.wait(seconds)
            acts.pop(0)()

        monkeypatch.setattr("ktui.cli.broker.remove.can_ask", lambda: True)
        monkeypatch.setattr("ktui.ops.broker.removal.time.sleep", sleep)
        return acts

    def test_the_removal_waits_for_the_stop_and_then_asks_for_the_id(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        waiting += [*LOOKS, lambda: None, sandbox.stop]

        result = sandbox.remove(typing="y\n3\n")

        assert result.exit_code == 0, (result.output, result.exception)
        assert "Remove broker 3?" in result.stdout
        assert "Waiting for that" in result.stdout
        assert 3 not in sandbox.simulated.controller.registered

    def test_a_no_sends_nothing(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        result = sandbox.remove(typing="n\n")

        assert (result.exit_code, sandbox.settings, sandbox.engines) == (2, {}, [])
        assert waiting == []

    def test_another_id_unregisters_nothing(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        waiting += [*LOOKS, sandbox.stop]

        result = sandbox.remove("--yes", typing="4\n")

        assert result.exit_code == 2
        assert {3, 4} < sandbox.simulated.controller.registered

    def test_what_lands_on_the_broker_while_it_is_waited_for_is_drained(
        self, sandbox: RemovalSandbox, waiting: list[Callable[[], None]]
    ) -> None:
        lands = [lambda: create_on_3(sandbox), *[lambda: None] * 5]
        waiting += [*LOOKS, *lands, *LOOKS, sandbox.stop]

        result = sandbox.remove("--yes", "--unregister")

        assert result.exit_code == 0, (result.output, result.exception)
        assert sandbox.engines == ["demote-3", "drain-3", "drain-3-2"]
        assert sandbox.on_broker() == []


def test_two_calls_at_once_are_kept_apart(sandbox: RemovalSandbox) -> None:
    sandbox.until_s = 5.0
    stages(sandbox, exit_code=LEFT)

    with sandbox.file().locked():
        assert "another ktui is removing broker 3" in refusal(sandbox)


class TestUndo:
    """`ktui broker remove --undo`: all is as before, byte by byte."""

    @pytest.mark.parametrize("left_s", [1.0, 5.0, 10_000.0])
    def test_replicas_order_leaders_and_cordon_are_as_before_wherever_it_begins(
        self, sandbox: RemovalSandbox, left_s: float
    ) -> None:
        before = sandbox.layout
        sandbox.until_s = left_s
        sandbox.remove()
        assert sandbox.layout != before
        sandbox.until_s = 10_000.0

        result = sandbox.remove("--undo")

        assert result.exit_code == 0, (result.output, result.exception)
        assert (sandbox.layout, sandbox.settings) == (before, {})
        assert isinstance(sandbox.remove("--undo").exception, BadInput)


def test_the_runs_of_a_removal_are_ordinary_runs(sandbox: RemovalSandbox) -> None:
    stages(sandbox, "--until-empty", "--partitions", "1", "--throttle", "5MB")

    runs = [RunClient(folder).read_begun() for folder in sandbox.state.run_dirs()]

    assert [each.run.name for each in runs] == ["demote-3", "drain-3"]
    assert [each.run.limits.partitions for each in runs] == [1, 1]
    assert all(each.run.options.throttle for each in runs)
