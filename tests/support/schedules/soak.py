"""`python -m support.schedules.soak [FIRST] [COUNT]`: schedules on one cluster, one after another.

A number and a commit reproduce a schedule, and its outcome as far as real brokers allow. A kind of
fault or command that occurred in none of all 50 schedules fails the soak.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ktui.cli.lab import connect
from ktui.kafka.workload import delete_topics
from ktui.lab.layout import Lab
from ktui.lab.up import down, up
from support.schedules.judge import Verdicts, judged
from support.schedules.log_judge import after_the_end, read_log
from support.schedules.nodes import WANTED, Nodes
from support.schedules.play import Play
from support.schedules.schedule import COUNT, Asked, Fault, schedule

_KEPT = 3  # the topics of this many past schedules are kept, so that late requests find them


class Soak:
    """Plays schedules on one cluster.

    Args:
        lab: the cluster.
        folder: the folder for the runs' state directories.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self._nodes, self._folder = Nodes(lab), folder
        self._played: list[Play] = []
        self.verdicts: list[Verdicts] = []

    def played(self, number: int) -> Verdicts:
        folder = self._folder / f"s{number}"
        folder.mkdir()
        play = Play(schedule(number), self._nodes, folder)
        try:
            play.play()
            verdict = judged(play)
        except Exception:  # noqa: BLE001 - it is reported with the schedule's number
            verdict = Verdicts(number, play.happened, [*play.problems, traceback.format_exc()])
        self.verdicts.append(verdict)
        self._played.append(play)
        self._tidy_up(_KEPT)
        return verdict

    def late(self) -> list[str]:
        """List the effects after a run had ended, also during later runs."""
        topics = {topic.name: play for play in self._played for topic in play.schedule.topics}
        logs = read_log(self._nodes.lab, topics)
        return [
            late for name, log in logs.items() for late in after_the_end(log, topics[name].entries)
        ]

    def _tidy_up(self, keep: int) -> None:
        if len(self._played) > keep:
            old = self._played[-keep - 1]
            delete_topics(old.connection, [topic.name for topic in old.schedule.topics])


def in_words(verdict: Verdicts) -> Iterator[str]:
    """Describe what happened in a schedule, as lines."""
    states = ", ".join(f"{count} {state}" for state, count in sorted(verdict.states.items()))
    yield (
        f"schedule {verdict.number}: {verdict.took_s:.0f} s, {states}; {verdict.moved} steps, "
        f"{verdict.unknown} requests unknown, the slowest {verdict.latest_s:.1f} s on its way, "
        f"{verdict.acknowledged} acknowledged, {verdict.lost} lost in {verdict.unclean} unclean "
        f"elections and {verdict.passed_over} passed over by the group, "
        f"{len(verdict.window)} changed between read and effect, "
        f"{verdict.decisions} decisions judged, {verdict.unseen} without their look"
    )
    yield from (f"    {each}" for each in verdict.happened)
    yield from (f"    window: {each}" for each in verdict.window)
    yield from (f"    PROBLEM: {each}" for each in verdict.problems)


def never_fired(verdicts: Iterable[Verdicts]) -> list[str]:
    """List the kinds of faults and commands that occurred in no schedule."""
    fired: Counter[Fault | Asked] = sum((verdict.fired for verdict in verdicts), Counter())
    return [kind.value for kind in (*Fault, *Asked) if not fired[kind]]


def main() -> int:
    first, count = [*map(int, sys.argv[1:]), 1][:2] if sys.argv[1:] else (0, COUNT)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, _a_lab(Path(folder) / "lab") as lab:
        soak = Soak(lab, Path(folder))
        began_s = time.monotonic()
        for number in range(first, first + count):
            print("\n".join(in_words(soak.played(number))), flush=True)
        late = soak.late()
    print("\n".join(f"PROBLEM: {each}" for each in late))
    fired: Counter[Fault | Asked] = sum((verdict.fired for verdict in soak.verdicts), Counter())
    print(f"{count} schedules in {(time.monotonic() - began_s) / 60:.0f} minutes")
    print("fired:", ", ".join(f"{kind.value} {fired[kind]}" for kind in (*Fault, *Asked)))
    failed = [verdict.number for verdict in soak.verdicts if verdict.problems]
    silent = never_fired(soak.verdicts) if count >= COUNT else []
    print("failed:", failed or "none", *(("never fired:", silent) if silent else ()))
    return 1 if failed or late or silent else 0


@contextmanager
def _a_lab(folder: Path) -> Iterator[Lab]:
    lab = up(folder, WANTED, connect, lambda _: None)
    try:
        yield lab
    finally:
        down(lab, keep=False)


if __name__ == "__main__":
    sys.exit(main())
