"""Runs with many cancels, on clusters with much trouble: all of it decided by a seed."""

from __future__ import annotations

import random
from pathlib import Path

from ktui.execution.journal.commands import CancelMoves, Command
from ktui.execution.run.run import Run
from ktui.execution.run.states import CancelKind, State
from ktui.execution.run.track import Track
from support.runs.cancel_rules import CancelRules
from support.runs.throttled_troubled import ThrottledTrouble
from support.runs.troubled import OURS, TROUBLED_S, TroubledRun


class CalledOffTrouble(TroubledRun):
    """A run of which partitions, topics or everything are cancelled, once or several times.

    Args:
        seed: decides everything.
        folder: the folder of the journal.
        killed: whether its engine is killed now and then, too.
    """

    def __init__(self, seed: int, folder: Path, *, killed: bool = False) -> None:
        self.more = random.Random(f"cancels {seed}")  # noqa: S311 - a test's dice
        super().__init__(seed, folder, killed=killed)
        self.cancel_rules = CancelRules(self)
        if self.more.random() < 0.3:
            self._shut_the_gate()

    def _shut_the_gate(self) -> None:
        at_s = self.more.uniform(0.0, TROUBLED_S)

        def shut(who: str | None) -> None:
            self.gate_shut = who

        self.cluster.at(at_s, lambda: shut("somebody@here"))
        self.cluster.at(TROUBLED_S + self.more.uniform(0.0, 50.0), lambda: shut(None))

    def _commands(self) -> list[tuple[float, Command]]:
        dice, some = self.more, list(self.targets)
        cancels: list[tuple[float, Command]] = []
        for _ in range(dice.randint(1, 4)):
            kind = dice.choice(
                (CancelKind.STOP, CancelKind.ROLLBACK, CancelKind.ROLLBACK, CancelKind.TRIM)
            )
            scopes = (
                CancelMoves(kind),
                CancelMoves(kind, topics=(dice.choice(OURS),)),
                CancelMoves(kind, partitions=tuple(dice.sample(some, dice.randint(1, len(some))))),
            )
            cancels.append((dice.uniform(0.0, 1.2 * TROUBLED_S), dice.choice(scopes)))
        return [*super()._commands(), *cancels]

    def check_called_off(self, outcome: Run) -> None:
        """Check the outcome of each cancelled partition against the controller."""
        for track in outcome.tracks.values():
            mine = track.tp not in self.foreign() and track.tp.topic not in self.deleted()
            if track.cancel is not None and mine:
                self._check(track)

    def _check(self, track: Track) -> None:
        known = self.cluster.controller.get(track.tp)
        assert known is not None
        match track.state:
            case State.ROLLED_BACK:
                assert known.replicas == track.original, track
            case State.STOPPED if track.begun and track.cancel is CancelKind.TRIM:
                assert len(known.replicas) <= max(len(track.original), len(track.planned.target))
            case State.STOPPED if not track.begun:
                assert known.replicas == track.planned.original, track
            case _:
                pass
        if track.state in {State.ROLLED_BACK, State.STOPPED}:
            assert not known.reassigning, f"it moves still: {track}"


class ThrottledAndCalledOff(CalledOffTrouble, ThrottledTrouble):
    """Such a run with throttles, where others set throttles, too."""
