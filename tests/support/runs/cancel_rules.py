"""The promises of a cancel, checked against each request as it is sent."""

from __future__ import annotations

from collections.abc import Sequence

from ktui.cluster.partition import TopicPartition
from ktui.execution.run.events import CancelAsked, JournalEntry, StepBegun
from ktui.execution.run.states import CancelKind
from ktui.execution.run.track import Track
from support.runs.witnessed import WitnessedRun
from support.simulated.witness import Departure


class CancelRules:
    """Nothing that carries a partition to its target is sent once the partition is cancelled.

    A request in flight at that time may still arrive. The only requests sent are cancels, and
    steps begun after the cancel that lead back. While the cancel gate is shut, nothing else is
    sent at all.
    """

    def __init__(self, run: WitnessedRun) -> None:
        self._run = run
        self._kinds: dict[TopicPartition, CancelKind] = {}
        self._steps: dict[TopicPartition, StepBegun] = {}
        """The last step of each partition that was begun since its cancel."""
        self.asked_s: dict[TopicPartition, float] = {}
        """The second of each partition's last cancel."""
        self.sent: list[tuple[float, TopicPartition]] = []
        """Each request for a cancelled partition, and the second at which it was sent."""
        run.checks.append(self._written)
        run.witness.departures.append(self._departs)

    def _written(self, written: Sequence[JournalEntry]) -> None:
        for entry in written:
            match entry.event:
                case CancelAsked() as asked:
                    for tp in asked.partitions:
                        self._kinds[tp] = asked.kind
                        self._steps.pop(tp, None)
                        self.asked_s[tp] = self._run.clock.monotonic()
                case StepBegun() as begun if begun.tp in self._kinds:
                    self._begins(begun, self._run.folded.tracks[begun.tp])
                    self._steps[begun.tp] = begun

    def _begins(self, step: StepBegun, track: Track) -> None:
        """A step after a cancel leads back: it adds replicas that were there before, or none."""
        match self._kinds[step.tp]:
            case CancelKind.STOP:
                raise AssertionError(f"a step begins after a stop: {step}")
            case CancelKind.TRIM:
                assert not step.adding, f"a step of a trim adds: {step}"
                assert len(step.before) > len(track.original), f"there is nothing to trim: {step}"
                assert len(step.replicas) >= len(track.original), f"trimmed too far: {step}"
            case CancelKind.ROLLBACK:
                assert {*step.adding} <= {*track.original}, f"a rollback adds others: {step}"
                assert not {*step.removing} & {*track.original}, f"it drops the originals: {step}"

    def _departs(self, departure: Departure) -> None:
        for tp, target in departure.partitions.items():
            if tp not in self._kinds:
                assert not self._run.gate_shut or target is None, f"{tp} goes on: the gate is shut"
                continue
            self.sent.append((departure.at_s, tp))
            if target is not None:
                step = self._steps.get(tp)
                assert step is not None, f"{tp} goes on to {target} though it was cancelled"
                assert target in (step.replicas, ()), f"{tp}: no step back leads to {target}"
