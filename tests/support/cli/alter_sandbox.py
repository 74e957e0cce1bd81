"""A simulated cluster with a topic, and `ktui alter-topic` on it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ktui.cli.context.terminal import BadInput
from ktui.cli.main import ktui
from ktui.execution import RunRefused
from ktui.execution.run.events import Planned, PlannedPart
from ktui.simulated.cluster import SimulatedCluster
from support.cli.start_sandbox import PlanSandbox, StartSandbox
from support.journals.journals import read
from support.simulated.moving_clusters import Replicas, a_cluster

ORDERS: list[Replicas] = [(1, 2), (2, 3), (3, 1)]


class AlterSandbox(StartSandbox):
    """A state directory, and a cluster with the topic "orders" of three partitions."""

    simulated: SimulatedCluster

    def __init__(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, plan_sandbox: PlanSandbox
    ) -> None:
        super().__init__(folder, monkeypatch, plan_sandbox)
        self.use(a_cluster({"orders": ORDERS}, brokers=range(1, 5)))

    def use(self, cluster: SimulatedCluster, **context: Any) -> None:
        self.simulated = cluster
        self.cluster(cluster, **context)
        self._monkeypatch.setattr("ktui.cli.alter.SystemClock", lambda: cluster.clock)

    def alter(self, *words: str) -> Result:
        """Call `ktui alter-topic` where no engine may be started."""
        arguments = ["alter-topic", *words, "--state-dir", str(self.state.path)]
        return CliRunner().invoke(ktui, arguments)

    def alter_refusal(self, *words: str) -> str:
        """Return the refusal of a call that may not have changed anything."""
        before = self.replicas
        error = self.alter(*words).exception
        assert isinstance(error, BadInput | RunRefused), error
        assert self.replicas == before
        assert self.runs == []
        return str(error)

    def asked(self, answer: Callable[[str], bool]) -> list[str]:
        """Let a person at a terminal answer; returns the questions."""
        questions: list[str] = []

        def confirm(question: str) -> bool:
            questions.append(question)
            return answer(question)

        self._monkeypatch.setattr("ktui.cli.context.terminal.can_ask", lambda: True)
        self._monkeypatch.setattr("click.confirm", confirm)
        return questions

    @property
    def replicas(self) -> list[Replicas]:
        """The replicas of each partition of "orders", as the controller has them."""
        topic = self.simulated.controller.topics["orders"]
        return [known.replicas for known in topic.partitions]

    @property
    def planned(self) -> dict[int, Planned]:
        """The partitions of the one run that was made, by number."""
        (run,) = self.state.run_dirs()
        events = [entry.event for entry in read(run.journal)[0]]
        parts = [event for event in events if isinstance(event, PlannedPart)]
        return {each.partition: each for part in parts for each in part.partitions}
