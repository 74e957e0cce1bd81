"""The adapters for a real cluster; the only package that imports a Kafka client."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any


def _defer_package_init() -> None:
    """Let `import kafka.net` and the like run without kafka-python's own `__init__`.

    That `__init__` imports the producer, the consumer and the admin client. They take a third of
    the import time, and ktui does not use them. The `__init__` still runs as soon as code asks
    the package for a name (PEP 562), so `from kafka import KafkaConsumer` keeps working.
    """
    spec = None if "kafka" in sys.modules else importlib.util.find_spec("kafka")
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)

    def load_and_get(name: str) -> Any:
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, name)

    vars(package)["__getattr__"] = load_and_get
    sys.modules["kafka"] = package


_defer_package_init()
