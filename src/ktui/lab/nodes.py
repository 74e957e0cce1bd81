"""The processes of a lab, as the operating system knows them.

A process is found by its command line, which ends in Kafka's main class and the path of the node's
server properties. Its start time distinguishes it from a later process with the same pid. So
nothing is lost when the process that started the lab dies, and no other process is ever signalled.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec
import psutil

from ktui.lab.java import run_java, sharing_flags
from ktui.lab.layout import Lab, Node

MAIN_CLASS = "kafka.Kafka"
_SPAWN_S = 10.0


class Process(msgspec.Struct, frozen=True):
    """One running process, as it was when it was looked up."""

    handle: psutil.Process  # a pid and a start time: a reused pid is another process
    suspended: bool
    command: str

    @property
    def pid(self) -> int:
        return self.handle.pid


def spawn(command: list[str], *, log: Path, environment: dict[str, str]) -> int:
    """Start a process in its own session, out of reach of Ctrl-C; return once `find` sees it."""
    to_log = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        command[0],
        command,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), to_log, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    wait_for(lambda: (now := find_by_pid(pid)) is None or bool(now.command), seconds=_SPAWN_S)
    return pid


def find(properties: dict[int, Path]) -> dict[int, Process]:
    """Find the running Kafka processes of a lab by their properties files; both by node id."""
    endings = {f" {MAIN_CLASS} {path}": node for node, path in properties.items()}
    found = {}
    for process in all_running():
        main = process.command.rfind(f" {MAIN_CLASS} ")
        node = endings.get(process.command[main:]) if main > 0 else None
        if node is not None and Path(process.command[:main].split(" -", 1)[0]).name == "java":
            found[node] = process
    return found


def all_running() -> Iterator[Process]:
    """Yield every process that can be looked up and is not a zombie."""
    return filter(None, map(_look_up, psutil.process_iter()))


def find_by_pid(pid: int) -> Process | None:
    """Return the process with a pid; None if there is none, or only a zombie."""
    _reap(pid)
    try:
        return _look_up(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return None


def send_signal(process: Process, number: signal.Signals) -> bool:
    """Signal the process unless it has ended; return whether it was there."""
    if has_ended(process):
        return False
    try:
        process.handle.send_signal(number)
    except psutil.NoSuchProcess:
        return False
    return True


def has_ended(process: Process) -> bool:
    """Return whether the process has ended."""
    _reap(process.pid)
    return not process.handle.is_running() or _look_up(process.handle) is None


def wait_for(condition: Callable[[], bool], *, seconds: float) -> bool:
    """Poll a condition every 20 ms until it holds; return whether it did within the time."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


def _reap(pid: int) -> None:
    """Reap a child that has ended; processes that are not our children are left alone."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _look_up(handle: psutil.Process) -> Process | None:
    try:
        with handle.oneshot():
            status = handle.status()
            if status in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
                return None
            command = " ".join(word for word in handle.cmdline() if word)
    except psutil.Error:
        return None
    suspended = status in (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP)
    return Process(handle, suspended, command)


_PATTERN = "%d{HH:mm:ss.SSS} %-5p %c{1}: %m%n"

_LOG4J2 = f"""\
Configuration:
  status: ERROR
  Appenders:
    Console:
      name: out
      PatternLayout:
        pattern: "{_PATTERN}"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: out
    Logger:
      - name: kafka.server.KafkaRaftServer
        level: INFO
