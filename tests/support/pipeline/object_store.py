"""An S3-compatible server on 127.0.0.1, and the jars and settings with which Spark reaches it."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

from ktui.lab.java import find_java
from ktui.lab.nodes import wait_for
from ktui.pipeline.spark.session import NEEDED_JAVA
from support.pipeline.maven_jars import maven_jars
from support.pipeline.sparks import small_settings

LIMIT_S = 900.0
"""Seconds: longer than any step takes on a busy machine."""
_SERVER = ("org.gaul:s3proxy:3.1.0:jar-with-dependencies",)
_HADOOP, _SDK = "3.5.0", "2.35.4"
_CLIENT = (
    f"org.apache.hadoop:hadoop-aws:{_HADOOP}",
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
    *(f"software.amazon.awssdk:{name}:{_SDK}" for name in ("s3-transfer-manager", "sts")),
)
_NOT_NEEDED = (
    *("software.amazon.awssdk:bundle", "org.wildfly.openssl:*"),
    *("io.netty:*", "org.slf4j:*", "org.apache.httpcomponents:*", "commons-codec:*"),
    "commons-logging:*",
)
"""The SDK in one jar of over 600 MB, what S3A can do without, and what Spark has itself."""
_BUCKET = "ktui"
_NAMES = {"s3": "http://s3.amazonaws.com/doc/2006-03-01/"}


class ObjectStore:
    """A bucket of a server that asks for no secrets.

    Args:
        port: the server's.
        jars: those that Spark's Hadoop client needs.

    Attributes:
        uri: the URI of the bucket.
    """

    def __init__(self, port: int, jars: Iterable[Path]) -> None:
        self.uri = f"s3a://{_BUCKET}"
        self._endpoint = f"http://127.0.0.1:{port}"
        self._jars = ",".join(map(str, jars))
        self._ask("PUT")

    @property
    def settings(self) -> dict[str, str]:
        """Spark's settings."""
        of_client = {
            "endpoint": self._endpoint,
            "endpoint.region": "us-east-1",
            "path.style.access": "true",
            "access.key": "tests",
            "secret.key": "tests",
        }
        named = {f"spark.hadoop.fs.s3a.{name}": value for name, value in of_client.items()}
        return {"spark.jars": self._jars, **named}

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment in which a `ktui` process reaches the bucket."""
        words = " ".join(f"--conf {name}={value}" for name, value in self.settings.items())
        submitted = small_settings()["PYSPARK_SUBMIT_ARGS"]
        return {**os.environ, "PYSPARK_SUBMIT_ARGS": f"{words} {submitted}"}

    def put(self, name: str, content: bytes) -> None:
        """Write an object."""
        self._ask("PUT", name, content)

    def put_folder(self, folder: Path, name: str) -> None:
        """Write an object for each file of a folder."""
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self.put(f"{name}/{path.relative_to(folder)}", path.read_bytes())

    def names(self, prefix: str) -> list[str]:
        """List the names of the objects that begin with a prefix, sorted."""
        found: list[str] = []
        asked = {"list-type": "2", "prefix": prefix}
        while True:
            listed = ET.fromstring(self._ask("GET", asked=asked))  # noqa: S314 - our own server
            found += [each.text or "" for each in listed.findall("s3:Contents/s3:Key", _NAMES)]
            after = listed.findtext("s3:NextContinuationToken", namespaces=_NAMES)
            if not after:
                return sorted(found)
            asked["continuation-token"] = after

    def get(self, name: str) -> bytes:
        """Read an object."""
        return self._ask("GET", name)

    def get_folder(self, name: str, folder: Path) -> None:
        """Read the objects under a name into a folder."""
        for each in self.names(f"{name}/"):
            if not each.endswith("/"):
                path = folder / each.removeprefix(f"{name}/")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.get(each))

    def _ask(
        self,
        method: str,
        name: str = "",
        content: bytes | None = None,
        asked: Mapping[str, str] | None = None,
    ) -> bytes:
        place = f"{self._endpoint}/{_BUCKET}" + (f"/{quote(name)}" if name else "")
        query = f"?{urlencode(asked)}" if asked else ""
        headers = {"Content-Type": "application/octet-stream"}
        request = Request(place + query, content, headers, method=method)  # noqa: S310 - http
        with urlopen(request, timeout=LIMIT_S) as answer:  # noqa: S310 - the same
            return bytes(answer.read())


@contextmanager
def object_store(folder: Path) -> Iterator[ObjectStore]:
    """Run a server with an empty bucket in memory, and always end it."""
    (server,) = maven_jars("s3proxy", _SERVER, ("*:*",))
    jars = maven_jars("hadoop-aws", _CLIENT, _NOT_NEEDED)
    settings, log = folder / "s3proxy.conf", folder / "s3proxy.log"
    settings.write_text(
        "s3proxy.authorization=none\n"
        "s3proxy.endpoint=http://127.0.0.1:0\n"
        "s3proxy.ignore-unknown-headers=true\n"
        "jclouds.provider=transient\n"
    )
    java = find_java(NEEDED_JAVA, "The object store").program
    small = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    with log.open("wb") as out:
        process = subprocess.Popen(
            [java, *small, "-jar", server, "--properties", settings],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield ObjectStore(_port(process, log), jars)
    finally:
        process.kill()
        process.wait()


def _port(process: subprocess.Popen[bytes], log: Path) -> int:
    """Wait until a server listens; return its port."""
    found: list[str] = []

    def listens() -> bool:
        found[:] = re.findall(r"Started .*\{127\.0\.0\.1:(\d+)\}", log.read_text())
        return bool(found) or process.poll() is not None

    assert wait_for(listens, seconds=LIMIT_S), log.read_text()
    assert found, log.read_text()
    return int(found[0])
