"""Brings a lab up."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import msgspec

from ktui.lab import (
    certificates,
    class_archive,
    clients,
    down,
    jars,
    layout,
    nodes,
    ports,
    properties,
    security,
    users,
)
from ktui.lab.errors import LabError, WrongInput
from ktui.lab.interrupt import unwinding_on_signals
from ktui.lab.java import Java, find_java, needed_release
from ktui.lab.layout import CONTROLLER_ID, RACKS, Lab, Layout, Node, Report, Security
from ktui.lab.readiness import Connect, until_ready

_ROOM_BYTES = 1024**3
_TLS_JAVA = 17
"""The first whose keytool signs with a key of one's own (-genkeypair -signer)."""


class LabRequest(msgspec.Struct, frozen=True):
    """What kind of lab."""

    brokers: int = layout.DEFAULT_BROKERS
    version: str = layout.DEFAULT_VERSION
    security: Security = Security.PLAINTEXT
    first_port: int | None = None
    """The first broker's port, the others following, the controller's last; None finds some."""
    controllers: int = 1
    settings: dict[str, str] = {}
    """What every node's server properties have besides, or instead."""


def up(folder: Path, wanted: LabRequest, connect: Connect, report: Report) -> Lab:
    """Start a lab and return when all its brokers are alive, as the cluster itself says.

    Whatever ends it early (an error, Ctrl-C, SIGTERM) ends every process begun and removes the
    folder's files.

    Raises:
        LabError: and nothing is left running.
    """
    folder = Path(os.path.realpath(folder))
    jars.check_version(wanted.version)
    if not 1 <= wanted.brokers <= layout.MAX_BROKERS:
        raise WrongInput(
            f"--brokers {wanted.brokers}", fix=f"A lab has 1 to {layout.MAX_BROKERS} brokers."
        )
    with unwinding_on_signals():
        if layout.exists(folder):
            return _restart(_kept(folder, wanted), connect, report)
        if folder.exists() and any(folder.iterdir()):
            raise WrongInput(f"{folder} is not empty", fix="Name another folder with --dir.")
        lab = _lay_out(folder, wanted, report)
        try:
            return _begin(lab, connect, report)
        except BaseException:
            down.down(lab, keep=False)
            raise


def _kept(folder: Path, wanted: LabRequest) -> Lab:
    """Find a lab in the folder that was ended with its data kept, and is the one wanted."""
    lab = layout.load(folder)
    where = layout.dir_option(folder)
    if nodes.running(lab):
        raise LabError(
            f"a lab runs already in {folder}: {lab.bootstrap_servers}",
            fix=f"See it with ktui lab status{where}, end it with ktui lab down{where}, or name "
            "another folder with --dir.",
        )
    clear = f"Clear it with: ktui lab down{where}"
    if not lab.layout.ready:
        raise LabError(f"{folder} holds a lab whose start goes on, or was cut off", fix=clear)
    facts = lab.layout
    if (len(lab.brokers), facts.kafka_version, facts.security) != (
        wanted.brokers,
        wanted.version,
        wanted.security,
    ):
        raise WrongInput(
            f"{folder} holds another lab, which is stopped: --brokers {len(lab.brokers)} "
            f"--version {facts.kafka_version} --security {facts.security.value}",
            fix=f"Ask for that one, or clear it with: ktui lab down{where}",
        )
    return lab


def _restart(lab: Lab, connect: Connect, report: Report) -> Lab:
    """Start a kept lab with the data and the ports it had; without success, keep it."""
    ports.check([node.port for node in lab.layout.nodes])
    report(f"starting the controller and {lab.size} again")
    try:
        for node in lab.layout.nodes:
            nodes.start(lab, node)
        asyncio.run(until_ready(lab, connect, report))
    except BaseException:
        down.down(lab, keep=True)
        raise
    return lab


def _lay_out(folder: Path, wanted: LabRequest, report: Report) -> Lab:
    count, first = wanted.brokers + wanted.controllers, wanted.first_port
    chosen = ports.choose(count) if first is None else ports.from_first(first, count)
    java = _java_for(wanted)
    class_path = jars.fetch(wanted.version, report)
    archive = class_archive.place(java, class_path)
    brokers = [
        Node(id=number, port=port, rack=RACKS[(number - 1) % len(RACKS)])
        for number, port in enumerate(chosen[: wanted.brokers], start=1)
    ]
    controllers = [
        Node(id=number, port=port)
        for number, port in enumerate(chosen[wanted.brokers :], start=CONTROLLER_ID)
    ]
    _check_room(folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = Layout(
        kafka_version=wanted.version,
        cluster_id=nodes.new_id(),
        security=wanted.security,
        java=java.program,
        class_path=class_path,
        class_archive=str(archive) if archive else None,
        nodes=(*controllers, *brokers),
        passwords=users.new_passwords() if wanted.security.by_password else {},
        settings=wanted.settings,
    )
    lab = Lab(folder, facts)
    layout.create(lab)
    return lab


def _java_for(wanted: LabRequest) -> Java:
    needed, what_for = needed_release(wanted.version), f"Kafka {wanted.version}"
    if wanted.security.encrypted and needed < _TLS_JAVA:
        return find_java(_TLS_JAVA, "a lab with TLS")
    return find_java(needed, what_for)


def _check_room(folder: Path) -> None:
    there = next(place for place in (folder, *folder.parents) if place.exists())
    free = shutil.disk_usage(there).free
    if free < _ROOM_BYTES:
        raise LabError(
            f"a lab needs 1 GiB of disk, and {folder} has {free / 1024**2:.0f} MiB left",
            fix="Make room, or name another folder with --dir.",
        )


def _begin(lab: Lab, connect: Connect, report: Report) -> Lab:
    _write_files(lab, report)
    report(f"formatting {len(lab.layout.nodes)} log dirs")
    nodes.format_all(lab, users.scram_credentials(lab))
    archive = Path(lab.layout.class_archive) if lab.layout.class_archive else None
    to_record = archive if archive and not archive.exists() else None
    report(f"starting the controller and {lab.size}")
    flags = {1: [class_archive.RECORD_FLAG]} if to_record else {}
    pids = {node.id: nodes.start(lab, node, *flags.get(node.id, [])) for node in lab.layout.nodes}
    asyncio.run(until_ready(lab, connect, report))
    if lab.layout.security is not Security.PLAINTEXT:
        report("granting the viewer its permissions")
        users.allow_viewing(lab, lab.client_file(users.ADMIN))
    if to_record:
        report("recording a class archive: the next start takes half the time")
        class_archive.record(pids[1], lab.layout.java, to_record)
    lab = Lab(lab.folder, msgspec.structs.replace(lab.layout, ready=True))
    layout.save(lab)
    return lab


def _write_files(lab: Lab, report: Report) -> None:
    if lab.layout.security.encrypted:
        report("making certificates")
        certificates.make(lab.certificates, lab.layout.java)
    secured = security.server_settings(lab)
    for node in lab.layout.nodes:
        lab.home(node).mkdir(mode=0o700)
        text = properties.render(properties.server_properties(lab, node, secured))
        lab.properties_file(node).write_text(text)
    clients.write_files(lab)
