"""The cancel dialog of a view that is attached to a run, and the outcome of its cancels."""

from __future__ import annotations

from ktui.execution.run.states import State
from ktui.simulated.controller.records import Registration
from support.simulated.moving_clusters import tp
from support.views.running import RunWatched


async def open_dialog(watch: RunWatched, *keys: str) -> None:
    """Open the cancel dialog, choose, and poll the chosen partitions."""
    await watch.press("c", *keys)
    await watch.see()
    await watch.see()


async def carry_out(watch: RunWatched, *keys: str) -> None:
    """Choose in the cancel dialog, and confirm the choice."""
    await open_dialog(watch, *keys)
    await watch.press("y")
    await watch.see()
    await watch.see()


def state_of(watch: RunWatched, name: str) -> State:
    """Return the state of a partition in the run."""
    assert watch.app.attached is not None
    return watch.app.attached.run.tracks[tp(name)].state


def asked(watch: RunWatched) -> list[object]:
    """Return the commands to the run that are not answered yet."""
    assert watch.app.attached is not None
    return [each.command for each in watch.app.attached._commands.asked()]


def known(watch: RunWatched, name: str) -> Registration:
    """Return a partition as the controller has it."""
    found = watch.cluster.controller.get(tp(name))
    assert found is not None
    return found
