"""`ktui start --urgent-first` lets partitions with too few replicas in sync go first."""

from __future__ import annotations

import pytest

from ktui.execution.run.events import Started
from ktui.execution.run.run import Run
from support.cli.start_sandbox import StartSandbox
from support.journals.journals import read


@pytest.fixture
def kept(sandbox: StartSandbox, monkeypatch: pytest.MonkeyPatch) -> StartSandbox:
    """A sandbox that keeps a run whose engine does not start."""
    monkeypatch.setattr("ktui.execution.host.launch.shutil.rmtree", lambda *_, **__: None)
    return sandbox


@pytest.mark.parametrize(
    ("given", "urgent_first"),
    [((), False), (("--urgent-first",), True), (("--no-urgent-first",), False)],
)
def test_urgent_partitions_of_a_plan_from_a_file_go_first_only_if_that_was_asked_for(
    kept: StartSandbox, given: tuple[str, ...], *, urgent_first: bool
) -> None:
    kept.start(kept.plan(), *given)

    (run,) = kept.state.run_dirs()
    entries = read(run.journal)[0]
    assert isinstance(entries[0].event, Started)
    assert entries[0].event.options.urgent_first is urgent_first
    assert Run("drain").fold(entries).options.urgent_first is urgent_first
