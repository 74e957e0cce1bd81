"""The real cluster behind the ports; the only room that imports a Kafka client."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


def _spare_the_package_init() -> None:
    """Let `import kafka.net` and the like run without kafka-python's own `__init__`.

    That imports its producer, consumer and admin client, which take a third of the import time
    and which ktui does not use. It still runs as soon as someone asks the package for a name
    (PEP 562), so `from kafka import KafkaConsumer` goes on working.
    """
    spec = None if "kafka" in sys.modules else importlib.util.find_spec("kafka")
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)

    def whole(name: str) -> Any:
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, name)

    vars(package)["__getattr__"] = whole
    sys.modules["kafka"] = package


_spare_the_package_init()
