"""A Spark cluster of processes: a standalone master and a worker, on 127.0.0.1 only."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import venv
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pyspark

from ktui.lab.nodes import wait_for

HOME = Path(pyspark.__file__).parent
EXECUTORS = 2
LIMIT_S = 900.0
"""Seconds: longer than any step takes on a busy machine."""
_SMALL = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
SMALL_DEFAULTS = f"""
spark.executor.cores 1
spark.executor.memory 512m
spark.executor.extraJavaOptions {_SMALL}
spark.driver.memory 512m
spark.driver.extraJavaOptions {_SMALL}
spark.sql.shuffle.partitions 2
spark.sql.adaptive.enabled false
spark.sql.codegen.wholeStage false
spark.sql.codegen.factoryMode NO_CODEGEN
"""
"""Lines of spark-defaults.conf, for a driver and executors that are small and begin soon."""
_DEFAULTS = f"""{SMALL_DEFAULTS}
spark.eventLog.enabled true
spark.eventLog.compress false
spark.eventLog.rolling.enabled false
# no task begins before there are all executors
spark.cores.max {EXECUTORS}
spark.scheduler.minRegisteredResourcesRatio 1.0
spark.scheduler.maxRegisteredResourcesWaitingTime {LIMIT_S:.0f}s
"""
_STRANGE = (
    *("PYTHONPATH", "PYTHONHOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"),
    *("SPARK_HOME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"),
)
"""Variables that the tests' own environment may have, and the cluster must not."""


class SparkCluster:
    """A master and its worker, which has a core for each of two executors.

    Each is a process group of its own.

    Args:
        folder: the folder for logs, settings and the executors' temporary files.

    Attributes:
        url: the URL of the master.
        environment: the environment of programs that use the cluster; it leads to its settings.
    """

    def __init__(self, folder: Path) -> None:
        self.url = ""
        self._folder = folder
        self._events = folder / "events"
        self._events.mkdir(parents=True)
        (folder / "conf").mkdir()
        events = f"spark.eventLog.dir {self._events.as_uri()}\n"
        (folder / "conf" / "spark-defaults.conf").write_text(_DEFAULTS + events)
        self.environment = {
            **plain_environment(),
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(folder / "conf"),
            "SPARK_LOCAL_DIRS": str(folder / "aside"),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LAUNCHER_OPTS": _SMALL,
            "SPARK_DAEMON_JAVA_OPTS": f"{_SMALL} -Dspark.master.rest.enabled=false",
        }
        self._master: subprocess.Popen[bytes] | None = None
        self._worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the master and the worker, and wait until the master knows the worker."""
        self._master = self._spawn("master", "Master", "--port", "0")
        self.url = self._logged("master", r"Starting Spark master at (spark://\S+)")[0]
        self.start_worker()

    def start_worker(self) -> None:
        """Start the worker, and wait until the master knows it."""
        known = len(re.findall("Registering worker", self._log("master").read_text()))
        words = ("--port", "0", "--cores", str(EXECUTORS), "--memory", "1200m", self.url)
        self._worker = self._spawn("worker", "Worker", *words)
        self._logged("master", "Registering worker", known + 1)

    def kill_worker(self) -> None:
        """Kill -9 the worker, with its executors."""
        if self._worker is not None:
            _end(self._worker)
        self._worker = None

    def kill_executors(self) -> int:
        """Kill -9 all executors; return how many there were."""
        listed = subprocess.run(
            ["ps", "-A", "-ww", "-o", "pid=,pgid=,args="],
            capture_output=True,
            text=True,
            check=True,
        )
        assert self._worker is not None
        killed = 0
        for line in listed.stdout.splitlines():
            pid, group, command = line.split(maxsplit=2)
            if int(group) == self._worker.pid and "CoarseGrainedExecutorBackend" in command:
                os.kill(int(pid), signal.SIGKILL)
                killed += 1
        return killed

    def close(self) -> None:
        """Kill everything that was started."""
        self.kill_worker()
        if self._master is not None:
            _end(self._master)

    def tasks(self) -> Mapping[str, int]:
        """Count the tasks that each executor has completed for the last application."""
        log = max(self._events.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        events = map(json.loads, log.read_text().splitlines())
        return Counter(
            event["Task Info"]["Executor ID"]
            for event in events
            if event["Event"] == "SparkListenerTaskEnd"
            and event["Task End Reason"]["Reason"] == "Success"
        )

    def _spawn(self, name: str, daemon: str, *words: str) -> subprocess.Popen[bytes]:
        main = f"org.apache.spark.deploy.{daemon.lower()}.{daemon}"
        here = ("--host", "127.0.0.1", "--webui-port", "0")
        with self._log(name).open("ab") as log:
            return subprocess.Popen(
                [HOME / "bin" / "spark-class", main, *here, *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    def _log(self, name: str) -> Path:
        return self._folder / f"{name}.log"

    def _logged(self, name: str, pattern: str, times: int = 1) -> list[str]:
        """Wait until a log has a pattern `times` times; return the matches."""
        found: list[str] = []

        def there() -> bool:
            found[:] = re.findall(pattern, self._log(name).read_text(errors="replace"))
            return len(found) >= times

        assert wait_for(there, seconds=LIMIT_S), self._log(name).read_text(errors="replace")
        return found


def plain_environment() -> dict[str, str]:
    """Return this process's environment without what leads to another Python, Spark or Hadoop."""
    return {key: value for key, value in os.environ.items() if key not in _STRANGE}


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextmanager
def spark_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Run a cluster, and always end it."""
    cluster = SparkCluster(folder)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


def python_with(folder: Path, *modules: str) -> Path:
    """Make a Python that can import these modules, as they are installed here, and no others.

    Returns:
        The program.
    """
    return _python(folder, [_place_of(name) for name in modules])


def python_without(folder: Path, *modules: str) -> Path:
    """Make a Python that can import all that is installed here beside Spark, but these modules.

    Returns:
        The program.
    """
    installed = [path for path in HOME.parent.iterdir() if path.suffix != ".pth"]
    return _python(folder, [path for path in installed if path.name not in modules])


def _python(folder: Path, places: Iterable[Path]) -> Path:
    venv.create(folder, symlinks=True, with_pip=False)
    links = folder / "modules"
    links.mkdir()
    for place in places:
        (links / place.name).symlink_to(place)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "modules.pth").write_text(f"{links}\n")
    return folder / "bin" / "python"


def _place_of(module: str) -> Path:
    spec = find_spec(module)
    assert spec is not None, module
    return Path(next(iter(spec.submodule_search_locations or ())))


def imports(python: Path, modules: Iterable[str]) -> list[str]:
    """Return those of some modules that a Python can import."""
    code = (
        "from importlib.util import find_spec; import sys; print(*filter(find_spec, sys.argv[1:]))"
    )
    done = subprocess.run(
        [python, "-c", code, *modules], capture_output=True, text=True, check=True, cwd="/"
    )
    return done.stdout.split()
