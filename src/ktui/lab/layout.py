"""The parts of a lab, and their places in its folder."""

from __future__ import annotations

import enum
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec
import platformdirs


class LabError(Exception):
    """A lab operation failed; `words` are lines quoted from its source, oldest first."""

    def __init__(self, what: str, *, fix: str = "", words: tuple[str, ...] = ()) -> None:
        self.what = what
        self.fix = fix
        self.words = words
        super().__init__(what)

    def __str__(self) -> str:
        quoted = "".join(f"\n  | {line}" for line in self.words)
        if not self.fix:
            return f"{self.what}{quoted}"
        return f"{self.what}{quoted}\n{self.fix}" if quoted else f"{self.what}. {self.fix}"


class WrongInput(LabError):
    """The request names something that does not exist or is impossible; nothing was done."""


CONTROLLER_ID = 100  # the id of the first controller; further controllers have the next ids
HOST = "127.0.0.1"
RACKS = ("a", "b", "c")
VERSIONS = ("4.4.0", "4.3.1", "4.2.2", "4.1.2", "4.0.0", "3.9.2")
"""The newest of each Kafka release that ktui is tested with, the newest release first."""
DEFAULT_VERSION = VERSIONS[0]
DEFAULT_BROKERS = 5
MAX_BROKERS = 99  # broker ids stay below the controller's id
MAX_LOG_DIRS = 9

ProgressReport = Callable[[str], None]


class Security(enum.StrEnum):
    """The security of all connections: Kafka's security.protocol in lower case."""

    PLAINTEXT = "plaintext"
    SSL = "ssl"
    SASL_PLAINTEXT = "sasl_plaintext"
    SASL_SSL = "sasl_ssl"

    @property
    def protocol(self) -> str:
        return self.value.upper()

    @property
    def encrypted(self) -> bool:
        return self in (Security.SSL, Security.SASL_SSL)

    @property
    def by_password(self) -> bool:
        return self in (Security.SASL_PLAINTEXT, Security.SASL_SSL)


class Node(msgspec.Struct, frozen=True):
    """One process of a lab: a broker, or a controller (which has no rack)."""

    id: int
    port: int
    rack: str | None = None

    @property
    def is_controller(self) -> bool:
        return self.id >= CONTROLLER_ID

    @property
    def name(self) -> str:
        if self.is_controller:
            return "controller" if self.id == CONTROLLER_ID else f"controller-{self.id}"
        return f"broker-{self.id}"


class Layout(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a lab, as stored in lab.json. Its processes are not: the system knows them."""

    schema_version: int = 1
    kafka_version: str
    cluster_id: str
    security: Security
    java: str
    class_path: tuple[str, ...]
    class_archive: str | None = None  # a shared one (CDS), made from exactly this class path
    nodes: tuple[Node, ...]  # the controllers first, then the brokers, each by id
    log_dirs: int = 1
    passwords: dict[str, str] = msgspec.field(default_factory=dict)
    settings: dict[str, str] = msgspec.field(default_factory=dict)
    """Settings added to every node's server properties; they override the lab's own."""
    ready: bool = False  # formatted, and once answered with all its brokers

    @property
    def joined_class_path(self) -> str:
        return os.pathsep.join(self.class_path)


class Lab(msgspec.Struct, frozen=True):
    """A lab: its folder and its facts."""

    folder: Path
    layout: Layout

    @property
    def brokers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.layout.nodes if not node.is_controller)

    @property
    def size(self) -> str:
        return f"{len(self.brokers)} broker{'' if len(self.brokers) == 1 else 's'}"

    @property
    def controllers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.layout.nodes if node.is_controller)

    @property
    def controller(self) -> Node:
        return self.layout.nodes[0]

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{node.port}" for node in self.brokers)

    def node(self, node_id: int) -> Node:
        for node in self.layout.nodes:
            if node.id == node_id:
                return node
        ids = ", ".join(str(node.id) for node in self.brokers)
        raise WrongInput(
            f"no broker {node_id} in the lab in {self.folder}",
            fix=f"It has the brokers {ids} and the controller {CONTROLLER_ID}.",
        )

    def home(self, node: Node) -> Path:
        return self.folder / node.name

    def properties_file(self, node: Node) -> Path:
        return self.home(node) / "server.properties"

    def log_dirs(self, node: Node) -> tuple[Path, ...]:
        """Return the node's log dirs; the first one also has the metadata log."""
        first = self.home(node) / "data"
        count = 1 if node.is_controller else self.layout.log_dirs
        return first, *(self.home(node) / f"data-{number}" for number in range(2, count + 1))

    def log(self, node: Node) -> Path:
        return self.home(node) / "server.log"

    def client_file(self, user: str) -> Path:
        return self.folder / f"client-{user}.properties"

    @property
    def certificates(self) -> Path:
        return self.folder / "certificates"


def default_folder() -> Path:
    """Return the folder of a lab without --dir."""
    return platformdirs.user_state_path("ktui") / "lab"


def dir_option(folder: Path) -> str:
    """Return the --dir option that commands on this folder's lab need; empty for the default."""
    return "" if folder == default_folder().resolve() else f" --dir {shlex.quote(str(folder))}"


def _lab_file(folder: Path) -> Path:
    return folder / "lab.json"


def create(lab: Lab) -> None:
    """Write lab.json in a folder that has none yet."""
    try:
        _lab_file(lab.folder).touch(mode=0o600, exist_ok=False)
    except FileExistsError:
        raise LabError(f"another ktui is starting a lab in {lab.folder}") from None
    save(lab)


def save(lab: Lab) -> None:
    """Write lab.json atomically: a reader sees either the old file or the new one."""
    text = msgspec.json.format(msgspec.json.encode(lab.layout), indent=2)
    new = lab.folder / "lab.json.new"
    new.touch(mode=0o600)
    new.write_bytes(text + b"\n")
    new.replace(_lab_file(lab.folder))


def load(folder: Path) -> Lab:
    """Read the lab of a folder."""
    folder = Path(os.path.realpath(folder))  # unlike resolve, it accepts circular links
    try:
        layout = msgspec.json.decode(_lab_file(folder).read_bytes(), type=Layout)
    except FileNotFoundError:
        raise WrongInput(
            f"no lab in {folder}", fix=f"Start one with: ktui lab up{dir_option(folder)}"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise LabError(
            f"{_lab_file(folder)} cannot be read: {error}",
            fix="If no Kafka of this lab is still running, remove the folder.",
        ) from error
    return Lab(folder, layout)


def exists(folder: Path) -> bool:
    """Return whether the folder holds a lab, running or not."""
    return _lab_file(folder).exists()
