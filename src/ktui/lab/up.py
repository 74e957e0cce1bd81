"""Bringing a lab up: free ports, files, processes, and the wait until the cluster is ready."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import ClusterReader
from ktui.lab import layout, nodes, security
from ktui.lab.java import (
    RECORD_FLAG,
    Java,
    archive_path,
    check_version,
    fetch,
    find_java,
    needed_release,
    record_archive,
)
from ktui.lab.layout import (
    CONTROLLER_ID,
    HOST,
    RACKS,
    Lab,
    LabError,
    Layout,
    Node,
    ProgressReport,
    Security,
    WrongInput,
)

Connect = Callable[[Mapping[str, str]], ClusterReader]

_LIMIT_S = 180.0
_POLL_S = 0.1


async def wait_until_ready(lab: Lab, connect: Connect, report: ProgressReport) -> None:
    """Return when the cluster reports that all its brokers are alive."""
    waiting = _Waiting(lab, report)
    await waiting.for_all("listen", lambda: _listening(lab.brokers))
    reader = connect(security.librdkafka_settings(lab))
    try:
        await waiting.for_all("are alive", lambda: _alive(reader))
    finally:
        await reader.aclose()


class _Waiting:
    def __init__(self, lab: Lab, report: ProgressReport) -> None:
        self._lab = lab
        self._report = report
        self._until = time.monotonic() + _LIMIT_S
        self._expected = {node.id for node in lab.brokers}

    async def for_all(self, state: str, poll: Callable[[], Awaitable[Collection[int]]]) -> None:
        before = 0
        while missing := self._expected.difference(await poll()):
            self._check(missing, state)
            now = len(self._expected) - len(missing)
            if now != before:
                self._report(f"{now} of {len(self._expected)} brokers {state}")
            before = now
            await asyncio.sleep(_POLL_S)

    def _check(self, missing: set[int], state: str) -> None:
        running = nodes.running(self._lab)
        dead = [node for node in self._lab.layout.nodes if node.id not in running]
        if dead:
            words = nodes.error_lines(self._lab.log(dead[0]))
            raise LabError(f"the lab's {dead[0].name} has died while starting", words=words)
        if time.monotonic() > self._until:
            late = [self._lab.node(number) for number in sorted(missing)]
            raise LabError(
                f"after {_LIMIT_S:.0f} s not all brokers of the lab {state}: "
                + ", ".join(node.name for node in late),
                words=nodes.error_lines(self._lab.log(late[0])),
            )


async def _listening(brokers: Collection[Node]) -> set[int]:
    """Return the brokers whose ports are open; Kafka clients back off long after a refusal."""
    return {node.id for node in brokers if await _listens(node.port)}


async def _listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(HOST, port)
    except OSError:
        return False
    writer.close()
    return True


async def _alive(reader: ClusterReader) -> set[int]:
    try:
        cluster = await reader.describe_cluster()
    except ClusterError:
        return set()
    return set(cluster.online)


_LOWEST, _HIGHEST = 20_000, 32_000
"""Below the range from which systems assign ports to outgoing connections. Otherwise such a
connection could occupy a broker's port while the broker is down."""
_TRIES = 200
_LOWEST_UNPRIVILEGED, _HIGHEST_PORT = 1024, 65535


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def choose_ports(count: int) -> list[int]:
    """Find `count` free ports in a row."""
    for _ in range(_TRIES):
        first = random.randrange(_LOWEST, _HIGHEST - count)  # noqa: S311 - not a secret
        ports = list(range(first, first + count))
        if all(is_free(port) for port in ports):
            return ports
    raise LabError(
        f"no {count} free ports in a row on {HOST} between {_LOWEST} and {_HIGHEST}",
        fix="Name the first port to use with --ports.",
    )


def ports_from(first: int, count: int) -> list[int]:
    """Return `count` ports from `first` on."""
    ports = list(range(first, first + count))
    if first < _LOWEST_UNPRIVILEGED or ports[-1] > _HIGHEST_PORT:
        raise WrongInput(
            f"--ports {first}: a lab of this size needs the ports {ports[0]} to {ports[-1]}",
            fix=f"They must lie between {_LOWEST_UNPRIVILEGED} and {_HIGHEST_PORT}.",
        )
    check_ports(ports)
    return ports


