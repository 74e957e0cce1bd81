"""The adapters for a real cluster; the only package that imports a Kafka client."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import Any


def defer_package_init(name: str, **homes: str) -> None:
    """Let modules of a package of kafka-python be imported without the package's own `__init__`.

    Those import the producer, the consumer, the admin client and all their requests. They take
    half of the import time, and ktui uses few of them. The `__init__` still runs as soon as code
    asks the package for a name (PEP 562), so `from kafka import KafkaConsumer` keeps working.

    Args:
        homes: the module of each name that kafka-python itself always asks the package for.
    """
    spec = None if name in sys.modules else importlib.util.find_spec(name)
    if spec is None or spec.loader is None:
        return
    loader, package = spec.loader, importlib.util.module_from_spec(spec)

    def load_and_get(wanted: str) -> Any:
        if wanted in homes:
            return getattr(importlib.import_module(f"{name}.{homes[wanted]}"), wanted)
        vars(package).pop("__getattr__", None)
        loader.exec_module(package)
        return getattr(package, wanted)

    vars(package)["__getattr__"] = load_and_get
    sys.modules[name] = package


defer_package_init("kafka")
