"""An S3-compatible server and Hadoop, on 127.0.0.1 only, with the jars that Spark needs."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen
from xml.etree import ElementTree as ET

import platformdirs
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

from ktui.lab.java import find_java, find_maven
from ktui.lab.nodes import wait_for
from ktui.pipeline.spark.session import NEEDED_JAVA
from support.pipeline.spark_cluster import HOME, LIMIT_S, SMALL_DEFAULTS, plain_environment
from support.pipeline.sparks import small_settings

"""Seconds: longer than fetching takes on a slow line."""


def maven_jars(name: str, artifacts: Iterable[str], excluded: Iterable[str]) -> list[Path]:
    """Fetch artifacts through Maven, once for each user, and return all jars.

    Args:
        name: of the folder in the user's cache that keeps them.
        artifacts: as group:name:version, or group:name:version:classifier.
        excluded: what they would need, but is left out, as group:name; `*` for all.
    """
    pom = _pom(artifacts, excluded)
    folder = platformdirs.user_cache_path("ktui") / "tests" / name
    kept = folder / "pom.xml"
    if not kept.exists() or kept.read_text() != pom:
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=name, dir=folder.parent) as scratch:
            fetched = Path(scratch) / "jars"
            fetched.mkdir()
            (fetched / "pom.xml").write_text(pom)
            goal = ("dependency:copy-dependencies", "-DincludeScope=runtime")
            subprocess.run(
                [find_maven(), "--quiet", "--batch-mode", *goal, f"-DoutputDirectory={fetched}"],
                cwd=fetched,
                check=True,
                timeout=LIMIT_S,
            )
            fetched.rename(folder)
    return sorted(folder.glob("*.jar"))


def _pom(artifacts: Iterable[str], excluded: Iterable[str]) -> str:
    names = ("groupId", "artifactId", "version", "classifier")

    def tags(coordinates: str) -> str:
        parts = zip(names, coordinates.split(":"), strict=False)
        return "".join(f"<{name}>{part}</{name}>" for name, part in parts)

    without = "".join(f"<exclusion>{tags(each)}</exclusion>" for each in excluded)
    needed = "".join(
        f"<dependency>{tags(each)}<exclusions>{without}</exclusions></dependency>"
        for each in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ktui</groupId><artifactId>tests</artifactId><version>1</version>"
        f"<dependencies>{needed}</dependencies></project>\n"
    )


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

    @property
    def names_for_delta(self) -> dict[str, str]:
        """The environment in which readers of Delta Lake reach the bucket."""
        return {
            "AWS_ENDPOINT_URL": self._endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
        }

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


_ALL = ("*:*",)
_LIBRARIES = (
    *(f"org.bouncycastle:bc{part}-jdk18on:1.82" for part in ("pkix", "prov", "util")),
    "org.junit.jupiter:junit-jupiter-api:5.12.2",
    "org.junit.platform:junit-platform-commons:1.12.2",
    "org.opentest4j:opentest4j:1.3.0",
)
"""What Hadoop's mini cluster uses, and neither it nor Spark brings."""
_SMALL = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
_REGISTERED_MS = 120_000
_SERVERS = {
    "dfs.replication": "1",
    "yarn.minicluster.yarn.nodemanager.resource.memory-mb": "3072",
    "yarn.nodemanager.resource.cpu-vcores": "8",
    "yarn.nodemanager.disk-health-checker.enable": "false",  # it minds a disk that is 90 % full
    "yarn.scheduler.minimum-allocation-mb": "128",
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
}
_CLIENTS = {
    "core-site.xml": ("fs.defaultFS",),
    "hdfs-site.xml": ("dfs.replication",),
    "yarn-site.xml": ("yarn.resourcemanager.address", "yarn.resourcemanager.scheduler.address"),
}
"""The files of HADOOP_CONF_DIR, and the settings in each."""
_SPARK = f"""
spark.executor.instances 1
spark.yarn.am.memory 256m
# each run would copy all of Spark's jars to HDFS
spark.yarn.jars local:{HOME}/jars/*
spark.yarn.appMasterEnv.SPARK_LOCAL_IP 127.0.0.1
spark.executorEnv.SPARK_LOCAL_IP 127.0.0.1
"""


