"""Imports that the search for garbage leaves out."""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType


def import_to_stay(module: str) -> ModuleType:
    """Import a module, and keep all that is imported out of the search for garbage.

    None of it is garbage before the process ends, and to search it again and again takes a fifth
    of a short process: during the imports, during the verb, and twice at the exit.
    """
    gc.disable()
    try:
        return import_module(module)
    finally:
        if "duckdb" not in sys.modules:  # at the exit it reports as leaks what stays out
            gc.freeze()
        gc.enable()
