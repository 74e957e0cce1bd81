"""What `ktui broker` prints and changes: sessions in golden files."""

import shutil
from pathlib import Path

import pytest

from ktui.cli.context.config import Context
from ktui.cluster.settings import CORDONED
from ktui.simulated import layout
from ktui.simulated.layout import MIB, TopicSpec
from support.cli.broker_sandbox import RemovalSandbox
from support.golden import Acts, Golden, sessions
from support.simulated.moving_clusters import move


def cluster(sandbox: RemovalSandbox, *words: str) -> None:
    """Use another cluster; `words` are fields of it."""
    sandbox.context = Context()
    fields = (word.split("=") for word in words)
    sandbox.cluster(**{name: int(v) if v.isdecimal() else v for name, v in fields})


def down(sandbox: RemovalSandbox, broker: str) -> None:
    sandbox.do(layout.Kill(int(broker)))
    sandbox.wait(30.0)


def gone(sandbox: RemovalSandbox, broker: str) -> None:
    sandbox.do(layout.Shutdown(int(broker)))
    sandbox.wait(30.0)


def restart(sandbox: RemovalSandbox, broker: str) -> None:
    """Leave a broker up that no longer leads what it is the preferred leader of."""
    down(sandbox, broker)
    sandbox.do(layout.Start(int(broker)))
    sandbox.wait(60.0)


def topic(name: str, replicas: str) -> layout.CreateTopic:
    on = tuple(map(int, replicas.split(",")))
    return layout.CreateTopic(TopicSpec(name=name, replicas=(on,), bytes_each=MIB // 2))


def lands_during_the_drain(sandbox: RemovalSandbox) -> None:
    new = topic("new", "3,1")
    sandbox.meanwhile = lambda run: sandbox.do(new) if run == "drain-3" else None


def others_change_the_drain(sandbox: RemovalSandbox) -> None:
    def change(run: str) -> None:
        if run == "drain-3":
            sandbox.do(move("orders-3", 2, 1, 5))
            sandbox.do(move("orders-0", 2, 1, 3))

    sandbox.meanwhile = change


def thirty_topics(sandbox: RemovalSandbox) -> None:
    for n in range(30):
        sandbox.simulated.do(topic(f"small-{n:02}", "3,1"))
    sandbox.wait(1.0)


ACTS: Acts = {
    "cluster": cluster,
    "cordon": lambda sandbox, value: sandbox.cordon(3, value),
    "cordoned-by-file": lambda sandbox: sandbox.cluster(broker_configs={CORDONED: "*"}),
    "delete": lambda sandbox, name: sandbox.do(layout.DeleteTopic(name)),
    "delete-run": lambda sandbox, name: shutil.rmtree(sandbox.state.run(name).path),
    "deny": lambda sandbox, call: sandbox.do(layout.Deny(call)),
    "down": down,
    "engines-leave-after": lambda sandbox, after: setattr(sandbox, "until_s", float(after)),
    "engines-stay": lambda sandbox: setattr(sandbox, "until_s", 10_000.0),
    "gone": gone,
    "kill": lambda sandbox, broker: sandbox.do(layout.Kill(int(broker))),
    "lands-during-the-drain": lands_during_the_drain,
    "lose": lambda sandbox, what: sandbox.simulated.do(
        layout.LoseAnswer() if what == "answer" else layout.LoseRequest()
    ),
    "move": lambda sandbox, name, to: sandbox.do(move(name, *map(int, to.split(",")))),
    "offline": lambda sandbox, broker, path: sandbox.do(layout.FailLogDir(int(broker), path)),
    "others-change-the-drain": others_change_the_drain,
    "owned": RemovalSandbox.own_by_another,
    "read-only": lambda sandbox: setattr(sandbox, "context", Context(read_only=True)),
    "removed": lambda sandbox: sandbox.remove("--until-empty"),
    "restart": restart,
    "run": lambda sandbox, partitions: sandbox.a_run(int(partitions)),
    "spoil-the-note": lambda sandbox: sandbox.file().path.write_text('{"schema_version": 2}'),
    "stop": RemovalSandbox.stop,
    "thirty-topics": thirty_topics,
    "topic": lambda sandbox, name, replicas: sandbox.do(topic(name, replicas)),
    "topic-just-now": lambda sandbox, on: sandbox.simulated.do(topic("just-now", on)),
    "undone": lambda sandbox: sandbox.remove("--undo"),
    "wait": lambda sandbox, seconds: sandbox.wait(float(seconds)),
    "writable": lambda sandbox: setattr(sandbox, "context", Context()),
}


@pytest.mark.parametrize("name", sessions(__file__))
def test_a_session_prints_and_changes_what_its_file_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, golden: Golden
) -> None:
    golden.play(name, RemovalSandbox(tmp_path, monkeypatch), ACTS)
