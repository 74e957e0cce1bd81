"""Taking a lab down."""

from __future__ import annotations

import contextlib
import shutil

from ktui.lab import nodes
from ktui.lab.layout import Lab


def down(lab: Lab, *, keep: bool) -> None:
    """End exactly the processes of this lab, no matter which `ktui` started them.

    Args:
        keep: let brokers shut down in order and leave the folder as it is. If False, end them at
            once and remove the lab's files. Other files in the folder stay, and so does the folder.
    """
    nodes.stop(lab, gently=keep)
    if not keep:
        _remove(lab)


def _remove(lab: Lab) -> None:
    for node in lab.layout.nodes:
        shutil.rmtree(lab.home(node), ignore_errors=True)
    shutil.rmtree(lab.certificates, ignore_errors=True)
    for pattern in ("client-*.properties", "log4j*", "lab.json*"):
        for file in lab.folder.glob(pattern):
            file.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        lab.folder.rmdir()
