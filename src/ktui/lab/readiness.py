"""Waiting until a lab is up, as the cluster itself reports."""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

from ktui.cluster.errors import ClusterError
from ktui.cluster.ports import ClusterReader
from ktui.lab import nodes
from ktui.lab.layout import HOST, Lab, LabError, Node, ProgressReport, Security, WrongInput
from ktui.lab.security import (
    ADMIN,
    SCRAM,
    SCRAM_MODULE,
    USERS,
    authority_file,
    identity_file,
    login,
    render,
)


def librdkafka_settings(lab: Lab, user: str = ADMIN) -> dict[str, str]:
    """Return the settings to connect as `user`, under librdkafka's names."""
    if user not in USERS:
        raise WrongInput(f"a lab has no user {user!r}", fix=f"Its users are {', '.join(USERS)}.")
    security = lab.layout.security
    settings = {"bootstrap.servers": lab.bootstrap_servers, "security.protocol": security.protocol}
    if security.encrypted:
        settings["ssl.ca.location"] = str(authority_file(lab.certificates))
    if security.by_password:
        password = lab.layout.passwords[user]
        settings |= {"sasl.mechanism": SCRAM, "sasl.username": user, "sasl.password": password}
    elif security is Security.SSL:
        identity = str(identity_file(lab.certificates, user))
        settings |= {"ssl.certificate.location": identity, "ssl.key.location": identity}
    return settings


def write_files(lab: Lab) -> None:
    """Write client-USER.properties for each user of a secured lab, for --command-config."""
    if lab.layout.security is Security.PLAINTEXT:
        return
    for user in USERS:
        lab.client_file(user).touch(mode=0o600)
        lab.client_file(user).write_text(render(_java(lab, user)))


def _java(lab: Lab, user: str) -> dict[str, str]:
    security = lab.layout.security
    settings = {"bootstrap.servers": lab.bootstrap_servers, "security.protocol": security.protocol}
    if security.encrypted:
        settings |= _store("truststore", str(authority_file(lab.certificates)))
    if security.by_password:
        settings |= {"sasl.mechanism": SCRAM, "sasl.jaas.config": login(SCRAM_MODULE, user, lab)}
    elif security is Security.SSL:
        settings |= _store("keystore", str(identity_file(lab.certificates, user)))
    return settings


def _store(kind: str, location: str) -> dict[str, str]:
    return {f"ssl.{kind}.type": "PEM", f"ssl.{kind}.location": location}


Connect = Callable[[Mapping[str, str]], ClusterReader]

_LIMIT_S = 180.0
_POLL_S = 0.1


async def wait_until_ready(lab: Lab, connect: Connect, report: ProgressReport) -> None:
    """Return when the cluster reports that all its brokers are alive."""
    waiting = _Waiting(lab, report)
    await waiting.for_all("listen", lambda: _listening(lab.brokers))
    reader = connect(librdkafka_settings(lab))
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


def choose(count: int) -> list[int]:
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


def from_first(first: int, count: int) -> list[int]:
    """Return `count` ports from `first` on."""
    ports = list(range(first, first + count))
    if first < _LOWEST_UNPRIVILEGED or ports[-1] > _HIGHEST_PORT:
        raise WrongInput(
            f"--ports {first}: a lab of this size needs the ports {ports[0]} to {ports[-1]}",
            fix=f"They must lie between {_LOWEST_UNPRIVILEGED} and {_HIGHEST_PORT}.",
        )
    check(ports)
    return ports


def check(ports: list[int]) -> None:
    """Check that all ports are free."""
    taken = [port for port in ports if not is_free(port)]
    if taken:
        raise LabError(
            f"{HOST}:{taken[0]} is taken by another program",
            fix=f"The lab needs {ports[0]} to {ports[-1]}. For a new lab, name other ports with "
            "--ports, or leave --ports out to use free ones.",
        )
