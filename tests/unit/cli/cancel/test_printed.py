"""What `ktui cancel` prints, and what becomes of partitions: sessions in golden files."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from ktui.cli.context.config import Context
from ktui.execution.host.ownership import CancelGateFile, this_process
from ktui.simulated import layout
from support.cli.cancel_sandbox import THREE, CancelledRun, CancelSandbox
from support.cli.session_sandbox import commands
from support.golden import Acts, Golden, sessions
from support.simulated.moving_clusters import move


class Cancels:
    """Runs of which one is cancelled after the other, or a cluster with moves of others."""

    sandbox: CancelSandbox | CancelledRun

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._monkeypatch = folder, monkeypatch
        self._alive = ExitStack()
        self._made = 0
        self.fixed = {str(folder): "FOLDER", this_process().short: "ada@ops1 (1)"}

    def _next(self) -> Path:
        self._alive.close()
        self._made += 1
        return self._folder / str(self._made)

    def run(self, left_s: str = "5", until_s: str = "1000") -> None:
        """Make a run that was left at a second; a process for it is left at another."""
        self.sandbox = CancelledRun(self._next(), self._monkeypatch, left_s=float(left_s))
        self.sandbox.until_s = float(until_s)

    def long_run(self) -> None:
        ways = {f"orders-{n}": (THREE, (4, 5, 6)) for n in range(60)}
        self.sandbox = CancelledRun(self._next(), self._monkeypatch, ways=ways)

    def run_below_min_isr(self) -> None:
        cluster = {"configs": {"min.insync.replicas": "2"}, "messages": 100_000}
        self.sandbox = CancelledRun(self._next(), self._monkeypatch, cluster=cluster)
        for broker in (2, 3):
            self.sandbox.cluster.do(layout.Kill(broker))
        self.sandbox.story.clock.pass_time(20.0)
        self.sandbox.cluster.catch_up()

    def cluster(self, min_isr: str = "1", messages: str = "10000") -> None:
        """Use a cluster on which nothing moves yet."""
        configs = {"min.insync.replicas": min_isr}
        self.sandbox = CancelSandbox(
            self._next(), self._monkeypatch, configs=configs, messages=int(messages)
        )

    def others_move(self, name: str, target: str) -> None:
        assert isinstance(self.sandbox, CancelSandbox)
        self.sandbox.others_move(name, target=tuple(map(int, target.split(","))))

    def live(self, target: str, *names: str) -> None:
        assert isinstance(self.sandbox, CancelSandbox)
        self.sandbox.live("drain", dict.fromkeys(names, tuple(map(int, target.split(",")))))

    def alive(self) -> None:
        assert isinstance(self.sandbox, CancelledRun)
        self._alive.enter_context(self.sandbox.alive())

    def read_only(self) -> None:
        if isinstance(self.sandbox, CancelSandbox):
            self.sandbox.read_only = True
        else:
            self.sandbox.context = Context(read_only=True)

    def down(self, broker: str) -> None:
        self.sandbox.cluster.do(layout.Kill(int(broker)))
        assert isinstance(self.sandbox, CancelSandbox)
        self.sandbox.clock.pass_time(20.0)

    def others_move_later(self) -> None:
        assert isinstance(self.sandbox, CancelSandbox)
        self.sandbox.schedule(4.0, move("orders-1", 4, 2, 3))
        self.sandbox.cluster.do(layout.LoseAnswer())

    @property
    def environment(self) -> Mapping[str, str]:
        return {"KTUI_STATE_DIR": str(self.sandbox.state.path), "KTUI_CONTEXT": "prod"}

    @property
    def condition(self) -> Mapping[str, str]:
        """What moves, who has shut the gate, and the commands to the run."""
        shut = self.sandbox.gate.state()
        found = {"gate": "open" if shut is None else f"shut, to {shut.reason}"}
        if isinstance(self.sandbox, CancelSandbox):
            moving = ", ".join(sorted(self.sandbox.moving))
            found |= {"moving": moving, "lines of the log": str(len(self.sandbox.log))}
        else:
            run = self.sandbox.run
            found |= {str(tp): track.state.value for tp, track in run.tracks.items()}
            found["paused"] = run.pauses.reason or "no"
        return {**found, **commands(self.sandbox.state)}

    def shut_gate(self) -> None:
        gate: CancelGateFile = self.sandbox.gate
        gate.shut(self.sandbox.cluster.clock.now(), "ada@ops1 (4711)", "stop all of run drain")


def _on(name: str) -> Callable[..., object]:
    return lambda cancels, *words: getattr(cancels, name)(*words)


ACTS: Acts = {
    name.replace("_", "-"): _on(name)
    for name in (
        "run", "long_run", "run_below_min_isr", "cluster", "others_move", "live",
        "alive", "read_only", "down", "others_move_later", "shut_gate",
    )
}  # fmt: skip


@pytest.mark.parametrize("name", sessions(__file__))
def test_a_session_prints_and_changes_what_its_file_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, golden: Golden
) -> None:
    golden.play(name, Cancels(tmp_path, monkeypatch), ACTS)
