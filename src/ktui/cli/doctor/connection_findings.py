"""Check a connection: its clients, its settings, and who can read its files with secrets."""

from __future__ import annotations

import asyncio
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ktui.cli.context.cluster import TLS_UNVERIFIED
from ktui.cli.doctor.findings import DoctorFinding, Level
from ktui.kafka.connection.connection import Connection
from ktui.kafka.probe import Probe, probe_confluent, probe_kafka_python
from ktui.planning.names import join_all
from ktui.tui.draw.format import as_took

_VERIFY = (
    "Remove that setting. Set ssl.ca.location to the PEM file of the authority that signed the "
    "brokers' certificates, and connect by names that are in them."
)
_OTHERS = stat.S_IRWXO
_GROUP = stat.S_IRWXG


async def check_connection(connection: Connection) -> list[DoctorFinding]:
    """Connect with both clients, and judge the settings and files of the connection."""
    probes = await asyncio.gather(probe_kafka_python(connection), probe_confluent(connection))
    warned = [
        *(DoctorFinding(Level.WARNING, warning) for warning in connection.warnings),
        *(
            DoctorFinding(Level.WARNING, f"{TLS_UNVERIFIED}: {s}", _VERIFY)
            for s in connection.unverified
        ),
    ]
    return [
        *warned,
        *_secret_files(connection.secret_files),
        *(_probed(probe) for probe in probes),
    ]


def _probed(probe: Probe) -> DoctorFinding:
    if probe.error is not None:
        return DoctorFinding(Level.TROUBLE, f"{probe.client}: {probe.error}")
    return DoctorFinding(Level.GOOD, f"{probe.client} connects ({as_took(probe.took_s)})")


def _secret_files(files: Mapping[Path, Sequence[str]]) -> Iterator[DoctorFinding]:
    for path, settings in files.items():
        try:
            mode = path.stat().st_mode
        except OSError:  # readable a moment ago; if it is gone now, nobody else can read it either
            continue
        if not stat.S_ISREG(mode) or not mode & (_OTHERS | _GROUP):
            continue
        who = "everyone on its machine" if mode & _OTHERS else "its group"
        yield DoctorFinding(
            Level.WARNING,
            f"{path}: readable by {who} (mode {stat.S_IMODE(mode):03o}), and holds "
            f"{join_all(settings)}",
            f"Restrict it to its owner: chmod 600 {shlex.quote(str(path))}",
        )
