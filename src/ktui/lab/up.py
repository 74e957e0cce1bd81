"""Bringing a lab up."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import msgspec

from ktui.lab import layout, nodes, readiness, security
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
    RACKS,
    Lab,
    LabError,
    Layout,
    Node,
    ProgressReport,
    Security,
    WrongInput,
)
from ktui.lab.readiness import Connect, wait_until_ready


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
            return _start_new(lab, connect, report)
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
    readiness.check([node.port for node in lab.layout.nodes])
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
    chosen = readiness.choose(count) if first is None else readiness.from_first(first, count)
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


def _start_new(lab: Lab, connect: Connect, report: ProgressReport) -> Lab:
    _write_files(lab, report)
    count = sum(len(lab.log_dirs(node)) for node in lab.layout.nodes)
    report(f"formatting {count} log dirs")
    nodes.format_all(lab, security.scram_credentials(lab))
    archive = Path(lab.layout.class_archive) if lab.layout.class_archive else None
    to_record = archive if archive and not archive.exists() else None
    report(f"starting the controller and {lab.size}")
    flags = {1: [RECORD_FLAG]} if to_record else {}
    pids = {node.id: nodes.start(lab, node, *flags.get(node.id, [])) for node in lab.layout.nodes}
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
    readiness.write_files(lab)
