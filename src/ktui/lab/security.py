"""The settings of a lab's nodes and of its clients, with users, passwords and certificates."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from zipfile import ZipFile

from ktui.lab.java import run_java, sharing_flags
from ktui.lab.layout import HOST, Lab, LabError, Node, Security, WrongInput

_SMALL_SIZES = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": str(4 * 1024 * 1024),
    "log.segment.bytes": str(16 * 1024 * 1024),
    "socket.request.max.bytes": str(32 * 1024 * 1024),
}  # few threads and small buffers, for six processes on a laptop

_SHORT_TIMEOUTS = {
    "replica.lag.time.max.ms": "3000",
    # One fetch of 1 MiB exceeds a throttle of some 100 kB/s at once, and then all wait for long.
    "replica.fetch.max.bytes": "65536",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.fetch.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "controlled.shutdown.enable": "true",
}  # short timeouts: a dead broker is noticed within seconds, and a new broker serves at once

_LITTLE_IDLE_WORK = {
    # The controller's empty records, which each node fetches: by default two a second.
    "metadata.max.idle.interval.ms": "2000"
}  # less to do while nothing happens: an idle lab takes a quarter less processor time

_TOPIC_RULES = {
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.min.isr": "1",
}

_INTERNAL_TOPICS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)

CONTROLLER_LISTENER = "CONTROLLER"
CLIENT_LISTENER = "CLIENTS"


def server_properties(lab: Lab, node: Node, secured: Mapping[str, str]) -> dict[str, str]:
    """Return the complete server.properties of one node."""
    replication = str(min(3, len(lab.brokers)))
    listener = CONTROLLER_LISTENER if node.is_controller else CLIENT_LISTENER
    address = f"{listener}://{HOST}:{node.port}"
    of_broker = {
        "broker.rack": node.rack or "",
        "advertised.listeners": address,
        "inter.broker.listener.name": CLIENT_LISTENER,
    }
    protocol = lab.layout.security.protocol
    return {
        "process.roles": "controller" if node.is_controller else "broker",
        "listeners": address,
        **({} if node.is_controller else of_broker),
        "node.id": str(node.id),
        "log.dirs": ",".join(map(str, lab.log_dirs(node))),
        "controller.quorum.voters": ",".join(
            f"{voter.id}@{HOST}:{voter.port}" for voter in lab.controllers
        ),
        "controller.listener.names": CONTROLLER_LISTENER,
        "listener.security.protocol.map": (
            f"{CONTROLLER_LISTENER}:{protocol},{CLIENT_LISTENER}:{protocol}"
        ),
        **_SMALL_SIZES,
        **_SHORT_TIMEOUTS,
        **_LITTLE_IDLE_WORK,
        **_TOPIC_RULES,
        **dict.fromkeys(_INTERNAL_TOPICS, replication),
        **secured,
        **lab.layout.settings,
    }


def render(properties: Mapping[str, str]) -> str:
    """Render a Java properties file; backslashes are escaped, as Properties.load expects."""
    escaped = {k: v.replace("\\", "\\\\").replace("\n", "\\\n") for k, v in properties.items()}
    return "".join(f"{key}={value}\n" for key, value in escaped.items())


ADMIN = "admin"
VIEWER = "viewer"
NOBODY = "nobody"
USERS = (ADMIN, VIEWER, NOBODY)  # a super user; one who may read; one who may only log in
BROKER = "broker"  # the brokers' own user in a lab where a certificate identifies each client

SCRAM = "SCRAM-SHA-512"
_MOVED = "org/apache/kafka/tools/AclCommand.class"


def new_passwords() -> dict[str, str]:
    """Generate a password for each user."""
    return {user: secrets.token_urlsafe(12) for user in USERS}


def scram_credentials(lab: Lab) -> list[str]:
    """Return the users in the form of StorageTool's --add-scram; none if there are no passwords."""
    if not lab.layout.security.by_password:
        return []
    passwords = lab.layout.passwords
    return [f"{SCRAM}=[name={user},password={passwords[user]}]" for user in USERS]


def grant_viewer(lab: Lab, admin_file: Path) -> None:
    """Grant the viewer Describe and DescribeConfigs on the cluster and every topic."""
    run_java(
        lab.layout.java,
        *sharing_flags(lab.layout.class_archive),
        *("-cp", lab.layout.joined_class_path, _acl_command(lab.layout.class_path)),
        *("--bootstrap-server", lab.bootstrap_servers, "--command-config", str(admin_file)),
        *("--add", "--allow-principal", f"User:{VIEWER}", "--cluster", "--topic", "*"),
        *("--operation", "Describe", "--operation", "DescribeConfigs"),
        doing=f"granting {VIEWER} its permissions",
    )


def _acl_command(class_path: tuple[str, ...]) -> str:
    """Return the tool's class name: a minor release of Kafka 4 moved it to another package."""
    tools = [jar for jar in class_path if Path(jar).name.startswith("kafka-tools-")]
    for jar in tools:
        with ZipFile(jar) as classes:
            if _MOVED in classes.namelist():
                return "org.apache.kafka.tools.AclCommand"
    return "kafka.admin.AclCommand"


