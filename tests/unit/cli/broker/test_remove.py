"""`ktui broker remove`: every stage, each resume, and the way back."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.cli.removal_sandbox import RemovalSandbox


@pytest.fixture
def sandbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RemovalSandbox:
    return RemovalSandbox(tmp_path, monkeypatch)


def test_a_broker_is_cordoned_demoted_drained_and_after_its_stop_unregistered(
    sandbox: RemovalSandbox,
) -> None:
    waits = sandbox.remove()
    print(waits.output, waits.exception)
    assert waits.exit_code == 3
    assert (sandbox.settings, sandbox.on_broker()) == ({"3": "*"}, [])
    assert sandbox.engines == ["demote-3", "drain-3"]

    sandbox.stop()
    asks = sandbox.remove()
    print(asks.output, asks.exception)
    assert asks.exit_code == 3
    done = sandbox.remove("--unregister")
    print(done.output, done.exception)
    assert done.exit_code == 0
    assert 3 not in sandbox.simulated.controller.registered
    again = sandbox.remove()
    print(again.output, again.exception)
    assert again.exit_code == 0


def test_undo(sandbox: RemovalSandbox) -> None:
    before = sandbox.layout
    sandbox.remove()
    assert sandbox.layout != before
    back = sandbox.remove("--undo")
    print(back.output, back.exception)
    assert back.exit_code == 0
    assert (sandbox.layout, sandbox.settings) == (before, {})
