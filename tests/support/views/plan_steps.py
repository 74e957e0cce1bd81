"""The steps in which a plan is started or added, driven by keys."""

from __future__ import annotations

from pathlib import Path

from textual.widgets import Input

from ktui.planning.plan import Plan, plan_as_json
from ktui.tui.screens.plan.plan import PlanScreen
from ktui.tui.screens.plan.preview import PreviewPane
from support.views.running import RunWatched


def a_plan_file(folder: Path, plan: Plan | str, name: str) -> Path:
    path = folder / name
    path.write_text(plan if isinstance(plan, str) else plan_as_json(plan), encoding="utf-8")
    return path


def plan_screen(watch: RunWatched) -> PlanScreen:
    screen = watch.app.screen
    assert isinstance(screen, PlanScreen)
    return screen


def field(watch: RunWatched, name: str) -> Input:
    return watch.app.screen.query_one(name, Input)


async def read(watch: RunWatched, path: Path | str) -> None:
    """Go back to the first step, and have a plan read."""
    await go_to(watch, "plan")
    field(watch, "#plan-path").value = str(path)
    field(watch, "#plan-path").focus()
    await watch.press("enter")


async def go_to(watch: RunWatched, step: str) -> None:
    """Go to a step by enter and escape, as far as the screen lets one."""
    screen = plan_screen(watch)
    names = [each.name for each in screen.STEPS]
    while names.index(screen.step.name) > names.index(step):
        await watch.press("escape")
    while screen.step.name != step:
        await settled(watch)
        before = screen.step.name
        await watch.press("enter")
        if screen.step.name == before:
            return


async def settled(watch: RunWatched) -> None:
    """Wait until the preview is that of what was typed."""
    await watch.until(lambda: not plan_screen(watch).computes)


async def confirm(watch: RunWatched, name: str) -> None:
    """Go on to the last step, and type the run's name there."""
    screen = plan_screen(watch)
    await go_to(watch, screen.STEPS[-1].name)
    await settled(watch)
    if screen.step is screen.STEPS[-1]:
        field(watch, "#plan-again").value = name
        field(watch, "#plan-again").focus()
        await watch.press("enter")


async def tick(watch: RunWatched, box: str, step: str) -> None:
    """Tick a box in its step."""
    await go_to(watch, step)
    watch.app.screen.query_one(box).focus()
    await watch.press("space")


def report(watch: RunWatched) -> str:
    """Return what is shown about the plan, in whatever step: what was read, found and computed."""
    screen = watch.app.screen
    found = [*map(screen.query_one, ("#plan-read", "#plan-findings")), *screen.query(".wrong")]
    words = [str(widget.render()) for widget in found]
    return "\n".join([*words, watch.app.screen.query_one(PreviewPane).text])


def answer_line(watch: RunWatched) -> str:
    return joined_words(str(watch.app.screen.query_one("#plan-answer").render()))


def joined_words(text: str) -> str:
    return " ".join(text.split())
