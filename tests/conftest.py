"""The real clusters that tests share: each started by the first test that asks for it."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import signal
import sys
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

from ktui.lab.layout import DEFAULT_VERSION, Lab, Security
from ktui.lab.up import LabRequest
from support import groups
from support.golden import Golden
from support.kafka.labs import SOON, Outage, a_lab

_DURATIONS = Path(__file__).parent / "out" / "durations.json"
_MEMORY = Path("/dev/shm")  # noqa: S108 - pytest makes a folder of the user's own in it
_ENOUGH_BYTES = 4 * 1024**3
"""Far more than a whole run leaves there at any time; a container has 64 MiB by default."""

_NO_REBALANCE = {"auto.leader.rebalance.enable": "false"}
"""Otherwise Kafka elects preferred leaders every 300 s, in the middle of whatever is tested."""

_TOO_SLOW = HealthCheck.too_slow
"""Is no fault of an example: the machine may be busy."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes golden files."""
    parser.addoption("--update-golden", action="store_true", help="write golden files anew")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("update_golden") and os.environ.get("CI"):
        raise pytest.UsageError("--update-golden would hide what CI is to find")
    if config.getoption("numprocesses", None) and config.getoption("update_snapshots"):
        raise pytest.UsageError(
            "--snapshot-update needs one process: with -n, pictures of other processes get lost"
        )
    _end_by_signals_as_by_ctrl_c()
    _keep_temporary_files_in_memory()
    patient = settings(deadline=None, suppress_health_check=[_TOO_SLOW])
    settings.register_profile("quick", patient, max_examples=40)
    settings.register_profile("soak", patient, max_examples=1_000)
    settings.load_profile("quick")


def _end_by_signals_as_by_ctrl_c() -> None:
    """Let SIGTERM unwind the fixtures, and so end the clusters.

    A hangup and an interrupt mean to the programs under test what they mean in a terminal, also
    under nohup, and in the background of a shell, whose programs begin with both ignored.
    """

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_temporary_files_in_memory() -> None:
    """Spare the tests the waits for a disk, where the system has enough memory for files.

    Journals and recordings are synced at each write, hundreds of times in a run: on a disk, tests
    of runs wait for it longer than they compute.
    """
    if sys.platform == "linux" and os.access(_MEMORY, os.W_OK | os.X_OK):
        runs_programs = not os.statvfs(_MEMORY).f_flag & os.ST_NOEXEC
        if runs_programs and shutil.disk_usage(_MEMORY).free >= _ENOUGH_BYTES:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_MEMORY))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that asks for a real cluster, and put all into groups."""
    for item in items:
        if not groups.CLUSTERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.kafka)
    groups.arrange(items)


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from looking at all modules and tests again and again."""
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """End the cluster or the Spark of a group after its last test.

    pytest keeps both to the end of the process, and idle they take processor time from the tests
    of other groups.
    """
    if nextitem and groups.ends_between(item, nextitem):
        item.session._setupstate.teardown_exact(None)  # what pytest does after the last test


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Keep how long each test took, with its fixtures, in tests/out/durations.json."""
    seconds: dict[str, float] = defaultdict(float)
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                seconds[report.nodeid] += report.duration
    _DURATIONS.parent.mkdir(exist_ok=True)
    _DURATIONS.write_text(
        json.dumps(dict(sorted(seconds.items(), key=lambda each: -each[1])), indent=0)
    )


def _kafka_version() -> str:
    return os.environ.get("KTUI_TEST_KAFKA", DEFAULT_VERSION)


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Five brokers in the clear, for the whole run; KTUI_TEST_KAFKA names another version."""
    request = LabRequest(version=_kafka_version(), settings=_NO_REBALANCE)
    yield from a_lab(tmp_path_factory.mktemp("lab"), request)


@pytest.fixture(scope="session")
def secured_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two brokers with TLS, passwords (SCRAM and PLAIN) and ACLs, for the whole run."""
    yield from a_lab(
        tmp_path_factory.mktemp("lab"), LabRequest(brokers=2, security=Security.SASL_SSL)
    )


@pytest.fixture(scope="session")
def ssl_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A broker that knows its clients by certificate, with ACLs, for the whole run."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), LabRequest(brokers=1, security=Security.SSL))


@pytest.fixture(scope="module")
def ten_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Ten brokers in the clear, for the tests of one file."""
    yield from a_lab(tmp_path_factory.mktemp("lab"), LabRequest(brokers=10))


@pytest.fixture(scope="session")
def jbod_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Two brokers with two log dirs each, of the version of `lab`.

    Its tests are the last ones of their group, those of the ports first, which break the second log
    dir of broker 2.
    """
    yield from a_lab(
        tmp_path_factory.mktemp("lab"),
        LabRequest(brokers=2, log_dirs=2, version=_kafka_version(), settings=SOON),
    )


@pytest.fixture(scope="session")
def bootstrap(lab: Lab) -> str:
    """The bootstrap servers of `lab`."""
    return lab.bootstrap_servers


@pytest.fixture
def golden(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Golden]:
    """The golden files beside the test, which show times in UTC."""
    with monkeypatch.context() as patched:
        patched.setenv("TZ", "UTC")
        time.tzset()
        yield Golden(request.path.parent, update=request.config.getoption("update_golden"))
    time.tzset()


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A topic name that no other test has, telling which test it is from."""
    test = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")[:60]
    return f"{test}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def outage(lab: Lab) -> Iterator[Outage]:
    """Breaks brokers of `lab`, which are whole again after the test, also when it fails."""
    outage = Outage(lab)
    yield outage
    outage.mend()