_DAYS = "3650"
_AUTHORITY = ("-ext", "bc:c=ca:true", "-ext", "ku:c=keyCertSign,cRLSign")
_BROKER = ("-signer", "ca", "-ext", "eku=serverAuth,clientAuth")
_ADDRESSES = ("-ext", "san=dns:localhost,ip:127.0.0.1")
_USER = ("-signer", "ca", "-ext", "eku=clientAuth")


def authority_file(folder: Path) -> Path:
    """Return the file of the authority's certificate, which all clients and brokers trust."""
    return folder / "ca.pem"


def identity_file(folder: Path, name: str) -> Path:
    """Return the file with a private key and its certificate chain."""
    return folder / f"{name}.pem"


def make(folder: Path, java: str, users: Iterable[str]) -> None:
    """Create all keys and certificates in `folder` as PEM; `java` must be of a JDK 17 or newer."""
    folder.mkdir(mode=0o700)
    store = folder / "store.p12"
    environment = {**os.environ, "STORE_PASSWORD": secrets.token_urlsafe(18)}
    _key_pair(java, store, environment, "ca", "CN=ktui lab authority", *_AUTHORITY)
    _key_pair(java, store, environment, BROKER, f"CN={BROKER}", *_BROKER, *_ADDRESSES)
    for user in users:
        _key_pair(java, store, environment, user, f"CN={user}", *_USER)
    with resources.as_file(resources.files("ktui.lab") / "PemFiles.java") as program:
        words = [str(program), str(store), str(folder)]
        run_java(java, *words, environment=environment, doing="writing the certificates as PEM")
    store.unlink()


def _key_pair(
    java: str, store: Path, environment: dict[str, str], alias: str, name: str, *extensions: str
) -> None:
    keytool = Path(java).with_name("keytool")
    command = [
        *(str(keytool), "-genkeypair", "-alias", alias, "-dname", name, "-validity", _DAYS),
        *("-keyalg", "EC", "-groupname", "secp256r1", *extensions),
        *("-storetype", "PKCS12", "-keystore", str(store), "-storepass:env", "STORE_PASSWORD"),
        *("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC"),
    ]
    try:
        made = subprocess.run(  # noqa: S603 - the keytool beside the java that was found
            command, env=environment, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise LabError(f"{keytool} does not run: {error}", fix="Install a full JDK.") from error
    if made.returncode != 0:
        words = tuple((made.stdout + made.stderr).strip().splitlines()[-4:])
        raise LabError(f"keytool could not make the certificate of {alias}", words=words)


PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


def server_settings(lab: Lab) -> dict[str, str]:
    """Return the settings for the lab's security, the same for every node; none for plaintext."""
    security = lab.layout.security
    if security is Security.PLAINTEXT:
        return {}
    return {
        **_authorizer(security),
        **(_tls(lab) if security.encrypted else {}),
        **(_passwords(lab) if security.by_password else {}),
    }


def _authorizer(security: Security) -> dict[str, str]:
    supers = (ADMIN,) if security.by_password else (ADMIN, BROKER)
    return {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": ";".join(f"User:{name}" for name in supers),
    }


def _tls(lab: Lab) -> dict[str, str]:
    """Return key and mapping of certificates; a client without one is User:ANONYMOUS."""
    by_certificate = {
        "ssl.client.auth": "requested",
        "ssl.principal.mapping.rules": r"RULE:^CN=([^,]+).*$/$1/,DEFAULT",
    }
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(identity_file(lab.certificates, BROKER)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority_file(lab.certificates)),
        **({} if lab.layout.security.by_password else by_certificate),
    }


def _passwords(lab: Lab) -> dict[str, str]:
    """Let clients choose PLAIN or SCRAM; brokers and controllers use PLAIN among themselves."""
    known = " ".join(f'user_{user}="{lab.layout.passwords[user]}"' for user in USERS)
    plain = f"{login(PLAIN_MODULE, ADMIN, lab)[:-1]} {known};"
    clients = f"listener.name.{CLIENT_LISTENER.lower()}"
    controller = f"listener.name.{CONTROLLER_LISTENER.lower()}"
    return {
        "sasl.enabled.mechanisms": f"PLAIN,{SCRAM}",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        f"{clients}.plain.sasl.jaas.config": plain,
        f"{clients}.{SCRAM.lower()}.sasl.jaas.config": f"{SCRAM_MODULE} required;",
        f"{controller}.sasl.enabled.mechanisms": "PLAIN",
        f"{controller}.plain.sasl.jaas.config": plain,
    }


def login(module: str, user: str, lab: Lab) -> str:
    """Return a JAAS entry that logs `user` in."""
    return f'{module} required username="{user}" password="{lab.layout.passwords[user]}";'


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
