"""A cluster whose master does not answer is reported before Spark tries for minutes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ktui.pipeline.errors import PipelineProblem
from ktui.pipeline.spark.master import check_resource_manager
from ktui.pipeline.spark.session import start

MANAGER = "yarn.resourcemanager.address"


@pytest.fixture
def silent() -> Iterator[str]:
    """A place that is bound, but where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{taken.getsockname()[1]}"


@pytest.fixture
def answering() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def yarn(spark: SparkSession) -> Any:
    """Hadoop's configuration, as it is without any file."""
    jvm: Any = spark.sparkContext._jvm
    return jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()


def test_a_silent_master_is_reported_before_anything_is_started(silent: str) -> None:
    words = f"spark://{silent}: no master answers: Connection refused"
    with pytest.raises(PipelineProblem, match=words):
        start(f"spark://{silent}")


def test_a_silent_resource_manager_of_yarn_is_reported_with_its_address(
    yarn: Any, silent: str
) -> None:
    yarn.set(MANAGER, silent)

    words = f"{silent}: no resource manager of YARN answers: Connection refused. The yarn-site.xml"
    with pytest.raises(PipelineProblem, match=words):
        check_resource_manager(yarn)


def test_a_resource_manager_is_found_by_its_hosts_name_alone(yarn: Any) -> None:
    yarn.set("yarn.resourcemanager.hostname", "nowhere.invalid")

    with pytest.raises(PipelineProblem, match=r"nowhere\.invalid:8032: no resource manager"):
        check_resource_manager(yarn)


def test_of_two_resource_managers_one_has_to_answer(yarn: Any, silent: str, answering: str) -> None:
    yarn.set("yarn.resourcemanager.ha.enabled", "true")
    yarn.set("yarn.resourcemanager.ha.rm-ids", "one, other")
    yarn.set(f"{MANAGER}.one", silent)
    yarn.set(f"{MANAGER}.other", answering)
    check_resource_manager(yarn)

    yarn.set("yarn.resourcemanager.hostname.other", "127.0.0.1")
    yarn.set(f"{MANAGER}.other", silent)
    with pytest.raises(PipelineProblem, match=f"{silent}, {silent}: no resource manager of YARN"):
        check_resource_manager(yarn)


def test_an_address_that_hadoop_cannot_read_is_left_to_spark(yarn: Any) -> None:
    yarn.set(MANAGER, "host:port:8032")

    check_resource_manager(yarn)
