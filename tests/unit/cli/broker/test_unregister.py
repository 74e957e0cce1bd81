"""`ktui broker unregister`: only a broker that is down, holds nothing, and gets nothing."""

from collections.abc import Collection
from pathlib import Path

import pytest

from ktui.cluster.partition import TopicPartition
from ktui.cluster.ports import ConfigChange, ConfigOp, WriteResult
from ktui.cluster.settings import CORDONED, FOLLOWER_RATE, broker_resource
from ktui.execution import RunRefused
from ktui.execution.run.events import CancelAsked
from ktui.execution.run.states import CancelKind
from ktui.simulated import layout
from ktui.simulated.layout import TopicSpec
from support.cli.broker_sandbox import BrokerSandbox
from support.journals.journals import accepted, over, step
from support.passing import PassingWriter

DOWN = "broker 5 is down, and no partition has it among its replicas"
FIRST = (
    "its throttles and its cordon go first, through a controller: they would outlive its "
    "registration. Other settings of its id stay"
)
DELETED = "a controller has deleted the throttles and the cordon of broker 5"
GONE = "broker 5 is no longer registered"


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BrokerSandbox:
    """A cluster whose broker 5 holds nothing and is stopped for good."""
    sandbox = BrokerSandbox(tmp_path, monkeypatch)
    sandbox.do(layout.Shutdown(5))
    sandbox.wait(30.0)
    return sandbox


def registered(sandbox: BrokerSandbox) -> list[int]:
    return sorted(sandbox.simulated.controller.registered)


def refusal(sandbox: BrokerSandbox, broker: str, *words: str) -> str:
    """Return the error of a call that must not have left a change."""
    error = sandbox.refusal("unregister", broker, *words)
    assert registered(sandbox) == [1, 2, 3, 4, 5]
    return error


@pytest.mark.parametrize(
    ("cancel", "broker", "brings"),
    [
        (None, 4, True),
        (None, 3, False),
        (CancelKind.STOP, 4, False),
        (CancelKind.ROLLBACK, 4, False),
        (CancelKind.ROLLBACK, 3, True),
    ],
)
def test_a_broker_that_an_unfinished_run_brings_replicas_to_is_not_unregistered(
    sandbox: BrokerSandbox, cancel: CancelKind | None, broker: int, *, brings: bool
) -> None:
    sandbox.cluster(topics=(TopicSpec(name="orders", replicas=((1, 2, 5),) * 2),))
    partitions = (TopicPartition("orders", 0), TopicPartition("orders", 1))
    cancels = () if cancel is None else (CancelAsked(kind=cancel, partitions=partitions),)
    steps = [event for n in range(2) for event in (step(n), accepted(n), over(n))]
    sandbox.a_run(2, *steps, *cancels)
    sandbox.do(layout.Shutdown(broker))
    sandbox.wait(30.0)

    if brings:
        error = refusal(sandbox, str(broker), "--yes")
        assert f"broker {broker} gets replicas by drain (2 partitions)" in error
        assert f"ktui cancel RUN --stop --broker {broker}" in error
    else:
        sandbox.lines("unregister", str(broker), "--yes")
        assert broker not in registered(sandbox)


def test_the_next_broker_of_the_id_inherits_neither_throttle_nor_cordon(
    sandbox: BrokerSandbox,
) -> None:
    for key, value in ((FOLLOWER_RATE, "1000"), (CORDONED, "*"), ("num.io.threads", "9")):
        change = ConfigChange(broker_resource(5), key, ConfigOp.SET, value)
        sandbox.do(layout.AlterConfigs((change,)))

    sandbox.lines("unregister", "5", "--yes")

    assert sandbox.simulated.controller.configs.of(broker_resource(5)) == {"num.io.threads": "9"}


@pytest.mark.parametrize(("typed", "code"), [("5", 0), (" 5 ", 0), ("4", 2), ("", 2), ("yes", 2)])
def test_the_brokers_id_has_to_be_typed(
    sandbox: BrokerSandbox, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    monkeypatch.setattr("ktui.cli.context.terminal.can_ask", lambda: True)

    result = sandbox.call("unregister", "5", typing=f"{typed}\n")

    assert result.exit_code == code
    assert (5 in registered(sandbox)) is (code != 0)


def test_a_broker_that_comes_up_during_the_question_is_left_alone(
    sandbox: BrokerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asks() -> bool:
        sandbox.do(layout.Start(5))
        sandbox.wait(60.0)
        return True

    monkeypatch.setattr("ktui.cli.context.terminal.can_ask", asks)

    result = sandbox.call("unregister", "5", typing="5\n")

    assert "broker 5 is up" in str(result.exception)
    assert 5 in registered(sandbox)


def losing(sandbox: BrokerSandbox, patch: pytest.MonkeyPatch, loss: layout.OutsideEvent) -> None:
    """Let the unregistration, or its answer, get lost; what is sent before it arrives."""

    class Losing(PassingWriter):
        async def unregister_broker(
            self, broker: int, *, leaves_within_s: float | None = None
        ) -> WriteResult:
            sandbox.simulated.do(loss)
            return await super().unregister_broker(broker, leaves_within_s=leaves_within_s)

    patch.setattr(sandbox, "writer", lambda: Losing(sandbox.simulated.writer()))


def test_an_answer_that_was_lost_is_found_by_reading_back(
    sandbox: BrokerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    losing(sandbox, monkeypatch, layout.LoseRequest())
    error = refusal(sandbox, "5", "--yes")
    assert error.startswith("the answer was lost, and broker 5 is still registered")

    losing(sandbox, monkeypatch, layout.LoseAnswer())
    assert sandbox.lines("unregister", "5", "--yes") == [DOWN, FIRST, DELETED, GONE]


def test_a_broker_that_comes_back_without_its_settings_is_not_said_to_be_untouched(
    sandbox: BrokerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Returning(PassingWriter):
        async def delete_broker_settings(
            self, broker: int, names: Collection[str], *, leaves_within_s: float | None = None
        ) -> WriteResult:
            result = await super().delete_broker_settings(
                broker, names, leaves_within_s=leaves_within_s
            )
            sandbox.do(layout.Start(broker))
            sandbox.wait(30.0)
            return result

    monkeypatch.setattr(sandbox, "writer", lambda: Returning(sandbox.simulated.writer()))

    called = sandbox.call("unregister", "5", "--yes")

    assert registered(sandbox) == [1, 2, 3, 4, 5]
    error = str(called.exception)
    assert error.startswith(
        "broker 5 stays registered, without the throttles and the cordon that were deleted just "
        "now: broker 5 is up"
    )
    assert "ktui broker cordon 5" in error
    assert "nothing was sent" not in error
    assert not isinstance(called.exception, RunRefused)


def test_before_4_0_kafka_decides_whether_the_broker_is_registered(
    sandbox: BrokerSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.cluster(version="3.9")
    sandbox.do(layout.Shutdown(5))
    sandbox.wait(30.0)

    with monkeypatch.context() as patched:
        losing(sandbox, patched, layout.LoseAnswer())
        assert "repeat the command" in str(sandbox.call("unregister", "5", "--yes").exception)

    error = str(sandbox.call("unregister", "5", "--yes").exception)
    assert error.startswith("Kafka does not unregister broker 5")
    assert "BROKER_ID_NOT_REGISTERED" in error
