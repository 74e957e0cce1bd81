"""Check that the master of a cluster answers. Spark itself would try for minutes without a word."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException

from ktui.pipeline.errors import PipelineProblem

STANDALONE = "spark://"
YARN = "yarn"
_ANSWER_S = 10.0
_MANAGER = "yarn.resourcemanager.address"
_MANAGER_PORT = 8032

Address = tuple[str, int]


def check_master(url: str | None, settings: Mapping[str, str]) -> None:
    """Check that a standalone master or YARN's resource manager answers.

    Args:
        url: in the format of spark-submit; other masters are not checked. None for the master of
            the spark-submit that started this program.
        settings: Spark's, for the JVM. For YARN it starts here, to read Hadoop's configuration.

    Raises:
        PipelineProblem: none answers, or the URL is not that of a master.
    """
    if url is None:
        SparkContext._ensure_initialized()  # noqa: SLF001 - else it is not in the settings
        url = SparkConf().get("spark.master", "")
    if url.startswith(STANDALONE):
        if failure := _failure(_standalone_masters(url)):
            raise PipelineProblem(
                f"{url}: no master answers: {failure}. The master's web page and log show its URL"
            )
    elif url == YARN:
        own = SparkConf(loadDefaults=False).setMaster(url).setAll([*settings.items()])
        SparkContext._ensure_initialized(conf=own)  # noqa: SLF001 - a context would ask YARN at once
        jvm: Any = SparkContext._jvm  # noqa: SLF001 - the same
        hadoop = jvm.org.apache.spark.deploy.SparkHadoopUtil.get()
        found = hadoop.newConfiguration(jvm.org.apache.spark.SparkConf())  # with spark.hadoop.*
        check_resource_manager(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration(found))


def check_resource_manager(configuration: Any) -> None:
    """Check that a resource manager answers; of several, one is enough.

    Args:
        configuration: Hadoop's YarnConfiguration.

    Raises:
        PipelineProblem: none answers.
    """
    managers: list[Address] = []
    # an address that Hadoop cannot read is for Spark to report
    with suppress(Py4JError, PySparkException):
        managers = _resource_managers(configuration)
    if failure := _failure(managers):
        places = ", ".join(f"{host}:{port}" for host, port in managers)
        raise PipelineProblem(
            f"{places}: no resource manager of YARN answers: {failure}. The yarn-site.xml in "
            f"HADOOP_CONF_DIR names it, as {_MANAGER} or yarn.resourcemanager.hostname"
        )


def _standalone_masters(url: str) -> list[Address]:
    try:
        places = [place.rpartition(":") for place in url.removeprefix(STANDALONE).split(",")]
        return [(host.strip("[]"), int(port)) for host, _, port in places]
    except ValueError:
        fix = "Name one like spark://host:7077"
        raise PipelineProblem(f"{url}: not the URL of a master. {fix}") from None


def _resource_managers(configuration: Any) -> list[Address]:
    if configuration.get("yarn.resourcemanager.ha.enabled") != "true":
        return [_manager(configuration)]
    managers = []
    for name in configuration.getTrimmedStringCollection("yarn.resourcemanager.ha.rm-ids"):
        configuration.set("yarn.resourcemanager.ha.id", name)
        managers.append(_manager(configuration))
    return managers


def _manager(configuration: Any) -> Address:
    address = configuration.getSocketAddr(_MANAGER, f"0.0.0.0:{_MANAGER_PORT}", _MANAGER_PORT)
    return address.getHostString(), address.getPort()


def _failure(addresses: Iterable[Address]) -> str:
    """Return why none of some addresses can be connected to; empty if one can, or none is given."""
    failure = ""
    for address in addresses:
        try:
            socket.create_connection(address, _ANSWER_S).close()
        except OSError as error:
            failure = error.strerror or str(error)
        else:
            return ""
    return failure