class HadoopCluster:
    """HDFS and YARN.

    Two applications fit into it at a time, each with one executor.

    Args:
        gateway: leads to the process; its class path has Hadoop.
        folder: the folder for data, logs and settings.

    Attributes:
        environment: the environment of programs that use the cluster; it leads to its settings.
    """

    def __init__(self, gateway: JavaGateway, folder: Path) -> None:
        self._java: Any = gateway.jvm
        self._folder = folder
        settings = self._java.org.apache.hadoop.yarn.conf.YarnConfiguration()
        for name, value in (_SERVERS | {"hadoop.tmp.dir": str(folder / "aside")}).items():
            settings.set(name, value)
        self._hdfs = self._start_hdfs(settings)
        self._yarn = self._start_yarn(settings)
        self._files = self._hdfs.getFileSystem()
        self.environment = self._write_settings()

    def put(self, folder: Path, name: str) -> None:
        """Copy a folder of this machine into a folder of HDFS."""
        path = self._path(name)
        self._files.mkdirs(path)
        for each in sorted(folder.iterdir()):
            self._files.copyFromLocalFile(self._path(each.as_uri()), path)

    def get(self, name: str, folder: Path) -> None:
        """Copy a file or folder of HDFS to this machine."""
        target = self._path(folder.as_uri())
        self._files.copyToLocalFile(False, self._path(name), target, True)  # noqa: FBT003 - Java's

    def read(self, name: str) -> bytes:
        """Read a file of HDFS."""
        stream = self._files.open(self._path(name))
        try:
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def close(self) -> None:
        """Stop YARN with its containers, and HDFS."""
        self._yarn.stop()
        self._hdfs.shutdown()

    def _start_hdfs(self, settings: Any) -> Any:
        builder = getattr(self._java.org.apache.hadoop.hdfs.MiniDFSCluster, "Builder")  # noqa: B009 - a Java inner class
        started = builder(settings, self._java.java.io.File(str(self._folder / "hdfs"))).build()
        started.waitActive()
        return started

    def _start_yarn(self, settings: Any) -> Any:
        nodes, local_dirs, log_dirs = 1, 1, 1
        mini = self._java.org.apache.hadoop.yarn.server.MiniYARNCluster
        started = mini("yarn", nodes, local_dirs, log_dirs)
        started.init(settings)
        started.start()
        assert started.waitForNodeManagersToConnect(_REGISTERED_MS)
        return started

    def _write_settings(self) -> dict[str, str]:
        """Write what clients have to know; return the environment that leads there."""
        conf = self._folder / "conf"
        conf.mkdir()
        settings = self._yarn.getConfig()
        for file, names in _CLIENTS.items():
            chosen = "".join(
                f"<property><name>{name}</name><value>{settings.get(name)}</value></property>\n"
                for name in names
            )
            (conf / file).write_text(f"<configuration>\n{chosen}</configuration>\n")
        (conf / "spark-defaults.conf").write_text(SMALL_DEFAULTS + _SPARK)
        return {
            **plain_environment(),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(conf),
            "HADOOP_CONF_DIR": str(conf),
        }

    def _path(self, name: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(name)


@contextmanager
def hadoop_cluster(folder: Path) -> Iterator[HadoopCluster]:
    """Run a cluster of the version that Spark's client has, and always end it."""
    with _java_process(folder) as gateway:
        cluster = HadoopCluster(gateway, folder)
        try:
            yield cluster
        finally:
            cluster.close()


@contextmanager
def _java_process(folder: Path) -> Iterator[JavaGateway]:
    """Run a Java process that has Hadoop; it ends if this process dies."""
    hosts = folder / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n127.0.0.1 {socket.gethostname()}\n")
    mini = f"org.apache.hadoop:hadoop-client-minicluster:{_version()}"
    jars = maven_jars("hadoop-minicluster", (mini, *_LIBRARIES), _ALL)
    classes = ":".join(map(str, (*jars, HOME / "jars" / "*")))
    java = find_java(NEEDED_JAVA, "Hadoop").program
    with (folder / "out").open("wb") as out, (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(java, *_SMALL, f"-Djdk.net.hosts.file={hosts}", "-classpath", classes),
                *("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"),
            ],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )
    with process:
        try:
            port, token = _answered(process, folder)
            known = GatewayParameters(port=int(port), auth_token=token, auto_convert=True)
            gateway = JavaGateway(gateway_parameters=known)
            yield gateway
            gateway.shutdown()
        except Py4JJavaError as error:  # its words are in the process, which now ends
            raise AssertionError(str(error)) from None
        finally:
            process.kill()


def _answered(process: subprocess.Popen[bytes], folder: Path) -> list[str]:
    """Wait until the process listens; return its port and the secret that it asks for."""

    def lines() -> list[str]:
        return (folder / "out").read_text().splitlines()[:2]

    def listens() -> bool:
        return len(lines()) > 1 or process.poll() is not None

    wait_for(listens, seconds=LIMIT_S)
    assert process.poll() is None, (folder / "log").read_text()
    return lines()


def _version() -> str:
    """Return the version of Hadoop's client in Spark."""
    (client,) = (HOME / "jars").glob("hadoop-client-api-*.jar")
    return client.stem.removeprefix("hadoop-client-api-")
