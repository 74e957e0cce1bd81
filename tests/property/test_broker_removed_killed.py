"""kill -9 of a removal at any instant: the same command goes on to its end, or all the way back."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from support.cli.broker_sandbox import RemovalSandbox
from support.runs.witnessed import Killed

WAITS = 3


class KilledRemoval:
    """A removal that dies at certain instants, and is called again after a while each time."""

    def __init__(
        self,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        version: str,
        seed: int,
        at: Collection[int] = (),
    ) -> None:
        folder.mkdir()
        self.sandbox = RemovalSandbox(folder, monkeypatch)
        self.sandbox.cluster(version=version)
        self.sandbox.reaper.at = frozenset(at)
        self._chance = random.Random(seed)  # noqa: S311 - a test's dice

    def call(self, *words: str) -> int:
        """Call `ktui broker remove 3` until it ends by itself, and return its exit code."""
        while True:
            try:
                result = self.sandbox.remove(*words)
            except Killed:
                self.sandbox.wait(self._chance.choice((0.0, 0.3, 2.0, 9.0, 60.0)))
            else:
                assert isinstance(result.exception, SystemExit | None), result.exception
                return result.exit_code

    def to_its_end(self) -> None:
        """Remove the broker, and check the outcome."""
        sandbox = self.sandbox
        assert self.call() == WAITS
        assert (sandbox.on_broker(), sandbox.settings) == ([], {"3": "*"})
        sandbox.stop()
        assert self.call("--unregister") == 0
        assert 3 not in sandbox.simulated.controller.registered
        assert [run.name for run in sandbox.state.run_dirs()] == ["demote-3", "drain-3"]

    def and_back(self) -> None:
        """Begin the removal, take it back from where it stands, and check that all is as before."""
        sandbox = self.sandbox
        before = sandbox.layout
        sandbox.until_s = self._chance.choice((3.0, 12.0, 10_000.0))
        self.call()
        sandbox.until_s = 10_000.0
        assert self.call("--undo") == 0
        assert (sandbox.layout, sandbox.settings) == (before, {})
        assert sandbox.note() is None


Way = Callable[[KilledRemoval], None]
WAYS = (KilledRemoval.to_its_end, KilledRemoval.and_back)
VERSIONS = ("4.3", "4.4")
"""Kafka 4.4 refuses lists that name a cordoned broker, so the cordon comes last."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("version", VERSIONS)
def test_a_removal_killed_at_seeded_instants_ends_as_one_that_never_was(
    version: str, seed: int, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = KilledRemoval(tmp_path / "whole", monkeypatch, version, seed)
    way(whole)
    chance = random.Random(f"instants {seed}")  # noqa: S311 - a test's dice
    count = whole.sandbox.reaper.count
    at = {chance.randint(1, count) for _ in range(chance.choice((1, 2, 3, 6)))}

    killed = KilledRemoval(tmp_path / "killed", monkeypatch, version, seed, at)
    way(killed)

    assert killed.sandbox.layout == whole.sandbox.layout


@pytest.mark.soak
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_removal_killed_at_any_instant_ends_as_one_that_never_was(
    version: str, way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = KilledRemoval(tmp_path / "whole", monkeypatch, version, 0)
    way(whole)

    for instant in range(1, whole.sandbox.reaper.count + 1):
        killed = KilledRemoval(tmp_path / str(instant), monkeypatch, version, 0, {instant})
        way(killed)
        assert killed.sandbox.layout == whole.sandbox.layout, killed.sandbox.reaper.where
