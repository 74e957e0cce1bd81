"""Log dirs of a lab that fail as with a broken disk, and that are put in order again."""

from __future__ import annotations

from pathlib import Path

from ktui.lab.errors import LabError, WrongInput
from ktui.lab.layout import Lab, dir_option

_BROKEN = ".broken"


def fail(lab: Lab, node_id: int, number: int | None) -> Path:
    """Let a log dir of a node fail, and return it. A running broker notices within seconds.

    Args:
        lab: the lab.
        node_id: the node.
        number: which of its log dirs, from 1; None for the last one.

    Raises:
        LabError: the lab has no such node or log dir, or it has failed already.
    """
    node = lab.node(node_id)
    paths = lab.log_dirs(node)
    if number is not None and not 1 <= number <= len(paths):
        raise WrongInput(
            f"--log-dir {number}", fix=f"{node.name} has the log dirs 1 to {len(paths)}."
        )
    path = paths[-1 if number is None else number - 1]
    if _kept(path).exists():
        raise LabError(
            f"{path} has failed already",
            fix=f"Mend it with: ktui lab mend-dir {node_id}{dir_option(lab.folder)}",
        )
    break_dir(path)
    return path


def mend(lab: Lab, node_id: int) -> list[Path]:
    """Put the failed log dirs of a node in order, and return them.

    A running broker uses them again only once it is started anew.

    Raises:
        LabError: the lab has no such node, or none of its log dirs has failed.
    """
    node = lab.node(node_id)
    failed = [path for path in lab.log_dirs(node) if _kept(path).exists()]
    if not failed:
        raise LabError(f"no log dir of {node.name} has failed")
    for path in failed:
        path.unlink(missing_ok=True)
        _kept(path).rename(path)
    return failed


def break_dir(path: Path) -> None:
    """Put a file in the place of a log dir: its broker can neither read nor write there.

    Permissions would not do, for they do not bind root. Open segments stay usable, so the failure
    shows when the broker next opens a file: with the next checkpoint, every five seconds where it
    has replicas.
    """
    path.rename(_kept(path))
    path.touch()


def _kept(path: Path) -> Path:
    return path.with_name(f"{path.name}{_BROKEN}")
