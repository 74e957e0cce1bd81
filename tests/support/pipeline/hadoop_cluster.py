"""Hadoop in one process: HDFS with one data node, YARN with one node manager, on 127.0.0.1 only."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JJavaError

from ktui.lab.java import find_java
from ktui.lab.nodes import wait_for
from ktui.pipeline.spark.session import NEEDED_JAVA
from support.pipeline.maven_jars import maven_jars
from support.pipeline.spark_cluster import HOME, LIMIT_S, SMALL_DEFAULTS, plain_environment

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