"""

_RELOAD4J = f"""\
log4j.rootLogger=WARN, out
log4j.logger.kafka.server.KafkaRaftServer=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern={_PATTERN}
"""

_ERROR = re.compile(r"\b(ERROR|FATAL)\b|Exception\b|Error\b|Caused by:")
_FRAME = re.compile(r"\s+(at |\.\.\. \d+ more)")
_TAIL_BYTES = 64 * 1024


def write_settings(folder: Path, kafka_version: str) -> str:
    """Write the log settings for this Kafka version, and return the JVM flag that names them."""
    if kafka_version.startswith("3."):
        path = folder / "log4j.properties"
        path.write_text(_RELOAD4J)
        return f"-Dlog4j.configuration=file:{path}"
    path = folder / "log4j2.yaml"
    path.write_text(_LOG4J2)
    return f"-Dlog4j2.configurationFile={path}"


def error_lines(log: Path, *, most: int = 6) -> tuple[str, ...]:
    """Return the last error lines of a log; its very last lines if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return ()
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not _FRAME.match(line)]
    errors = [line for line in lines if _ERROR.search(line)]
    return tuple((errors or lines)[-most:])


_STOP_S = 20.0
_KILL_S = 10.0


def new_id() -> str:
    """Make a random id as Kafka does: 22 URL-safe characters, the first of them no dash."""
    while (made := base64.urlsafe_b64encode(secrets.token_bytes(16)).decode()[:22])[0] == "-":
        pass
    return made


def format_all(lab: Lab, scram: Iterable[str] = ()) -> None:
    """Format all log dirs by one run of StorageTool; brokers get copies of meta.properties."""
    run_java(
        lab.layout.java,
        *sharing_flags(lab.layout.class_archive),
        *("-cp", lab.layout.joined_class_path, "kafka.tools.StorageTool", "format"),
        *("--cluster-id", lab.layout.cluster_id),
        *("--config", str(lab.properties_file(lab.controller))),
        *(word for credential in scram for word in ("--add-scram", credential)),
        doing="formatting the controller's log dir",
    )
    (source,) = lab.log_dirs(lab.controller)
    for node in lab.layout.nodes[1:]:
        for log_dir in lab.log_dirs(node):
            _copy_meta_properties(source, log_dir, node)


def _copy_meta_properties(source: Path, target: Path, node: Node) -> None:
    own = {"node.id": str(node.id), "directory.id": new_id()}
    target.mkdir(mode=0o700)
    lines = (source / "meta.properties").read_text().splitlines()
    changed = (
        f"{key}={own.get(key, value)}"
        for key, _, value in (line.partition("=") for line in lines if not line.startswith("#"))
    )
    (target / "meta.properties").write_text("\n".join(changed) + "\n")


def start(lab: Lab, node: Node, *jvm_flags: str) -> int:
    """Start the node's process and return its pid."""
    layout = lab.layout
    command = [
        layout.java,
        "-Xmx320m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:+ExitOnOutOfMemoryError",
        *sharing_flags(layout.class_archive),
        *jvm_flags,
        write_settings(lab.folder, layout.kafka_version),
        "-cp",
        layout.joined_class_path,
        MAIN_CLASS,
        str(lab.properties_file(node)),
    ]
    excluded = ("KAFKA_", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(excluded)}
    return spawn(command, log=lab.log(node), environment=environment)


def running(lab: Lab) -> dict[int, Process]:
    """Return the process of each running node, by node id."""
    return find({node.id: lab.properties_file(node) for node in lab.layout.nodes})


def stop(lab: Lab, *, gently: bool) -> None:
    """End every process, controllers last; `gently` lets brokers close their logs."""
    found = running(lab)
    controllers = [p for node, p in found.items() if lab.node(node).is_controller]
    brokers = [p for node, p in found.items() if not lab.node(node).is_controller]
    for group in (brokers, controllers):
        if gently:
            signal_and_wait(group, signal.SIGTERM, seconds=_STOP_S)
        signal_and_wait(group, signal.SIGKILL, seconds=_KILL_S)


def signal_and_wait(group: list[Process], number: signal.Signals, *, seconds: float) -> bool:
    """Signal processes, waking suspended ones, and wait; return whether all have ended."""
    for process in group:
        send_signal(process, number)
        send_signal(process, signal.SIGCONT)
    return wait_for(lambda: all(map(has_ended, group)), seconds=seconds)