def check_ports(ports: list[int]) -> None:
    """Check that all ports are free."""
    taken = [port for port in ports if not is_free(port)]
    if taken:
        raise LabError(
            f"{HOST}:{taken[0]} is taken by another program",
            fix=f"The lab needs {ports[0]} to {ports[-1]}. For a new lab, name other ports with "
            "--ports, or leave --ports out to use free ones.",
        )


def down(lab: Lab, *, keep: bool) -> None:
    """End this lab's processes; `keep` shuts down in order and leaves the files."""
    nodes.stop(lab, gently=keep)
    if not keep:
        _remove(lab)


def _remove(lab: Lab) -> None:
    for node in lab.layout.nodes:
        shutil.rmtree(lab.home(node), ignore_errors=True)
    shutil.rmtree(lab.certificates, ignore_errors=True)
    for pattern in ("client-*.properties", "log4j*", "lab.json*"):
        for file in lab.folder.glob(pattern):
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        lab.folder.rmdir()


_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise SystemExit on SIGTERM or SIGHUP, unless handled or ignored; in the main thread only."""
    handled = []
    if threading.current_thread() is threading.main_thread():
        handled = [number for number in _SIGNALS if signal.getsignal(number) is signal.SIG_DFL]
    for number in handled:
        signal.signal(number, _exit)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


_NEEDED_BYTES = 1024**3
_TLS_JAVA = 17  # the first Java whose keytool signs with another key (-signer)


class LabRequest(msgspec.Struct, frozen=True):
    """The lab that a user asks for."""

    brokers: int = layout.DEFAULT_BROKERS
    version: str = layout.DEFAULT_VERSION
    security: Security = Security.PLAINTEXT
    first_port: int | None = None  # of the first broker, controllers last; None: free ports
    controllers: int = 1
    log_dirs: int = 1
    settings: dict[str, str] = {}
    jvm_flags: tuple[str, ...] = ()
    """More flags for the first start of each node; they override the usual ones."""


def up(folder: Path, request: LabRequest, connect: Connect, report: ProgressReport) -> Lab:
    """Start a lab and return when the cluster reports all its brokers; a kept one starts again.

    If that fails or is interrupted, all that was started ends, and new files are removed.
    """
    folder = Path(os.path.realpath(folder))
    check_version(request.version)
    if not 1 <= request.brokers <= layout.MAX_BROKERS:
        raise WrongInput(
            f"--brokers {request.brokers}", fix=f"A lab has 1 to {layout.MAX_BROKERS} brokers."
        )
    if not 1 <= request.log_dirs <= layout.MAX_LOG_DIRS:
        raise WrongInput(
            f"--log-dirs {request.log_dirs}",
            fix=f"A broker has 1 to {layout.MAX_LOG_DIRS} log dirs.",
        )
    with exit_on_signals():
        if layout.exists(folder):
            return _restart(_kept_lab(folder, request), connect, report)
        if folder.exists() and any(folder.iterdir()):
            raise WrongInput(f"{folder} is not empty", fix="Name another folder with --dir.")
        lab = _prepare(folder, request, report)
        try:
            return _start_new(lab, request.jvm_flags, connect, report)
        except BaseException:
            down(lab, keep=False)
            raise


def _kept_lab(folder: Path, request: LabRequest) -> Lab:
    lab = layout.load(folder)
    where = layout.dir_option(folder)
    if nodes.running(lab):
        raise LabError(
            f"a lab is already running in {folder}: {lab.bootstrap_servers}",
            fix=f"Inspect it with ktui lab status{where}, end it with ktui lab down{where}, or "
            "name another folder with --dir.",
        )
    clear = f"Clear it with: ktui lab down{where}"
    if not lab.layout.ready:
        raise LabError(
            f"{folder} holds a lab that is still starting, or whose start was interrupted",
            fix=clear,
        )
    facts = lab.layout
    if (len(lab.brokers), facts.kafka_version, facts.security, facts.log_dirs) != (
        request.brokers,
        request.version,
        request.security,
        request.log_dirs,
    ):
        raise WrongInput(
            f"{folder} holds another, stopped lab: --brokers {len(lab.brokers)} "
            f"--version {facts.kafka_version} --security {facts.security.value} "
            f"--log-dirs {facts.log_dirs}",
            fix=f"Start it with these options, or clear it with: ktui lab down{where}",
        )
    return lab


def _restart(lab: Lab, connect: Connect, report: ProgressReport) -> Lab:
    check_ports([node.port for node in lab.layout.nodes])
    report(f"starting the controller and {lab.size} again")
    try:
        for node in lab.layout.nodes:
            nodes.start(lab, node)
        asyncio.run(wait_until_ready(lab, connect, report))
    except BaseException:
        down(lab, keep=True)
        raise
    return lab


def _prepare(folder: Path, request: LabRequest, report: ProgressReport) -> Lab:
    count, first = request.brokers + request.controllers, request.first_port
    chosen = choose_ports(count) if first is None else ports_from(first, count)
    java = _java_for(request)
    class_path = fetch(request.version, report)
    archive = archive_path(java, class_path)
    brokers = [
        Node(id=number, port=port, rack=RACKS[(number - 1) % len(RACKS)])
        for number, port in enumerate(chosen[: request.brokers], start=1)
    ]
    controllers = [
        Node(id=number, port=port)
        for number, port in enumerate(chosen[request.brokers :], start=CONTROLLER_ID)
    ]
    _check_disk(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = Layout(
        kafka_version=request.version,
        cluster_id=nodes.new_id(),
        security=request.security,
        java=java.program,
        class_path=class_path,
        class_archive=str(archive) if archive else None,
        nodes=(*controllers, *brokers),
        log_dirs=request.log_dirs,
        passwords=security.new_passwords() if request.security.by_password else {},
        settings=request.settings,
    )
    lab = Lab(folder, facts)
    layout.create(lab)
    return lab


def _java_for(request: LabRequest) -> Java:
    needed, what_for = needed_release(request.version), f"Kafka {request.version}"
    if request.security.encrypted and needed < _TLS_JAVA:
        return find_java(_TLS_JAVA, "a lab with TLS")
    return find_java(needed, what_for)


def _check_disk(folder: Path) -> None:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < _NEEDED_BYTES:
        raise LabError(
            f"a lab needs 1 GiB of disk, and {folder} has {free / 1024**2:.0f} MiB left",
            fix="Make room, or name another folder with --dir.",
        )


def _start_new(
    lab: Lab, jvm_flags: tuple[str, ...], connect: Connect, report: ProgressReport
) -> Lab:
    _write_files(lab, report)
    count = sum(len(lab.log_dirs(node)) for node in lab.layout.nodes)
    report(f"formatting {count} log dirs")
    nodes.format_all(lab, security.scram_credentials(lab))
    archive = Path(lab.layout.class_archive) if lab.layout.class_archive else None
    to_record = archive if archive and not archive.exists() else None
    report(f"starting the controller and {lab.size}")
    recorded = {1: [RECORD_FLAG]} if to_record else {}
    pids = {
        node.id: nodes.start(lab, node, *recorded.get(node.id, []), *jvm_flags)
        for node in lab.layout.nodes
    }
    asyncio.run(wait_until_ready(lab, connect, report))
    if lab.layout.security is not Security.PLAINTEXT:
        report("granting the viewer its permissions")
        security.grant_viewer(lab, lab.client_file(security.ADMIN))
    if to_record:
        report("recording a class archive: the next start takes half the time")
        record_archive(pids[1], lab.layout.java, to_record)
    lab = Lab(lab.folder, msgspec.structs.replace(lab.layout, ready=True))
    layout.save(lab)
    return lab


def _write_files(lab: Lab, report: ProgressReport) -> None:
    if lab.layout.security.encrypted:
        report("making certificates")
        by_certificate = () if lab.layout.security.by_password else security.USERS
        security.make(lab.certificates, lab.layout.java, by_certificate)
    secured = security.server_settings(lab)
    for node in lab.layout.nodes:
        lab.home(node).mkdir(mode=0o700)
        text = security.render(security.server_properties(lab, node, secured))
        lab.properties_file(node).write_text(text)
    security.write_files(lab)
