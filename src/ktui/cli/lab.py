"""`ktui lab`: a real, throwaway Kafka cluster on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from ktui.cli.context.option import add_option
from ktui.cli.context.terminal import BAD_INPUT, FAILED, ProgressLine, need_terminal
from ktui.cli.options import common
from ktui.cli.output.json_form import shown_json
from ktui.cluster.ports import ClusterReader
from ktui.lab import control, layout
from ktui.lab.layout import Lab, LabError, ProgressReport, Security, WrongInput
from ktui.lab.security import USERS
from ktui.lab.up import LabRequest
from ktui.lab.up import down as take_down
from ktui.lab.up import up as bring_up
from ktui.planning.plan import join_all

_dir_option = add_option(
    "--dir D",
    "The lab's folder; by default a folder in your user data.",
    "folder",
    type=click.Path(path_type=Path),
    default=layout.default_folder,
)
_version_option = add_option(
    "--version X.Y.Z",
    f"The Kafka version, {layout.VERSIONS[-1]} or later.",
    default=layout.DEFAULT_VERSION,
    show_default=True,
)
_broker_argument = click.argument("broker", type=int)


def connect(settings: Mapping[str, str]) -> ClusterReader:
    """Make the reader with which a lab checks that its cluster is up."""
    from ktui.kafka.connection.connection import Connection  # noqa: PLC0415 - most verbs need no Kafka client
    from ktui.kafka.reader import KafkaReader  # noqa: PLC0415 - the same

    return KafkaReader(Connection.of(settings, where="the lab"))


@click.group("lab")
def command() -> None:
    """Run a real, throwaway Kafka cluster on this machine.

    It listens on 127.0.0.1 only, and needs Java and Maven. BROKER is a broker's id, or 100 for the
    controller.
    """


@command.command()
@add_option(
    "--brokers N",
    f"The number of brokers, 1 to {layout.MAX_BROKERS}.",
    type=int,
    default=layout.DEFAULT_BROKERS,
    show_default=True,
)
@add_option(
    "--log-dirs N",
    f"The number of log dirs of each broker, 1 to {layout.MAX_LOG_DIRS}.",
    type=int,
    default=1,
    show_default=True,
)
@_version_option
@add_option(
    "--ports FROM",
    "The first broker's port. The other brokers follow, the controller comes last. By default "
    "ktui finds free ports.",
    type=int,
)
@add_option(
    "--security",
    "How clients connect. All kinds but plaintext have users and ACLs.",
    default=Security.PLAINTEXT,
    show_default=True,
)
@_dir_option
def up(
    brokers: int, log_dirs: int, version: str, ports: int | None, security: Security, folder: Path
) -> None:
    """Start a cluster. It runs until `ktui lab down`."""
    request = LabRequest(
        brokers=brokers, version=version, security=security, first_port=ports, log_dirs=log_dirs
    )
    with _errors_as_messages(), progress() as report:
        lab = bring_up(folder, request, connect, report)
    click.echo(_welcome(lab))


@command.command()
@add_option("--keep", "Keep the data, for the next `ktui lab up`.")
@_dir_option
def down(folder: Path, *, keep: bool) -> None:
    """Stop the lab and remove its data."""
    with _errors_as_messages():
        lab = layout.load(folder)
        take_down(lab, keep=keep)
    what = "kept" if keep else "removed"
    click.echo(f"The lab in {lab.folder} is stopped, and its data is {what}.")


@command.command()
@common.json_option
@_dir_option
def status(folder: Path, *, json: bool) -> None:
    """Show which processes of the lab run, and where."""
    with _errors_as_messages():
        lab = layout.load(folder)
        nodes = control.status(lab)
    click.echo(_status_json(lab, nodes) if json else _status_text(lab, nodes))


def _add_control(act: Callable[[Lab, int], object], words: str, result: str) -> None:

    @command.command(act.__name__, help=words)
    @_broker_argument
    @_dir_option
    def verb(broker: int, folder: Path) -> None:
        with _errors_as_messages():
            lab = layout.load(folder)
            act(lab, broker)
        click.echo(f"{lab.node(broker).name} {result}")


_add_control(control.kill, "Kill a broker at once (SIGKILL), like a power cut.", "killed")
_add_control(control.suspend, "Suspend a broker (SIGSTOP), like a machine that hangs.", "suspended")
_add_control(control.resume, "Resume a suspended broker (SIGCONT).", "resumed")
_add_control(
    control.start,
    "Start a stopped broker again, with its data and port.",
    "started. It joins the cluster within seconds",
)


@command.command("fail-dir")
@_broker_argument
@add_option(
    "--log-dir N",
    "Which log dir, from 1. Default: the last. Without the first, a broker ends.",
    "number",
    type=int,
)
@_dir_option
def fail_dir(broker: int, number: int | None, folder: Path) -> None:
    """Let a log dir of a broker fail, like a broken disk."""
    with _errors_as_messages():
        lab = layout.load(folder)
        path = control.fail(lab, broker, number)
    click.echo(f"{path} has failed. {lab.node(broker).name} notices within seconds")


@command.command("mend-dir")
@_broker_argument
@_dir_option
def mend_dir(broker: int, folder: Path) -> None:
    """Repair the failed log dirs of a broker, with their data."""
    with _errors_as_messages():
        lab = layout.load(folder)
        paths = control.mend(lab, broker)
    where = layout.dir_option(lab.folder)
    again = f"ktui lab kill {broker}{where} ; ktui lab start {broker}{where}"
    click.echo(f"{join_all(paths)} in order. A running broker uses it after: {again}")


@command.command()
@add_option(
    "--brokers N",
    "The number of brokers, 4 or more.",
    type=click.IntRange(4, layout.MAX_BROKERS),
    default=5,
    show_default=True,
)
@_version_option
@add_option(
    "--dir D",
    "The folder of the demo's lab; by default a folder in your user data.",
    "folder",
    type=click.Path(path_type=Path),
    default=lambda: layout.default_folder().with_name("demo"),
)
def demo(brokers: int, version: str, folder: Path) -> None:
    """Watch a reassignment on a separate lab.

    The lab has three topics with data, a throttled reassignment, and a producer. The live view
    shows it. When you leave the view, ktui takes the lab down.
    """
    from ktui.cli import lab_demo  # noqa: PLC0415 - most verbs need no Kafka client

    need_terminal()
    with _errors_as_messages():
        code = lab_demo.run(folder, LabRequest(brokers=brokers, version=version), connect, progress)
    raise SystemExit(code)


@contextmanager
def progress() -> Iterator[ProgressReport]:
    """Report progress on standard error; on a terminal, in one line that changes."""
    line = ProgressLine(every_s=0.0)
    try:
        yield lambda step: line.show(f"{step} ..." if line.drawn else step)
    finally:
        line.clear()


@contextmanager
def _errors_as_messages() -> Iterator[None]:
    try:
        yield
    except LabError as error:
        click.echo(f"ktui: {error}", err=True)
        code = BAD_INPUT if isinstance(error, WrongInput) else FAILED
        raise SystemExit(code) from None


def _welcome(lab: Lab) -> str:
    where = layout.dir_option(lab.folder)
    disks = "|fail-dir|mend-dir" if lab.layout.log_dirs > 1 else ""
    lines = [
        f"Kafka {lab.layout.kafka_version} runs: {lab.size}",
        f"Address    {lab.bootstrap_servers}",
        "",
        *_ways_in(lab),
        f"Break it   ktui lab kill|suspend|resume|start{disks} BROKER{where}",
        f"Stop it    ktui lab down{where}",
    ]
    return "\n".join(lines)


def _ways_in(lab: Lab) -> list[str]:
    if lab.layout.security is Security.PLAINTEXT:
        return [f"Watch it   ktui watch --bootstrap-server {lab.bootstrap_servers}"]
    files = (shlex.quote(str(lab.client_file(user))) for user in USERS)
    first, *rest = (f"ktui watch --command-config {file}" for file in files)
    return [f"Watch it   {first}", *(f"      or   {line}" for line in rest)]


def _status_text(lab: Lab, nodes: list[control.NodeStatus]) -> str:
    running = sum(node.state is control.NodeState.RUNNING for node in nodes)
    unready = "" if lab.layout.ready else "; the lab was never ready"
    rows = [
        f"  {node.node.name:<12}{node.node.id:>4}  {node.node.port:>5}  {node.node.rack or '-':<4}"
        f"  {node.pid or '-':>8}  {node.state.value}"
        for node in nodes
    ]
    security = lab.layout.security.value
    return "\n".join(
        [
            f"Kafka {lab.layout.kafka_version} ({security}) in {lab.folder}",
            f"{running} of {len(nodes)} processes run{unready}",
            f"Bootstrap servers: {lab.bootstrap_servers}",
            "",
            f"  {'NODE':<12}{'ID':>4}  {'PORT':>5}  RACK  {'PID':>8}  STATE",
            *rows,
        ]
    )


def _status_json(lab: Lab, nodes: list[control.NodeStatus]) -> str:
    answer = {
        "schema_version": 1,
        "folder": str(lab.folder),
        "kafka_version": lab.layout.kafka_version,
        "security": lab.layout.security,
        "cluster_id": lab.layout.cluster_id,
        "bootstrap_servers": lab.bootstrap_servers,
        "ready": lab.layout.ready,
        "nodes": [
            {
                "id": node.node.id,
                "role": "controller" if node.node.is_controller else "broker",
                "port": node.node.port,
                "rack": node.node.rack,
                "pid": node.pid,
                "state": node.state,
            }
            for node in nodes
        ],
    }
    return shown_json(msgspec.json.encode(answer).decode())
