"""What surrounds a version of Kafka: the files, APIs, features and classes that ktui relies on."""

from __future__ import annotations

import re
import socket
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

import msgspec
from kafka.protocol.api_key import ApiKey
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse

from ktui.lab.java import run_java
from ktui.lab.layout import HOST, Lab, Node

_ROOT = Path(__file__).parents[3]
_PLACES = ("src", "tests/support", "bench", "scripts", "findings")
_TYPES = (".py", ".java", ".sh")
_CLASS = re.compile(
    r"""["'\s](kafka\.(?:[a-z]+\.)*[A-Z]\w*|org\.apache\.kafka\.(?:[a-z]+\.)+[A-Z]\w*)(?=["';\s])"""
)
_REQUEST = re.compile(r"\b([A-Z][A-Za-z]+)Request\b")
_VERSION_OF_JAR = re.compile(r"(_2\.\d+)?-\d[\w.]*\.jar$")
_HELLO = 4  # the version of ApiVersions that tells all features (KIP-584)
_TIMEOUT_S = 30.0


class Surroundings(msgspec.Struct, frozen=True):
    """All of it but behaviour; sorted by name."""

    formatted: tuple[str, ...]
    """The files in a controller's log dir after StorageTool has formatted it."""
    apis: Mapping[str, Mapping[str, str]]
    """The versions of each API, as "0-7", of a broker and of the controller."""
    features: Mapping[str, str]  # each feature's levels, as "7-31, finalized 31"
    classes: Mapping[str, str]
    """Where each class is that this project names: its jar, or other classes of its name."""


def surroundings_of(lab: Lab) -> Surroundings:
    """Ask a running lab, its tools and its jars."""
    broker, controller = _hello(lab.brokers[0]), _hello(lab.controller)
    return Surroundings(
        formatted=_formatted(lab),
        apis={"broker": _apis(broker), "controller": _apis(controller)},
        features=_features(broker),
        classes=where_classes_are(named_classes(), map(Path, lab.layout.class_path)),
    )


def named_classes() -> list[str]:
    """Return the classes of Kafka that programs of this project name."""
    return _named(_CLASS, _PLACES)


def built_requests() -> list[str]:
    """Return the APIs whose requests ktui builds itself; its clients send others besides."""
    return _named(_REQUEST, ["src"])


def _named(pattern: re.Pattern[str], places: Iterable[str]) -> list[str]:
    texts = (
        path.read_text()
        for place in places
        for path in sorted((_ROOT / place).rglob("*"))
        if path.suffix in _TYPES
    )
    return sorted({name for text in texts for name in pattern.findall(text)})


def where_classes_are(names: Iterable[str], jars: Iterable[Path]) -> dict[str, str]:
    """Return the jar of each class, without its version; "not there" and its namesakes if none."""
    found: dict[str, str] = {}
    namesakes: dict[str, list[str]] = defaultdict(list)
    for jar in jars:
        for name in _classes_in(jar):
            found.setdefault(name, _VERSION_OF_JAR.sub("", jar.name))
            namesakes[name.rpartition(".")[2]].append(name)
    return {
        name: found.get(name) or _not_there(namesakes[name.rpartition(".")[2]])
        for name in sorted(names)
    }


def _classes_in(jar: Path) -> Iterator[str]:
    with ZipFile(jar) as files:
        for name in files.namelist():
            if name.endswith(".class") and "kafka/" in name and "$" not in name:
                yield name.removesuffix(".class").replace("/", ".")


def _not_there(namesakes: Iterable[str]) -> str:
    return "; ".join(["not there", *(f"{name} is" for name in sorted(namesakes))])


def _formatted(lab: Lab) -> tuple[str, ...]:
    """Format another log dir as the controller's was."""
    log_dir = lab.folder / "formatted-again"
    settings = lab.folder / "formatted-again.properties"
    own = lab.properties_file(lab.controller).read_text()
    settings.write_text(own.replace(str(lab.log_dirs(lab.controller)[0]), str(log_dir)))
    run_java(
        lab.layout.java,
        *("-cp", lab.layout.joined_class_path, "kafka.tools.StorageTool", "format"),
        *("--cluster-id", lab.layout.cluster_id, "--config", str(settings)),
        doing="formatting a log dir again",
    )
    return tuple(
        sorted(str(path.relative_to(log_dir)) for path in log_dir.rglob("*") if path.is_file())
    )


def _hello(node: Node) -> ApiVersionsResponse:
    request = ApiVersionsRequest(client_software_name="ktui", client_software_version="0")
    request.with_header(correlation_id=1, client_id="ktui")
    with socket.create_connection((HOST, node.port), _TIMEOUT_S) as connection:
        connection.sendall(request.encode(version=_HELLO, header=True, framed=True))
        answer = connection.makefile("rb")
        (size,) = struct.unpack(">i", answer.read(4))
        return ApiVersionsResponse.decode(answer.read(size), version=_HELLO, header=True)


def _apis(hello: ApiVersionsResponse) -> dict[str, str]:
    names = {key.value: key.name for key in ApiKey}
    found = {
        names.get(api.api_key, f"API {api.api_key}"): f"{api.min_version}-{api.max_version}"
        for api in hello.api_keys
    }
    return dict(sorted(found.items()))


def _features(hello: ApiVersionsResponse) -> dict[str, str]:
    finalized = {each.name: each.max_version_level for each in hello.finalized_features or ()}
    levels = {
        each.name: f"{each.min_version}-{each.max_version}, finalized {finalized.get(each.name, 0)}"
        for each in hello.supported_features or ()
    }
    return dict(sorted(levels.items()))
